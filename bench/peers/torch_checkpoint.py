#!/usr/bin/env python3
"""torch.distributed.checkpoint on a model and its AdamW moments, sharded by FSDP2, fp32. Prints one line of JSON per
measurement.

  torchrun --standalone --nproc-per-node 4 torch_checkpoint.py --folder DIR --device cuda
      save, asynchronous save, load
  torchrun --standalone --nproc-per-node 2 torch_checkpoint.py --folder DIR --device cuda --load
      loads what another number of ranks saved

A save is timed from the call to the return of the slowest rank; files are synced, as the writer does by default. Of the
asynchronous save the stall is the time of the call, and the rest is under way beside the training. A load is into
tensors of other values, and ends with a check of one tensor per rank against what was saved."""
import argparse
import json
import os
import shutil
import time

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard

from torch_step import MODELS, Model


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(MODELS), default="gpt2_1558m")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--folder", required=True,
                        help="where checkpoints are written; what another call saved there is kept")
    parser.add_argument("--load", action="store_true",
                        help="only load; the folder holds a save of another number of ranks")
    parser.add_argument("--threads", type=int, default=1,
                        help="writing threads of a rank (FileSystemWriter's default is 1)")
    parser.add_argument("--saves", type=int, default=1, help="synchronous saves, one after the other")
    parser.add_argument("--asynchronous", type=int, default=2, help="asynchronous saves, one after the other")
    return parser.parse_args()


def marked(seed, shape, device):
    """Values that only this seed gives."""
    return torch.randn(shape, generator=torch.Generator(device=device).manual_seed(seed), device=device)


def main():
    a = arguments()
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    gpu = a.device == "cuda"
    device = torch.device("cuda", local) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if gpu else "gloo")
    m = MODELS[a.model]
    with torch.device("meta"):
        model = Model(m)
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    model.to_empty(device=device)
    for p in model.parameters():
        torch.nn.init.normal_(p, 0.0, 0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()  # the moments exist now
    optimizer.zero_grad(set_to_none=True)
    for p in model.parameters():
        for name in ("exp_avg", "exp_avg_sq"):
            torch.nn.init.normal_(optimizer.state[p][name])

    def state():
        weights, moments = get_state_dict(model, optimizer)
        return {"model": weights, "optim": moments}

    size = 3 * 4 * sum(p.numel() for p in model.parameters())

    def settle():
        if gpu:
            torch.cuda.synchronize()
        dist.barrier()

    def say(what, seconds, **more):
        if rank == 0:
            row = {"who": "torch.distributed.checkpoint", "version": torch.__version__, "what": what,
                   "ranks": dist.get_world_size(), "bytes": size, "seconds": round(seconds, 3),
                   "gb_per_s": round(size / seconds / 1e9, 3), "threads": a.threads, **more}
            print(json.dumps(row), flush=True)

    def timed(work):
        settle()
        start = time.perf_counter()
        work()
        settle()
        return time.perf_counter() - start

    def folder(name):
        path = os.path.join(a.folder, name)
        if rank == 0:
            shutil.rmtree(path, ignore_errors=True)
            os.makedirs(path)
        dist.barrier()
        return path

    def writer(path):
        return dcp.FileSystemWriter(path, thread_count=a.threads)

    probe = model.blocks[0].up.weight.to_local()

    def check_loaded():
        whole = marked(5, tuple(model.blocks[0].up.weight.shape), "cpu")
        mine = whole.chunk(dist.get_world_size())[rank].to(device)
        if not torch.equal(mine, probe):
            raise SystemExit("torch_checkpoint: what was loaded is not what was saved")

    def mark():
        whole = marked(5, tuple(model.blocks[0].up.weight.shape), "cpu")
        with torch.no_grad():
            probe.copy_(whole.chunk(dist.get_world_size())[rank].to(device))

    def load(name):
        with torch.no_grad():
            probe.zero_()
        current = state()
        seconds = timed(lambda: dcp.load(current, checkpoint_id=os.path.join(a.folder, name)))
        check_loaded()
        say("load", seconds)

    if a.load:
        load("saved")
    else:
        mark()
        for _ in range(a.saves):
            path = folder("saved")
            say("save", timed(lambda: dcp.save(state(), storage_writer=writer(path))))
        load("saved")
        for _ in range(a.asynchronous):
            path = folder("asynchronous")
            settle()
            start = time.perf_counter()
            future = dcp.async_save(state(), storage_writer=writer(path))
            stall = torch.tensor(time.perf_counter() - start)
            future.result()
            settle()
            whole = time.perf_counter() - start
            dist.all_reduce(stall, op=dist.ReduceOp.MAX)  # on the CPU
            say("asynchronous save", whole, stall_s=round(stall.item(), 3))
        folder("asynchronous")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
