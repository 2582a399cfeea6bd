#!/usr/bin/env python3
"""A checkpoint of torch.distributed.checkpoint: two ranks, tensors that are split by rows and by columns and one that
is whole, beside an object; and one of views of other orders and of other dtypes. Run by hand: make.py (needs torch)."""
import os
import pathlib
import shutil

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

KEPT = pathlib.Path(__file__).parent / "kept"
VIEWS = pathlib.Path(__file__).parent / "views"


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


def save_views():
    x = counted(12)
    state = {"transposed": counted(3, 4).t(),
             "channels_last": counted(2, 3, 2, 2).to(memory_format=torch.channels_last),
             "expanded": counted(3, 1).expand(3, 4), "scalar_expanded": torch.tensor(1.5).expand(2, 2),
             "part": counted(4, 6)[1:, ::2], "overlapping": x.as_strided((4, 3), (2, 1), 1), "empty": x[:0],
             "int8": torch.arange(-2, 2, dtype=torch.int8),
             "int16": torch.arange(6, dtype=torch.int16).reshape(2, 3).t(),
             "bool": torch.tensor([True, False, True])[::2], "float8": counted(4).to(torch.float8_e4m3fn),
             "bf16": counted(2, 3, dtype=torch.bfloat16).t(), "complex64": torch.tensor([1 + 2j])}
    dcp.save(state, checkpoint_id=VIEWS, no_dist=True)


if __name__ == "__main__":
    shutil.rmtree(KEPT, ignore_errors=True)
    shutil.rmtree(VIEWS, ignore_errors=True)
    mp.spawn(save, nprocs=2)
    save_views()
