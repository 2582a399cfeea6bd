#!/usr/bin/env python3
"""Writes gradients.json: PyTorch's gradients of gradients. For y = f(inputs), g = the gradients of sum(y c) and p =
sum(g d), with c and d given numbers: y, g, and the gradients of p with respect to the inputs.

    python3 tests/golden/gradients/make.py     (needs torch; the tests read the file alone)
"""
import json
import pathlib

import torch
import torch.nn.functional as F


def values(shape, salt):
    n = 1
    for s in shape:
        n *= s
    return torch.tensor([(((i * 37 + salt * 101) % 97) - 48) / 64 for i in range(n)],
                        dtype=torch.float64).reshape(shape)


def attention(q, k, v):  # heads stand before tokens in PyTorch
    t = lambda x: x.transpose(1, 2)
    scores = t(q) @ t(k).transpose(-1, -2) / q.shape[-1] ** 0.5
    hidden = torch.ones(q.shape[1], k.shape[1]).tril().bool().logical_not()
    return t(torch.softmax(scores.masked_fill(hidden, float("-inf")), -1) @ t(v))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * x * x * w

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        return dy * x * x * w * 2, dy * x  # not its derivative, so that a test sees which one was taken


CASES = {
    "critic": (lambda x, w, b, lw, lb,
               v: F.linear(F.layer_norm(F.gelu(F.linear(x, w, b), approximate="tanh"), (5,), lw, lb), v),
               [(3, 4), (5, 4), (5,), (5,), (5,), (1, 5)]),
    "attention": (attention, [(2, 3, 2, 4), (2, 3, 2, 4), (2, 3, 2, 4)]),
    "cross_entropy": (lambda x: F.cross_entropy(x, torch.tensor([1, 0, 4]), reduction="sum"), [(3, 5)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (5,), w, 1e-5), [(3, 5), (5,)]),
    "swiglu": (lambda x, a, b: F.silu(F.linear(x, a)) * F.linear(x, b), [(3, 4), (5, 4), (5, 4)]),
    "convolution": (lambda x, w, b: torch.tanh(F.conv2d(x, w, b, stride=2, padding=1)),
                    [(2, 3, 5, 4), (4, 3, 3, 3), (4,)]),
    "embedding": (lambda t: torch.softmax(F.embedding(torch.tensor([1, 0, 1, 3]), t), -1), [(4, 3)]),
    "custom": (lambda x, w: Cube.apply(torch.sin(x), w), [(3, 4), (3, 4)]),
}

out = {}
for name, (function, shapes) in CASES.items():
    inputs = [values(shape, salt + 1).requires_grad_() for salt, shape in enumerate(shapes)]
    y = function(*inputs)
    first = torch.autograd.grad((y * values(y.shape, 31)).sum(), inputs, create_graph=True)
    p = sum((g * values(g.shape, 41 + i)).sum() for i, g in enumerate(first))
    second = torch.autograd.grad(p, inputs, allow_unused=True)
    flat = lambda x: x.detach().flatten().tolist()
    out[name] = {"shapes": [list(s) for s in shapes], "y": flat(y), "first": [flat(g) for g in first],
                 "second": [flat(torch.zeros_like(x) if g is None else g) for x, g in zip(inputs, second)]}
pathlib.Path(__file__).with_name("gradients.json").write_text(json.dumps(out) + "\n")
