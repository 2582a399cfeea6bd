#!/usr/bin/env python3
"""One training step in PyTorch as people write it: autocast to bf16, torch.compile, scaled_dot_product_attention, fused
AdamW, clipping by the global norm. Prints one line of JSON, times in ms.

  python3 torch_step.py --model gpt2_124m --device cuda --compile --bf16
      one GPU
  torchrun --standalone --nproc-per-node 4 torch_step.py --model gpt2_124m ...
      DDP, the same batch for each rank
  torchrun ... torch_step.py --model llama_8b --fsdp reshard ...
      FSDP2: weights sharded, gathered in bf16, block by block
  torchrun ... torch_step.py --model llama_8b --fsdp keep --compile-head ...
      last norm, head and loss as one compiled function too
  python3 torch_step.py [STEPS] [--compile] [--bf16]
      the second model of bench-step, on the CPU"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
if "--deterministic" in sys.argv:
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is opened

import torch
import torch.nn as nn
import torch.nn.functional as F

MODELS = {
    "bench": dict(kind="gpt", vocab=256, context=256, width=384, depth=6, heads=6, batch=16),
    "gpt2_124m": dict(kind="gpt", vocab=50304, context=1024, width=768, depth=12, heads=12, batch=64),
    "gpt2_1558m": dict(kind="gpt", vocab=50304, context=1024, width=1600, depth=48, heads=25, batch=16),
    "llama_1b5": dict(kind="llama", vocab=50304, context=1024, width=2048, depth=24, heads=16, kv_heads=8, hidden=6656,
                      batch=16),
    "llama_1b": dict(kind="llama", vocab=128256, context=4096, width=2048, depth=16, heads=32, kv_heads=8,
                     hidden=8192, batch=4),
    "qwen_1b5": dict(kind="llama", vocab=151936, context=1024, width=1536, depth=28, heads=12, kv_heads=2,
                     hidden=8960, batch=32),
    "llama_8b": dict(kind="llama", vocab=128256, context=8192, width=4096, depth=32, heads=32, kv_heads=8, hidden=14336,
                     batch=1),
}


class GptBlock(nn.Module):
    def __init__(self, m):
        super().__init__()
        c = m["width"]
        self.heads = m["heads"]
        self.norm1, self.norm2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.qkv, self.out = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class LlamaBlock(nn.Module):
    def __init__(self, m):
        super().__init__()
        c, self.heads, self.kv_heads = m["width"], m["heads"], m["kv_heads"]
        d = c // self.heads
        self.norm1, self.norm2 = nn.RMSNorm(c, eps=1e-5), nn.RMSNorm(c, eps=1e-5)
        self.q, self.out = nn.Linear(c, c, bias=False), nn.Linear(c, c, bias=False)
        self.k, self.v = nn.Linear(c, self.kv_heads * d, bias=False), nn.Linear(c, self.kv_heads * d, bias=False)
        self.gate, self.up = nn.Linear(c, m["hidden"], bias=False), nn.Linear(c, m["hidden"], bias=False)
        self.down = nn.Linear(m["hidden"], c, bias=False)
        self.angles = (m["context"], d)
        self.register_buffer("cos", torch.empty(m["context"], d), persistent=False)
        self.register_buffer("sin", torch.empty(m["context"], d), persistent=False)

    def fill(self):
        t, d = self.angles
        angle = (torch.arange(t, device=self.cos.device)[:, None]
                 / 10000 ** (torch.arange(0, d, 2, device=self.cos.device) / d)[None, :])
        self.cos.copy_(angle.cos().repeat(1, 2))
        self.sin.copy_(angle.sin().repeat(1, 2))

    def turn(self, x):  # [b, heads, t, d]
        a, b = x.chunk(2, dim=-1)
        t = x.shape[2]
        return (x * self.cos[:t] + torch.cat((-b, a), dim=-1) * self.sin[:t]).to(x.dtype)

    def forward(self, x):
        b, t, c = x.shape
        d = c // self.heads
        h = self.norm1(x)
        q = self.turn(self.q(h).view(b, t, self.heads, d).transpose(1, 2))
        k = self.turn(self.k(h).view(b, t, self.kv_heads, d).transpose(1, 2))
        v = self.v(h).view(b, t, self.kv_heads, d).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(y)
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self, m):
        super().__init__()
        c, self.gpt = m["width"], m["kind"] == "gpt"
        self.token = nn.Embedding(m["vocab"], c)
        if self.gpt:
            self.position = nn.Embedding(m["context"], c)
        self.blocks = nn.ModuleList((GptBlock if self.gpt else LlamaBlock)(m) for _ in range(m["depth"]))
        self.norm = nn.LayerNorm(c) if self.gpt else nn.RMSNorm(c, eps=1e-5)
        self.head = nn.Linear(c, m["vocab"], bias=False)
        self.loss_of = self.loss
        if self.gpt:
            self.head.weight = self.token.weight

    def fill(self, m):  # values, once the parameters have memory
        for block in self.blocks:
            if not self.gpt:
                block.fill()
        for name, p in self.named_parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * m["depth"]) if name.endswith(("out.weight", "down.weight"))
                                else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)
            else:
                nn.init.ones_(p)

    def forward(self, ids, targets):
        x = self.token(ids)
        if self.gpt:
            x = x + self.position(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.loss_of(x, targets)

    def loss(self, x, targets):
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.reshape(-1))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("steps", nargs="?", type=int, help="timed steps; 20 on a GPU, 9 on the CPU")
    parser.add_argument("--model", choices=sorted(MODELS), default="bench")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--batch", type=int, help="sequences per step and rank; default: the model's")
    parser.add_argument("--micro", type=int, help="sequences per forward and backward; default: the batch")
    parser.add_argument("--warmup", type=int, help="steps before the timed ones; 10 on a GPU, 2 on the CPU")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--compile-head", action="store_true",
                        help="with --fsdp: last norm, head and loss as one compiled function")
    parser.add_argument("--bf16", action="store_true", help="autocast; else fp32 (on a GPU without TF32)")
    parser.add_argument("--tf32", action="store_true", help="fp32 whose products may read TF32")
    parser.add_argument("--fsdp", choices=["reshard", "keep"],
                        help="FSDP2 instead of DDP; keep: weights stay whole from forward to backward")
    parser.add_argument("--deterministic", action="store_true", help="torch.use_deterministic_algorithms")
    parser.add_argument("--attention", choices=["auto", "flash", "cudnn"], default="auto",
                        help="kernel of scaled_dot_product_attention")
    parser.add_argument("--tokens", help="token file (bench/gpu/make_tokens.py); else random tokens")
    return parser.parse_args()


def clocks(index):
    query = "clocks.sm,clocks.mem,power.draw,temperature.gpu"
    try:
        out = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits", "-i", str(index)],
                             capture_output=True, text=True, timeout=20).stdout
        return dict(zip(query.split(","), (float(x) for x in out.strip().split(","))))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}


def main():
    a = arguments()
    m = MODELS[a.model]
    gpu = a.device == "cuda"
    steps, warmup = a.steps or (20 if gpu else 9), a.warmup if a.warmup is not None else (10 if gpu else 2)
    rank, ranks, local = (int(os.environ.get(name, default)) for name,
                          default in (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0)))
    if a.compile_head and not a.fsdp:
        sys.exit("torch_step: --compile-head is for --fsdp; without it --compile takes in the whole model")
    batch = a.batch or m["batch"]
    micro = a.micro or batch
    if batch % micro:
        sys.exit(f"torch_step: --batch {batch} is no multiple of --micro {micro}")
    device = torch.device("cuda", local) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = a.tf32
    if a.deterministic:
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False
    import contextlib
    with torch.device("meta") if a.fsdp else device:
        model = Model(m)
    bare = model
    if ranks > 1 or a.fsdp:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("nccl" if gpu else "gloo")
    if a.fsdp:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16,
                                      reduce_dtype=torch.float32) if a.bf16 else MixedPrecisionPolicy()
        for block in model.blocks:
            if a.compile:
                block.compile()
            fully_shard(block, mp_policy=policy, reshard_after_forward=a.fsdp == "reshard")
        if a.compile_head:
            model.loss_of = torch.compile(model.loss)
        fully_shard(model, mp_policy=policy, reshard_after_forward=a.fsdp == "reshard")
        model.to_empty(device=device)
    bare.fill(m)
    if ranks > 1 and not a.fsdp:
        model = DistributedDataParallel(model, device_ids=[local] if gpu else None, gradient_as_bucket_view=True)
    run = torch.compile(model) if a.compile and not a.fsdp else model
    matrices, vectors = [p for p in bare.parameters() if p.dim() > 1], [p for p in bare.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-4 if m["width"] > 768 else 3e-4, betas=(0.9, 0.95), fused=True)

    t, count = m["context"], 8  # batches that take turns
    if a.tokens:
        import numpy
        words = numpy.fromfile(a.tokens, dtype=numpy.uint16, offset=1024)
        need = count * ranks * batch * t + 1
        words = numpy.resize(words, need)[rank * count * batch * t :][: count * batch * t + 1].astype(numpy.int64)
        ids, targets = (torch.from_numpy(words[i : i + count * batch * t]).view(count, batch, t).clone()
                        for i in (0, 1))
    else:
        generator = torch.Generator().manual_seed(7 + rank)
        both = torch.randint(0, m["vocab"], (count, batch, t + 1), generator=generator)
        ids, targets = both[..., :-1].contiguous(), both[..., 1:].contiguous()
    if gpu:
        ids, targets = ids.pin_memory(), targets.pin_memory()

    kernel = contextlib.nullcontext
    if a.attention != "auto":
        from torch.nn.attention import SDPBackend, sdpa_kernel
        kernel = lambda: sdpa_kernel({"flash": SDPBackend.FLASH_ATTENTION,
                                      "cudnn": SDPBackend.CUDNN_ATTENTION}[a.attention])

    done = 0

    def step():
        nonlocal done
        x, y = (s[done % count].to(device, non_blocking=True) for s in (ids, targets))
        done += 1
        total = None
        for first in range(0, batch, micro):
            last = first + micro >= batch
            with contextlib.nullcontext() if last or ranks == 1 or a.fsdp else model.no_sync():
                with torch.autocast(device.type, dtype=torch.bfloat16, enabled=a.bf16 and not a.fsdp), kernel():
                    loss = run(x[first : first + micro], y[first : first + micro]) * (micro / batch)
                loss.backward()
            total = loss.detach() if total is None else total + loss.detach()
        torch.nn.utils.clip_grad_norm_(bare.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total

    start = time.perf_counter()
    first_loss = float(step())
    compiled = time.perf_counter() - start
    for _ in range(warmup):
        step()
    if gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
        begin = time.perf_counter()
        marks[0].record()
        for i in range(steps):
            loss = step()
            marks[i + 1].record()
        torch.cuda.synchronize()
        wall = (time.perf_counter() - begin) / steps
        times = [marks[i].elapsed_time(marks[i + 1]) for i in range(steps)]
    else:
        times = []
        begin = time.perf_counter()
        for _ in range(steps):
            start = time.perf_counter()
            loss = step()
            times.append((time.perf_counter() - start) * 1e3)
        wall = (time.perf_counter() - begin) / steps
    last_loss = float(loss)
    seen = {}
    if gpu:
        allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        free, whole = torch.cuda.mem_get_info()
        for _ in range(6):  # the clocks under this load; the same number on every rank
            step()
        seen = clocks(local)
        torch.cuda.synchronize()
    median = statistics.median(times)
    if rank == 0:
        row = {"who": "pytorch", "version": torch.__version__, "workload": a.model, "ranks": ranks,
               "batch_per_rank": batch, "micro": micro, "tokens_per_step": batch * t * ranks,
               "parameters": sum(p.numel() for p in bare.parameters()), "bf16": a.bf16, "compile": a.compile,
               "compile_head": a.compile_head or (a.compile and not a.fsdp), "deterministic": a.deterministic,
               "attention": a.attention, "fsdp": a.fsdp, "device": a.device, "step_ms": round(median, 3),
               "step_ms_min": round(min(times), 3), "step_ms_max": round(max(times), 3),
               "wall_ms": round(wall * 1e3, 3), "tokens_per_s": round(batch * t * ranks / median * 1e3),
               "first_step_s": round(compiled, 1), "loss_first": first_loss, "loss_last": last_loss,
               "timed_steps": steps}
        if gpu:
            row.update(name=torch.cuda.get_device_name(), peak_allocated=allocated, peak_reserved=reserved,
                       device_used=whole - free, clocks=seen)
        else:
            row.update(threads=torch.get_num_threads())
        print(json.dumps(row), flush=True)
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
