#!/usr/bin/env python3
"""The floor of a workload on one GPU: what no arrangement of the same arithmetic can beat with these libraries.

Every contraction of a step (forward and both gradients) timed alone in bf16 on random data, attention forward and
backward timed alone (the fastest kernel at hand; the deterministic one is printed beside it), and the bytes of
everything else at the speed of a large copy: norms with their residual sums 16 C bytes per token and norm pass, the
loss 4 V per token, the optimizer 34 per parameter. Prints one line of JSON per workload: python3 floor.py gpt2_124m
gpt2_1558m llama_1b5"""
import json
import os
import statistics
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

MODELS = {
    "gpt2_124m": dict(kind="gpt", batch=64, t=1024, v=50304, c=768, depth=12, heads=12, kv=12, hidden=3072,
                      parameters=124475904),
    "gpt2_1558m": dict(kind="gpt", batch=16, t=1024, v=50304, c=1600, depth=48, heads=25, kv=25, hidden=6400,
                       parameters=1557686400),
    "llama_1b5": dict(kind="llama", batch=16, t=1024, v=50304, c=2048, depth=24, heads=16, kv=8, hidden=6656,
                      parameters=1489602560),
}


def median_ms(work, runs=12):
    """Median milliseconds of a call, between events."""
    for _ in range(3):
        work()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(runs + 1)]
    marks[0].record()
    for mark in marks[1:]:
        work()
        mark.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in zip(marks, marks[1:]))


def noise(*shape, grad=False):
    return torch.randn(shape, dtype=torch.bfloat16, device="cuda").requires_grad_(grad)


def linear_ms(n, k, m):
    """x [n,k] by a weight [m,k]: the product and both gradients."""
    x, w, dy = noise(n, k), noise(m, k), noise(n, m)
    out, dx, dw = torch.empty_like(dy), torch.empty_like(x), torch.empty_like(w)
    return (median_ms(lambda: torch.mm(x, w.t(), out=out)) + median_ms(lambda: torch.mm(dy, w, out=dx)) +
            median_ms(lambda: torch.mm(dy.t(), x, out=dw)))


def attention_ms(m, backend, deterministic):
    d = m["c"] // m["heads"]
    torch.use_deterministic_algorithms(deterministic, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    q = noise(m["batch"], m["heads"], m["t"], d, grad=True)
    k, v = (noise(m["batch"], m["kv"], m["t"], d, grad=True) for _ in range(2))
    with sdpa_kernel(backend):
        def forward():
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=m["heads"] != m["kv"])
        dy = torch.randn_like(forward())
        def both():
            torch.autograd.grad(forward(), (q, k, v), dy)
        try:
            return median_ms(both)
        except RuntimeError:
            return None
        finally:
            torch.use_deterministic_algorithms(False)


def copy_rate():
    """Bytes per second, read and written, of a copy of 4 GiB."""
    a = torch.empty(1 << 32, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    return 2 * a.numel() / (median_ms(lambda: b.copy_(a)) * 1e-3)


def main():
    rate = copy_rate()
    for name in sys.argv[1:] or list(MODELS):
        m = MODELS[name]
        n, c, d = m["batch"] * m["t"], m["c"], m["c"] // m["heads"]
        layers = [(c, c + 2 * m["kv"] * d), (c, c), (c, m["hidden"]), (m["hidden"], c)]
        if m["kind"] == "llama":
            layers.append((c, m["hidden"]))
        blocks = sum(linear_ms(n, k, out) for k, out in layers) * m["depth"]
        head = linear_ms(n, c, m["v"])
        torch.cuda.empty_cache()
        kernels = {"flash": (SDPBackend.FLASH_ATTENTION, False),
                   "flash_deterministic": (SDPBackend.FLASH_ATTENTION, True),
                   "cudnn": (SDPBackend.CUDNN_ATTENTION, False)}
        attention = {}
        for kernel, (backend, deterministic) in kernels.items():
            try:
                ms = attention_ms(m, backend, deterministic)
            except RuntimeError:
                ms = None
            if ms is not None:
                attention[kernel] = round(ms * m["depth"], 2)
        fastest = min(attention.values(), default=0.0)
        moved = n * (m["depth"] * 2 * 16 * c + 4 * m["v"]) + 34 * m["parameters"]
        bytes_ms = moved / rate * 1e3
        row = {"who": "floor", "workload": name, "contractions_ms": round(blocks + head, 2), "attention_ms": fastest,
               "attention": attention, "bytes_ms": round(bytes_ms, 2), "copy_gb_per_s": round(rate / 1e9),
               "libraries_ms": round(blocks + head + fastest, 2),
               "floor_ms": round(blocks + head + fastest + bytes_ms, 2)}
        print(json.dumps(row), flush=True)
        torch.cuda.empty_cache()


main()
