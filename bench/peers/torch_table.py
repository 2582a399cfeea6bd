#!/usr/bin/env python3
"""The peer of bench-embedding-update: a table in PyTorch, its rows taken, gradients given, updated; sparse by
SparseAdam, dense by fused AdamW. A line of JSON for each.

  python3 torch_table.py [ROWS] [WIDTH] [IDS] [STEPS] [DEVICE]"""
import json
import statistics
import sys
import time

import torch

given = sys.argv[1:]
rows, width, count, steps = [int(word) for word in given[:4]] + [2_000_000, 16, 2048, 50][len(given[:4]):]
device = given[4] if len(given) > 4 else "cuda"
WARM = 10


def pinned(tensor):
    return tensor.pin_memory() if device == "cuda" else tensor


for sparse in (True, False):
    table = torch.nn.Embedding(rows, width, sparse=sparse, device=device)
    optimizer = torch.optim.SparseAdam(table.parameters()) if sparse else torch.optim.AdamW(table.parameters(),
                                                                                            fused=True)
    ids = [pinned(torch.randint(rows, (count,))) for _ in range(steps + WARM)]
    gradients = pinned(torch.full((count, width), 0.01))
    times = []
    for some in ids:
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = (table(some.to(device, non_blocking=True)) * gradients.to(device, non_blocking=True)).sum()
        loss.backward()
        optimizer.step()
        loss.item()
        times.append(time.perf_counter() - start)
    timed = times[WARM:]
    print(json.dumps({"torch": torch.__version__, "gradient": "sparse" if sparse else "dense", "rows": rows,
                      "width": width, "ids": count, "device": device, "step_ms": statistics.median(timed) * 1e3,
                      "step_ms_min": min(timed) * 1e3}))
