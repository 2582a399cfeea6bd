#!/usr/bin/env python3
"""Writes cases.json beside this file: convolution and pooling of PyTorch, forward and backward, in float64.

    python3 make.py          needs torch (2.11 wrote what is kept); the test needs none

A tensor is given by a formula of its element's number, and kept as its shape, some of its elements and two
inner products with tensors of that formula, so that every element counts.
"""
import json
import pathlib
import textwrap

import torch
import torch.nn.functional as F


def formula(shape, seed):
    n = 1
    for s in shape:
        n *= s
    i = torch.arange(n, dtype=torch.int64)
    return (((i * 37 + i // 11 * 5 + seed * 17) % 101 - 50).double() / 64).reshape(shape)


def kept(t):
    flat = t.detach().reshape(-1)
    return {
        "shape": list(t.shape),
        "first": [float(f"{v:.9g}") for v in flat[:4].tolist()],
        "last": [float(f"{v:.9g}") for v in flat[-4:].tolist()],
        "products": [float(f"{(flat * formula(t.shape, s).reshape(-1)).sum().item():.10g}") for s in (91, 92)],
    }


def conv(x, w, b, o):
    dims = x.dim() - 2
    p = o.get("padding", [0])
    p = p * dims if len(p) == 1 else p
    mode = o.get("mode", "zeros")
    if mode != "zeros":
        pads = [n for d in reversed(p) for n in (d, d)]
        x, p = F.pad(x, pads, mode=mode), [0] * dims
    f = [F.conv1d, F.conv2d, F.conv3d][dims - 1]
    return f(x, w, b, one(o, "stride", dims), p, one(o, "dilation", dims), o.get("groups", 1))


def transposed(x, w, b, o):
    dims = x.dim() - 2
    f = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][dims - 1]
    return f(x, w, b, one(o, "stride", dims), one(o, "padding", dims, 0), one(o, "output_padding", dims, 0),
             o.get("groups", 1), one(o, "dilation", dims))


def one(o, key, dims, default=1):
    v = o.get(key, [default])
    return v * dims if len(v) == 1 else v


def pool(kind):
    def run(x, w, b, o):
        dims = x.dim() - 2
        size = one(o, "size", dims)
        stride = one(o, "stride", dims) if "stride" in o else size
        padding = one(o, "padding", dims, 0)
        if kind == "max":
            return [F.max_pool1d, F.max_pool2d,
                    F.max_pool3d][dims - 1](x, size, stride, padding, one(o, "dilation", dims))
        f = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d][dims - 1]
        return f(x, size, stride, padding, False, o.get("count_padding", True))
    return run


def adaptive(kind):
    def run(x, w, b, o):
        dims = x.dim() - 2
        f = getattr(F, f"adaptive_{kind}_pool{dims}d")
        return f(x, one(o, "out", dims))
    return run


def unfold(x, w, b, o):
    return F.unfold(x, one(o, "size", 2), one(o, "dilation", 2), one(o, "padding", 2, 0), one(o, "stride", 2))


def fold(x, w, b, o):
    return F.fold(x, o["spatial"], one(o, "size", 2), one(o, "dilation", 2), one(o, "padding", 2, 0),
                  one(o, "stride", 2))


OPS = {"convolution": conv, "convolution_transposed": transposed, "max_pool": pool("max"), "avg_pool": pool("avg"),
       "adaptive_avg_pool": adaptive("avg"), "adaptive_max_pool": adaptive("max"), "unfold": unfold, "fold": fold}

CASES = [
    ("convolution", [2, 3, 11], [4, 3, 3], True, {}),
    ("convolution", [3, 4, 13], [6, 2, 4], True, {"stride": [3], "padding": [2], "groups": 2}),
    ("convolution", [2, 3, 10, 9], [5, 3, 3, 3], True, {"padding": [1]}),
    ("convolution", [2, 3, 11, 13], [8, 3, 7, 7], False, {"stride": [2], "padding": [3]}),
    ("convolution", [1, 6, 9, 7], [4, 3, 3, 2], True,
     {"stride": [2, 1], "padding": [1, 0], "dilation": [1, 2], "groups": 2}),
    ("convolution", [2, 8, 7, 7], [8, 1, 3, 3], True, {"padding": [1], "groups": 8}),
    ("convolution", [2, 5, 6, 5], [7, 5, 1, 1], True, {"stride": [2]}),
    ("convolution", [5, 16, 3, 3], [48, 16, 3, 3], True, {"padding": [1]}),
    ("convolution", [3, 96, 3, 3], [160, 96, 3, 3], True, {"padding": [1]}),
    ("convolution", [2, 96, 5, 5], [96, 96, 3, 3], True, {"padding": [1], "stride": [2]}),
    ("convolution", [9, 64, 6, 5], [64, 64, 3, 3], True, {"padding": [1]}),
    ("convolution", [2, 2, 5, 6, 4], [3, 2, 3, 2, 3], True, {"padding": [1, 0, 1], "stride": [1, 2, 1]}),
    ("convolution", [1, 4, 7, 5, 6], [4, 2, 2, 3, 2], False, {"dilation": [2, 1, 1], "groups": 2}),
    ("convolution", [2, 3, 7], [2, 3, 3], True, {"padding": [2], "mode": "reflect"}),
    ("convolution", [2, 3, 6, 5], [2, 3, 3, 3], True, {"padding": [1, 2], "mode": "reflect"}),
    ("convolution", [2, 3, 6, 5], [2, 3, 3, 3], True, {"padding": [2], "mode": "replicate", "stride": [2]}),
    ("convolution", [2, 3, 6, 5], [2, 3, 3, 3], True, {"padding": [1], "mode": "circular"}),
    ("convolution", [1, 2, 4, 5, 3], [2, 2, 2, 3, 3], True, {"padding": [1], "mode": "replicate"}),
    ("convolution_transposed", [2, 3, 7], [3, 4, 3], True, {"stride": [2], "padding": [1], "output_padding": [1]}),
    ("convolution_transposed", [2, 4, 5, 6], [4, 3, 3, 2], True, {"stride": [2, 1], "groups": 2}),
    ("convolution_transposed", [1, 3, 4, 4], [3, 2, 4, 4], False, {"stride": [2], "padding": [1], "dilation": [2]}),
    ("convolution_transposed", [1, 2, 3, 4, 3], [2, 3, 2, 3, 2], True, {"stride": [2], "padding": [1]}),
    ("max_pool", [2, 3, 11], None, False, {"size": [3], "stride": [2], "padding": [1]}),
    ("max_pool", [2, 3, 9, 8], None, False, {"size": [3], "stride": [2], "padding": [1]}),
    ("max_pool", [2, 3, 9, 8], None, False, {"size": [2, 3]}),
    ("max_pool", [2, 2, 9, 11], None, False, {"size": [3, 2], "stride": [1], "dilation": [2, 3]}),
    ("max_pool", [1, 2, 12, 13], None, False, {"size": [6, 7], "stride": [3]}),
    ("max_pool", [1, 2, 5, 6, 7], None, False, {"size": [2, 3, 2], "stride": [2], "padding": [1, 1, 0]}),
    ("avg_pool", [2, 3, 11], None, False, {"size": [4], "stride": [3], "padding": [2]}),
    ("avg_pool", [2, 3, 9, 8], None, False, {"size": [3], "stride": [2], "padding": [1]}),
    ("avg_pool", [2, 3, 9, 8], None, False, {"size": [3, 2], "stride": [2, 1], "padding": [1], "count_padding": False}),
    ("avg_pool", [1, 2, 12, 13], None, False, {"size": [7, 6], "stride": [2, 3]}),
    ("avg_pool", [1, 2, 5, 6, 7], None, False, {"size": [2, 3, 2], "stride": [2], "padding": [1, 0, 1],
                                                "count_padding": False}),
    ("adaptive_avg_pool", [2, 3, 10], None, False, {"out": [4]}),
    ("adaptive_avg_pool", [2, 3, 8, 9], None, False, {"out": [4, 3]}),
    ("adaptive_avg_pool", [2, 3, 7, 10], None, False, {"out": [3, 4]}),
    ("adaptive_avg_pool", [2, 3, 7, 5], None, False, {"out": [1]}),
    ("adaptive_max_pool", [2, 3, 7, 10], None, False, {"out": [3, 4]}),
    ("adaptive_max_pool", [2, 3, 8, 9], None, False, {"out": [2, 3]}),
    ("adaptive_max_pool", [1, 2, 5, 6, 7], None, False, {"out": [2, 3, 4]}),
    ("unfold", [2, 3, 7, 6], None, False, {"size": [3, 2], "stride": [2, 1], "padding": [1], "dilation": [1, 2]}),
    ("fold", [2, 18, 16], None, False, {"spatial": [7, 6], "size": [3, 2], "stride": [2, 2], "padding": [1]}),
]

out = []
for op, xs, ws, bias, options in CASES:
    x = formula(xs, 1).requires_grad_()
    w = formula(ws, 2).requires_grad_() if ws else None
    outputs = 0 if not ws else ws[0] if op == "convolution" else ws[1] * options.get("groups", 1)
    b = formula([outputs], 3).requires_grad_() if bias else None
    y = OPS[op](x, w, b, options)
    (y * formula(y.shape, 4)).sum().backward()
    row = {"op": op, "x": xs, "options": options, "y": kept(y), "dx": kept(x.grad)}
    if ws:
        row.update(w=ws, dw=kept(w.grad))
    if bias:
        row.update(b=[outputs], db=kept(b.grad))
    out.append(row)
# Lines that are read; no text of a case holds a space, so a line may end at any.
text = ",\n".join(textwrap.fill(json.dumps(row), 110, break_long_words=False, break_on_hyphens=False) for row in out)
pathlib.Path(__file__).with_name("cases.json").write_text("[\n" + text + "\n]\n")
