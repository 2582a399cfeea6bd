#!/usr/bin/env python3
"""Writes cases.json beside this file: attention and rotary positions of PyTorch, forward and backward, in float64.

    python3 make.py          needs torch (2.11 wrote what is kept); the test needs none

A tensor is given by a formula of its element's number, and kept as its shape, some of its elements and two
inner products with tensors of that formula, so that every element counts. Masks, lengths, documents and
positions are formulas, too. Heads stand behind tokens, as in the tree.
"""
import json
import math
import pathlib

import torch
import torch.nn.functional as F


def formula(shape, seed):
    i = torch.arange(math.prod(shape), dtype=torch.int64)
    return (((i * 37 + i // 11 * 5 + seed * 17) % 101 - 50).double() / 64).reshape(shape)


def mask_of(shape):
    i = torch.arange(math.prod(shape), dtype=torch.int64)
    return ((i * 7 + i // 5) % 4 != 0).reshape(shape)


def lengths_of(batch, keys):
    return torch.tensor([(3 * b + 2) % keys + 1 for b in range(batch)])


def documents_of(batch, tokens):
    return torch.tensor([[t * (b + 2) // tokens for t in range(tokens)] for b in range(batch)])


def kept(t):
    flat = t.detach().reshape(-1)
    return {
        "shape": list(t.shape),
        "first": [float(f"{v:.9g}") for v in flat[:4].tolist()],
        "last": [float(f"{v:.9g}") for v in flat[-4:].tolist()],
        "products": [float(f"{(flat * formula(t.shape, s).reshape(-1)).sum().item():.10g}") for s in (91, 92)],
    }


def graded(y, leaves, names):
    y.backward(formula(y.shape, 4))
    out = {"y": kept(y)}
    for leaf, name in zip(leaves, names):
        out[name] = kept(leaf.grad)
    return out


def attention(b, t, s, h, g, d, **o):
    q, k, v = (formula(shape, i + 1).requires_grad_() for i,
               shape in enumerate([(b, t, h, d), (b, s, g, d), (b, s, g, d)]))
    leaves, names = [q, k, v], ["dq", "dk", "dv"]
    seen = torch.ones(b, 1, t, s, dtype=torch.bool)
    token, key = torch.arange(t).reshape(t, 1), torch.arange(s).reshape(1, s)
    if o.get("causal"):
        seen = seen & (key <= token)
    if o.get("window"):
        seen = seen & (key > token - o["window"])
    if o.get("lengths"):
        seen = seen & (key < lengths_of(b, s).reshape(b, 1, 1, 1))
    if o.get("documents"):
        ids = documents_of(b, t)
        seen = seen & (ids.reshape(b, 1, t, 1) == ids.reshape(b, 1, 1, s))
    if o.get("mask"):
        seen = seen & mask_of(o["mask"])
    added = torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, -math.inf)
    if o.get("bias"):
        bias = formula(o["bias"], 5).requires_grad_()
        leaves.append(bias), names.append("dbias")
        added = added + bias
    y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=added,
                                       scale=o.get("scale"), enable_gqa=h != g)
    row = {"op": "sdpa", "sizes": [b, t, s, h, g, d], "options": o}
    return row | graded(y.transpose(1, 2), leaves, names)


def rotary(b, t, h, d, **o):
    x = formula((b, t, h, d), 1).requires_grad_()
    dims = o.get("dims", d)
    half = dims // 2
    f = o["theta"] ** (-torch.arange(half, dtype=torch.float64) * 2 / dims)
    if "original" in o:  # Llama 3.1, as transformers has it
        wave, old = 2 * math.pi / f, o["original"]
        smooth = (old / wave - o["low"]) / (o["high"] - o["low"])
        between = (1 - smooth) * f / o["factor"] + smooth * f
        f = torch.where(wave > old / o["low"], f / o["factor"], torch.where(wave < old / o["high"], f, between))
    elif "factor" in o:
        f = f / o["factor"]
    position = torch.arange(t).expand(b, t)
    if o.get("positions"):
        position = torch.tensor([[(5 * i + 3 * j) % 29 for j in range(t)] for i in range(b)])
    angle = position.double()[:, :, None] * f
    if o.get("interleaved"):  # complex numbers, as Meta's Llama
        turn = torch.polar(torch.ones_like(angle), angle)
        z = torch.view_as_complex(x[..., :dims].reshape(b, t, h, half, 2)) * turn[:, :, None]
        y = torch.view_as_real(z).flatten(3)
    else:  # rotate_half, as Hugging Face's Llama
        a = x[..., :dims]
        turned = torch.cat((-a[..., half:], a[..., :half]), -1)
        c, s = (torch.cat((w, w), -1)[:, :, None] for w in (angle.cos(), angle.sin()))
        y = a * c + turned * s
    y = torch.cat((y, x[..., dims:]), -1)
    return {"op": "rope", "sizes": [b, t, h, d], "options": o} | graded(y, [x], ["dx"])


cases = [
    attention(2, 7, 7, 3, 3, 8),
    attention(2, 7, 7, 4, 2, 8, causal=True),
    attention(1, 5, 9, 4, 1, 6, scale=0.3),
    attention(2, 90, 90, 2, 2, 8, causal=True, window=1),
    attention(2, 90, 90, 2, 1, 8, causal=True, window=17),
    attention(3, 6, 10, 2, 2, 8, lengths=True),
    attention(2, 80, 80, 2, 2, 8, causal=True, lengths=True),
    attention(3, 70, 70, 2, 1, 8, causal=True, documents=True),
    attention(2, 12, 12, 2, 2, 8, documents=True, lengths=False),
    attention(2, 6, 8, 4, 2, 8, mask=[6, 8]),
    attention(2, 6, 8, 4, 4, 8, mask=[2, 1, 6, 8]),
    attention(2, 6, 8, 4, 4, 8, mask=[4, 1, 8]),
    attention(2, 6, 6, 4, 4, 8, bias=[1, 4, 6, 6], scale=1.0),
    attention(2, 6, 9, 4, 2, 8, bias=[2, 1, 1, 9]),
    attention(2, 70, 70, 4, 4, 8, causal=True, bias=[4, 70, 70]),
    attention(2, 66, 66, 4, 2, 8, causal=True, window=20, documents=True, mask=[66, 66], bias=[1, 1, 66, 66]),
    rotary(2, 9, 3, 8, theta=10000.0),
    rotary(2, 9, 3, 8, theta=500000.0, positions=True),
    rotary(2, 9, 3, 8, theta=10000.0, interleaved=True),
    rotary(2, 9, 3, 8, theta=10000.0, interleaved=True, positions=True, dims=4),
    rotary(2, 9, 1, 10, theta=10000.0, dims=6),
    rotary(1, 40, 2, 8, theta=10000.0, factor=4.0),
    rotary(1, 60, 2, 16, theta=10000.0, factor=8.0, low=1.0, high=4.0, original=64),
]
path = pathlib.Path(__file__).with_name("cases.json")
path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
print(len(cases), "cases,", path.stat().st_size, "bytes")
