#!/usr/bin/env python3
"""A checkpoint of torch.distributed.checkpoint: two ranks, tensors that are split by rows and by columns and one that is whole, beside an
object. Run by hand: make.py (needs torch)."""
import os
import pathlib
import shutil

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

KEPT = pathlib.Path(__file__).parent / "kept"


def counted(*shape, dtype=torch.float32):
    return (torch.arange(torch.Size(shape).numel()) / 8 - 2).reshape(shape).to(dtype)


def save(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29611", RANK=str(rank), WORLD_SIZE="2")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    state = {"model": {"up.weight": distribute_tensor(counted(5, 3), mesh, [Shard(0)]),
                       "up.bias": distribute_tensor(counted(3, dtype=torch.bfloat16), mesh, [Replicate()]),
                       "down.weight": distribute_tensor(counted(2, 6), mesh, [Shard(1)]), "count": torch.tensor(7)},
             "step": 12}
    dcp.save(state, checkpoint_id=KEPT)
    dist.destroy_process_group()


if __name__ == "__main__":
    shutil.rmtree(KEPT, ignore_errors=True)
    mp.spawn(save, nprocs=2)
