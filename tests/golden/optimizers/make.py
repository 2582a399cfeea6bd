#!/usr/bin/env python3
"""Writes optimizers.json: what PyTorch's optimizers make of one weight and one bias in five steps of given gradients.

    python3 tests/golden/optimizers/make.py     (needs torch; the tests read the file alone)
"""
import json
import pathlib

import torch

STEPS = 5
PASSED_OVER = [1, 4, 5, 8]  # of nine
CASES = {
    "adamw": (torch.optim.AdamW, dict(lr=0.02, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1)),
    "sgd": (torch.optim.SGD, dict(lr=0.05, momentum=0.9, weight_decay=0.1)),
    "nesterov": (torch.optim.SGD, dict(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1)),
    "rmsprop": (torch.optim.RMSprop, dict(lr=0.02, alpha=0.9, eps=1e-6, momentum=0.5, weight_decay=0.1)),
    "adagrad": (torch.optim.Adagrad, dict(lr=0.1, eps=1e-6, weight_decay=0.1)),
    "adafactor": (torch.optim.Adafactor, dict(lr=0.05, eps=(1e-6, 1e-3), d=1.0, weight_decay=0.1)),
    "muon": (torch.optim.Muon, dict(lr=0.02, weight_decay=0.1)),
    "muon_rms": (torch.optim.Muon, dict(lr=0.02, momentum=0.9, nesterov=False, adjust_lr_fn="match_rms_adamw")),
    "muon_tall": (torch.optim.Muon, dict(lr=0.02, weight_decay=0.1)),
}
# Muon rounds its matrices to bf16; here it computes in the dtype of the rest.
torch.Tensor.bfloat16 = lambda x: x.clone()


def values(shape, salt):
    n = 1
    for s in shape:
        n *= s
    return torch.tensor([(((i * 37 + salt * 101) % 97) - 48) / 64 for i in range(n)],
                        dtype=torch.float64).reshape(shape)


def train(name, kind, options, steps):
    # "tall": the same numbers as a matrix with more rows than columns.
    shape = (4, 3) if name == "muon_tall" else (3, 4)
    weight, bias = values(shape, 1).requires_grad_(), values((3,), 2).requires_grad_()
    # Tensors of fewer than two dims do not decay. Muon takes matrices alone; AdamW has the bias.
    muon = kind is torch.optim.Muon
    groups = [dict(params=[weight])] + ([] if muon else [dict(params=[bias], weight_decay=0.0)])
    optimizers = [kind(groups, **options)]
    if muon:
        optimizers.append(torch.optim.AdamW([bias], lr=0.05, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.0))
    for step in steps:
        weight.grad, bias.grad = values(shape, 10 + step), values((3,), 20 + step)
        for optimizer in optimizers:
            optimizer.step()
    return {"weight": weight.detach().flatten().tolist(), "bias": bias.detach().flatten().tolist()}


out = {"steps": STEPS, "cases": {}, "passed_over": PASSED_OVER, "skipped": {}}
for name, (kind, options) in CASES.items():
    out["cases"][name] = train(name, kind, options, range(1, STEPS + 1))
    # Where the gradients of some steps are no numbers, the optimizer is not called, and counts no update.
    out["skipped"][name] = train(name, kind, options, [s for s in range(1, 10) if s not in PASSED_OVER])

# A bias that joins behind step 4: a parameter counts its own updates.
out["joined"] = {}
for name in ("adamw", "adafactor"):
    kind, options = CASES[name]
    weight, bias = values((3, 4), 1).requires_grad_(), values((3,), 2).requires_grad_()
    optimizer = kind([weight], **options)
    for step in range(1, 8):
        if step == 5:
            optimizer.add_param_group(dict(params=[bias], weight_decay=0.0))
        weight.grad, bias.grad = values((3, 4), 10 + step), values((3,), 20 + step)
        optimizer.step()
    out["joined"][name] = {"weight": weight.detach().flatten().tolist(), "bias": bias.detach().flatten().tolist()}

# Sparse gradients of a table: six ids in each step, some of them again. Row-wise Adagrad is by hand.
ROWS, WIDTH, IDS = 9, 4, 6
SPARSE = {
    "sparse_adam": (torch.optim.SparseAdam, dict(lr=0.02, betas=(0.8, 0.9), eps=1e-6)),
    "sparse_adagrad": (torch.optim.Adagrad, dict(lr=0.1, eps=1e-6)),
    "sparse_sgd": (torch.optim.SGD, dict(lr=0.05)),
    "rowwise_adagrad": (None, dict(lr=0.1, eps=1e-6)),
}
out["sparse"], out["sparse_skipped"] = {}, {}


def train_table(kind, options, steps):
    table = torch.nn.Embedding(ROWS, WIDTH, sparse=True, dtype=torch.float64)
    table.weight.data.copy_(values((ROWS, WIDTH), 1))
    optimizer = kind(table.parameters(), **options) if kind else None
    sums = torch.zeros(ROWS, 1, dtype=torch.float64)
    for step in steps:
        ids = torch.tensor([(i * i + 3 * step) % ROWS for i in range(IDS)])
        table.zero_grad()
        (table(ids) * values((IDS, WIDTH), 10 + step)).sum().backward()
        if optimizer:
            optimizer.step()
            continue
        gradient = table.weight.grad.coalesce()
        rows, g = gradient.indices()[0], gradient.values()
        sums[rows] += (g * g).mean(1, keepdim=True)
        table.weight.data[rows] -= options["lr"] * g / (sums[rows].sqrt() + options["eps"])
    return table.weight.detach().flatten().tolist()


for name, (kind, options) in SPARSE.items():
    out["sparse"][name] = train_table(kind, options, range(1, STEPS + 1))
    out["sparse_skipped"][name] = train_table(kind, options, [s for s in range(1, 10) if s not in PASSED_OVER])

parameter = torch.zeros(1, requires_grad=True)
sgd = torch.optim.SGD([parameter], lr=1.0)
restarts = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(sgd, T_0=3, T_mult=2, eta_min=0.1)
out["restarts"] = []
for _ in range(12):
    out["restarts"].append(restarts.get_last_lr()[0])
    restarts.optimizer.step()
    restarts.step()
METRICS = [3, 2.5, 2.4, 2.41, 2.4, 2.39, 2.395, 2.5, 2.6, 2.7, 2.3, 2.31, 2.32, 2.33, 2.34, 2.35]
out["metrics"], out["plateau"] = METRICS, {}
for name, options in {
    "min": dict(factor=0.5, patience=1, threshold=1e-2),
    "max": dict(mode="max", factor=0.1, patience=2, threshold=0.05, threshold_mode="abs", cooldown=2, min_lr=0.05),
}.items():
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
    rates = out["plateau"][name] = []
    for metric in METRICS:
        optimizer.step()
        plateau.step(metric)
        rates.append(optimizer.param_groups[0]["lr"])
pathlib.Path(__file__).with_name("optimizers.json").write_text(json.dumps(out, indent=1) + "\n")
