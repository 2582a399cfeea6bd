#!/usr/bin/env python3
"""Writes functions.json: for each case inputs, outputs and gradients that PyTorch computes in float64.

    python3 make.py        needs torch 2.11 and numpy; the tests need neither

A case has the name that functions_test.cpp knows it by. The gradient is that of the sum of outputs times weights,
element i of output o weighs ((7 i + 3 o) % 11 - 5) / 4. Inputs have three decimals.
"""
import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as N

random = np.random.default_rng(7)
cases = []


def F(*shape, lo=-2.0, hi=2.0):
    return torch.tensor(np.round(random.uniform(lo, hi, shape), 3), dtype=torch.float64)


def I(*shape, lo=0, hi=4, dtype=torch.int32):
    return torch.tensor(random.integers(lo, hi, shape), dtype=dtype)


def B(*shape):
    return torch.tensor(random.integers(0, 2, shape), dtype=torch.bool)


def V(*values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype)


def text(t):
    name = {torch.float64: "f32", torch.int32: "i32", torch.int64: "i64", torch.bool: "bool"}[t.dtype]
    flat = t.detach().reshape(-1).tolist()
    return {"t": name, "s": list(t.shape), "v": flat if name != "f32" else numbers(t)}


def numbers(t):
    out = []
    for v in t.detach().reshape(-1).tolist():
        out.append(float(f"{v:.9g}") if math.isfinite(v) else str(v))
    return out


def case(name, f, *inputs):
    x = [t.clone().requires_grad_(t.is_floating_point()) for t in inputs]
    out = f(*x)
    out = list(out) if isinstance(out, (tuple, list)) else [out]
    total = None
    for o, y in enumerate(out):
        if y.is_floating_point() and y.requires_grad:
            i = torch.arange(y.numel(), dtype=torch.float64)
            weights = ((7 * i + 3 * o) % 11 - 5) / 4
            part = (y.reshape(-1) * weights).sum()
            total = part if total is None else total + part
    grads = []
    if total is not None:
        floats = [t for t in x if t.requires_grad]
        found = dict(zip(map(id, floats), torch.autograd.grad(total, floats, allow_unused=True)))
        for t in x:
            g = found.get(id(t))
            grads.append(None if not t.requires_grad else numbers(torch.zeros_like(t) if g is None else g))
    cases.append({"name": name, "in": [text(t) for t in inputs], "out": [text(y) for y in out], "grad": grads})


# --- one element ---
special = lambda: V(-2.5, -1.0, -0.5, 0.0, 0.5, 1.5, 2.5)
for name in ("abs sign floor ceil round trunc square exp expm1 exp2 sin cos tan atan sinh cosh tanh asinh erf "
             "sigmoid").split():
    case(name, getattr(torch, name), special() if name in ("floor", "ceil", "round", "trunc", "sign") else F(3, 4))
for name in "reciprocal sqrt rsqrt log log2 log10".split():
    case(name, getattr(torch, name), F(3, 4, lo=0.2, hi=4))
case("log1p", torch.log1p, F(3, 4, lo=-0.8, hi=3))
for name in "asin acos atanh erfinv".split():
    case(name, getattr(torch, name), F(3, 4, lo=-0.95, hi=0.95))
case("acosh", torch.acosh, F(3, 4, lo=1.1, hi=5))
for p in (0, 0.5, 1, 2, 3, -1, -0.5, 2.7):
    case(f"pow_{p}", lambda x, p=p: torch.pow(x, p), F(7, lo=0.1, hi=3))
case("pow_0_at_0", lambda x: torch.pow(x, 0), V(0.0, -1.0, 2.0))
case("pow_tensor", torch.pow, V(0.0, 0.5, 2.0, 3.0, 0.0), V(0.0, 0.0, 1.5, -0.7, 2.0))
case("pow_base", lambda x: torch.pow(1.7, x), F(5))
case("clamp", lambda x: torch.clamp(x, -0.5, 1.0), special())
odd = lambda: V(math.nan, math.inf, -math.inf, 1.5, 0.0)
for name in "isnan isinf isfinite".split():
    case(name, getattr(torch, name), odd())
case("nan_to_num", lambda x: torch.nan_to_num(x.float(), 0.25).double(), odd())
case("stop_gradient", lambda x: x * x.detach(), F(5))

# --- two elements ---
for name in "add sub mul div".split():
    case(name, getattr(torch, name), F(3, 1, 4), F(2, 4, lo=0.5))
case("remainder", torch.remainder, F(3, 4, lo=-5, hi=5), F(4, lo=0.7, hi=2))
case("remainder_i32", torch.remainder, I(3, 4, lo=-9, hi=9), I(4, lo=1, hi=5))
case("floor_divide_i32", lambda a, b: torch.div(a, b, rounding_mode="floor"), I(3, 4, lo=-9, hi=9), I(4, lo=1, hi=5))
case("floor_divide", lambda a, b: torch.floor_divide(a.detach(), b.detach()), F(3, 4, lo=-5, hi=5),
     V(0.7, 1.5, -0.9, -2.1))
case("maximum", torch.maximum, V(1.0, 2.0, -1.0, 0.0), V(1.0, 1.0, 3.0, 0.0))
case("minimum", torch.minimum, V(1.0, 2.0, -1.0, 0.0), V(1.0, 1.0, 3.0, 0.0))
for name in "eq ne lt le gt ge".split():
    case(name, getattr(torch, name), V(1.0, 2.0, -1.0, math.nan), V(1.0, 1.0, 3.0, 0.0))
    case(name + "_number", lambda x, name=name: getattr(torch, name)(x, 1.0), special())
for name in "and or xor".split():
    case("logical_" + name, getattr(torch, "logical_" + name), I(3, 4, hi=2), I(3, 4, hi=2))
    case("bitwise_" + name, getattr(torch, "bitwise_" + name), I(3, 4, lo=-9, hi=9), I(4, lo=-9, hi=9))
case("logical_not", torch.logical_not, special())
case("bitwise_not", torch.bitwise_not, I(3, 4, lo=-9, hi=9))
case("shifts", lambda a, b: (a << b, a >> b), I(3, 4, lo=-9, hi=9), I(4, lo=0, hi=5))
case("where", torch.where, B(3, 1), F(4), F(3, 4))
case("masked_fill", lambda x, m: x.masked_fill(m, -7.0), F(3, 4), B(3, 1))
case("lerp", lambda a, b: torch.lerp(a, b, 0.3), F(3, 4), F(3, 4))

# --- activations ---
wide = lambda: torch.cat([special(), V(-30.0, 30.0, -100.0, 100.0, -3.7, 3.2, 6.5)])
for name in "relu relu6 selu mish hardswish softsign tanhshrink logsigmoid silu".split():
    case(name, getattr(N, name), wide())
case("hardsigmoid", N.hardsigmoid, torch.cat([wide(), V(-3.0, 3.0)]))
case("hardtanh", lambda x: N.hardtanh(x, -1.0, 1.5), wide())
case("leaky_relu", lambda x: N.leaky_relu(x, 0.1), wide())
case("prelu", N.prelu, F(2, 3, 4), F(3, lo=0.1, hi=0.5))
case("prelu_one", N.prelu, F(2, 3, 4), F(1, lo=0.1, hi=0.5))
case("elu", lambda x: N.elu(x, 0.7), wide())
case("celu", lambda x: N.celu(x, 0.7), wide())
case("gelu", lambda x: N.gelu(x, approximate="tanh"), F(7))
case("gelu_erf", N.gelu, F(7))
case("softplus", N.softplus, wide())
case("softplus_beta", lambda x: N.softplus(x, 2.0, 5.0), wide())
case("hardshrink", N.hardshrink, wide())
case("softshrink", N.softshrink, wide())
case("glu", lambda x: N.glu(x, 1), F(2, 6, 3))

# --- reductions ---
for name in "sum prod amax amin".split():
    case(name, lambda x, name=name: getattr(torch, name)(x, (0, 2)) if name != "prod" else x.prod(2).prod(0),
         F(2, 3, 4))
case("sum_all", torch.sum, F(2, 3))
case("mean_keep", lambda x: x.mean((1,), keepdim=True), F(2, 3, 4))
case("mean_all", torch.mean, F(2, 3))
case("max_ties", lambda x: x.amax(0), V(1.0, 2.0, 2.0, -1.0))
case("any_all", lambda x: (x.any(1), x.all(1)), B(4, 3))
case("argmax", lambda x: (x.argmax(1).int(), x.argmin(0).int()), F(3, 4))
case("var", lambda x: x.var((1, 2)), F(2, 3, 4))
case("var_0", lambda x: x.var(1, correction=0, keepdim=True), F(2, 5))
case("std", lambda x: x.std(1), F(3, 4))
case("std_flat", lambda x: x.std(), V(1.5, 1.5, 1.5))
for p in (0, 1, 2, 3, 0.5, math.inf, -math.inf):
    case(f"norm_{p}", lambda x, p=p: torch.linalg.vector_norm(x, p, (1,)), F(3, 4))
case("norm_at_0", lambda x: torch.linalg.vector_norm(x, 2), V(0.0, 0.0))
case("logsumexp", lambda x: torch.logsumexp(x, (0, 2)), F(2, 3, 4, lo=-20, hi=20))
case("logsumexp_keep", lambda x: torch.logsumexp(x, 1, keepdim=True), F(2, 3))

# --- order ---
case("cumsum", lambda x: x.cumsum(1), F(2, 7, 3))
case("cumsum_i32", lambda x: x.cumsum(0).int(), I(6, 2, lo=-5, hi=5))
case("cumprod", lambda x: x.cumprod(1), F(2, 5))
case("cumprod_0", lambda x: x.cumprod(0), V(1.5, 0.0, 2.0, 0.0, 3.0))
pair = lambda r: (r[0], r[1].int())
case("max_with_index", lambda x: pair(x.max(1)), F(3, 5))
case("min_with_index", lambda x: pair(x.min(0, keepdim=True)), F(3, 5))
ties = lambda: V(2.0, -1.0, 2.0, 0.5, -1.0, 0.0, -0.0, 3.5, -7.0)
case("sort", lambda x: pair(torch.sort(x, dim=1, stable=True)), F(3, 5))
case("sort_down", lambda x: pair(torch.sort(x, dim=0, descending=True, stable=True)), ties())
case("sort_up", lambda x: pair(torch.sort(x, dim=0, stable=True)), ties())
case("sort_nan", lambda x: pair(torch.sort(x, dim=0, stable=True)),
     V(1.0, math.nan, math.inf, -math.inf, -2.0, 5.0, math.nan, 1e30))
case("sort_nan_down", lambda x: pair(torch.sort(x, dim=0, descending=True, stable=True)),
     V(1.0, math.nan, math.inf, -math.inf, -2.0))
case("median_nan", lambda x: pair(x.median(1)), V(1.0, math.nan, 2.0, 5.0, 4.0, 3.0).reshape(2, 3))
case("sort_dim0", lambda x: pair(torch.sort(x, dim=0, stable=True)), F(17, 2))
case("sort_i32", lambda x: pair(torch.sort(x, dim=1, descending=True, stable=True)), I(2, 6, lo=-9, hi=9))
case("argsort", lambda x: torch.sort(x, dim=1, stable=True)[1].int(), F(2, 8))
case("topk", lambda x: pair(x.topk(2, 1)), F(3, 9))
case("topk_many", lambda x: pair(x.topk(6, 1, largest=False)), F(3, 7))
case("median", lambda x: pair(x.median(1)), F(3, 5))
case("median_even", lambda x: pair(x.median(0, keepdim=True)), F(4, 3))

# --- shapes ---
case("flatten", lambda x: x.flatten(1, 2), F(2, 3, 2, 2))
case("unflatten", lambda x: x.unflatten(1, (-1, 2)), F(2, 6))
case("squeeze", lambda x: (x.squeeze(), x.squeeze(1), x.squeeze(0)), F(2, 1, 3, 1))
case("unsqueeze", lambda x: (x.unsqueeze(0), x.unsqueeze(-1), x.unsqueeze(1)), F(2, 3))
case("movedim", lambda x: x.movedim(0, 2), F(2, 3, 4))
case("expand", lambda x: x.expand(2, -1, 4), F(3, 1))
case("repeat", lambda x: x.repeat(2, 1, 3), F(2, 3))
case("tile", lambda x: x.tile((3,)), F(2, 3))
case("repeat_interleave", lambda x: x.repeat_interleave(3, 0), F(2, 3))
case("meshgrid", lambda a, b: torch.meshgrid(a, b, indexing="ij"), F(2), F(3))
case("slice_negative", lambda x: x[:, -3:-1], F(2, 5))
case("slice_step", lambda x: x[1:7:2], F(8))
case("slice_far", lambda x: x[-3:99], F(5))
case("select", lambda x: x.select(1, -2), F(2, 4))
case("chunk", lambda x: x.chunk(3, 0), F(7, 2))
case("unbind", lambda x: x.unbind(1), F(2, 3))
case("stack", lambda a, b: (torch.stack([a, b]), torch.stack([a, b], -1)), F(2, 3), F(2, 3))
case("roll", lambda x: (x.roll(2, 1), x.roll(-1, 0)), F(3, 5))
case("flip", lambda x: x.flip((0, 2)), F(2, 3, 4))
case("tril", lambda x: (x.tril(), x.tril(1), x.triu(-1)), F(2, 3, 4))
case("pad_reflect", lambda x: N.pad(x, (2, 1, 0, 1), mode="reflect"), F(1, 2, 3, 4))
case("pad_replicate", lambda x: N.pad(x, (2, 3, 0, 1), mode="replicate"), F(1, 2, 3, 4))
case("pad_circular", lambda x: N.pad(x, (2, 1, 3, 1), mode="circular"), F(1, 2, 3, 4))

# --- creation ---
case("arange", lambda x: (torch.arange(2, 11, 3).int(), torch.arange(1.0, 2.0, 0.25).double()), F(1))
case("linspace", lambda x: torch.linspace(-1, 2, 7).double(), F(1))
case("eye", lambda x: (torch.eye(3).double(), torch.eye(2, 4).double()), F(1))
case("one_hot", lambda i: N.one_hot(i.long(), 5).double(), I(2, 3, hi=5))
case("constant", lambda x: torch.tensor([1.5, -2.0, 0.25], dtype=torch.float64), F(1))

# --- index ---
case("embedding", lambda t, i: N.embedding(i, t), F(5, 3), I(2, 4, hi=5))
case("embedding_padding", lambda t, i: N.embedding(i, t, padding_idx=1), F(4, 3), I(3, 4, hi=4))
bags = lambda: V(0, 2, 1, 3, 1, 1, 1, 1, 2, 2, 0, 3, dtype=torch.int32).reshape(3, 4)
case("bag_sum", lambda t, i: N.embedding_bag(i, t, mode="sum", padding_idx=1), F(4, 3), bags())
case("bag_mean", lambda t, i: N.embedding_bag(i, t, mode="mean", padding_idx=1), F(4, 3), bags())
case("bag_weights", lambda t, i, w: N.embedding_bag(i, t, mode="sum", per_sample_weights=w), F(4, 3), bags(), F(3, 4))
case("index_add", lambda i, r: torch.zeros(5, 3, dtype=torch.float64).index_add(0, i, r), I(4, hi=5), F(4, 3))
case("index_select", lambda x, i: x.index_select(1, i), F(2, 4, 3), V(3, 0, 3, dtype=torch.int32))
case("gather", lambda x, i: x.gather(1, i.long()), F(3, 4), I(2, 6, hi=4))
case("gather_0", lambda x, i: x.gather(0, i.long()), F(3, 4, 2), I(5, 3, 2, hi=3))
case("take_along_dim", lambda x, i: torch.take_along_dim(x, i.long(), 1), F(3, 4), I(1, 2, hi=4))
case("scatter_add", lambda x, i, v: x.scatter_add(1, i.long(), v), F(3, 4), I(2, 5, hi=4), F(2, 5))
apart = lambda: V(3, 0, 1, 2, dtype=torch.int32).reshape(2, 2)
case("scatter", lambda x, i, v: x.scatter(1, i.long(), v), F(3, 4), apart(), F(2, 2))
case("scatter_value", lambda x, i: x.scatter(0, i.long(), 1.5), F(4, 3), apart())

# --- contractions ---
case("matmul_3_2", torch.matmul, F(2, 3, 4), F(4, 5))
case("matmul_broadcast", torch.matmul, F(2, 1, 3, 4), F(3, 4, 2))
case("matmul_2_3", torch.matmul, F(3, 4), F(2, 4, 2))
case("matmul_vectors", torch.matmul, F(4), F(4))
case("matmul_row", torch.matmul, F(4), F(2, 4, 3))
case("matmul_column", torch.matmul, F(2, 3, 4), F(4))
case("bmm", torch.bmm, F(2, 3, 4), F(2, 4, 2))
case("outer", torch.outer, F(3), F(4))
case("tensordot", lambda a, b: torch.tensordot(a, b, ([2, 0], [0, 1])), F(2, 3, 4), F(4, 2, 5))
for i, (equation, shapes) in enumerate([
        ("ij,jk->ik", [(2, 3), (3, 4)]), ("bij,bjk->bik", [(2, 2, 3), (2, 3, 2)]), ("ij->ji", [(2, 3)]),
        ("ii->i", [(3, 3)]), ("ii", [(3, 3)]), ("ij,ij->i", [(2, 3), (2, 3)]), ("ij,ij->ij", [(2, 3), (2, 3)]),
        ("i,j->ij", [(2,), (3,)]), ("bthd,bshd->bhts", [(2, 3, 2, 2), (2, 4, 2, 2)]),
        ("...ij,...jk->...ik", [(2, 2, 3), (1, 3, 2)]), ("b...,b...->b", [(2, 3, 2), (2, 3, 2)]),
        ("ij,jk,kl->il", [(2, 3), (3, 2), (2, 4)]), ("ba, cb", [(2, 3), (4, 2)]), ("ij,kj->", [(2, 3), (2, 3)]),
        ("ij,j->i", [(2, 3), (1,)]), ("a...b->b...", [(2, 3, 4)]), ("i,i,i->i", [(3,), (3,), (3,)])]):
    case(f"einsum:{equation}", lambda *x, equation=equation: torch.einsum(equation, *x), *[F(*s) for s in shapes])

# --- norms ---
case("softmax_0", lambda x: x.softmax(0), F(4, 3, lo=-9, hi=9))
case("softmax_1", lambda x: x.softmax(1), F(2, 4, 3))
case("softmax_last", lambda x: x.softmax(-1), F(2, 4))
case("log_softmax", lambda x: (x.log_softmax(1), x.log_softmax(-1)), F(2, 4, 3, lo=-9, hi=9))
case("normalize", lambda x: N.normalize(x, dim=1), F(2, 4, 3))
case("normalize_1", lambda x: N.normalize(x, p=1.0, dim=0), F(3, 4))
case("group_norm", lambda x, w, b: N.group_norm(x, 2, w, b), F(2, 4, 3), F(4), F(4))
case("group_norm_plain", lambda x: N.group_norm(x, 3), F(2, 6))
case("instance_norm", lambda x, w, b: N.instance_norm(x, weight=w, bias=b), F(2, 3, 4), F(3), F(3))


def batch_norm(x, w, b):
    dims = [d for d in range(x.ndim) if d != 1]
    return N.batch_norm(x, None, None, w, b, training=True), x.mean(dims), x.var(dims, correction=0)


case("batch_norm", batch_norm, F(3, 2, 4), F(2), F(2))
case("batch_norm_by", lambda x, m, v, w, b: N.batch_norm(x, m.detach(), v.detach(), w, b, training=False), F(3, 2, 4),
     F(2), F(2, lo=0.5),
     F(2), F(2))
case("layer_norm", lambda x, w, b: N.layer_norm(x, (4,), w, b), F(3, 4), F(4), F(4))
case("rms_norm", lambda x, w: N.rms_norm(x, (4,), w, eps=1e-5), F(3, 4), F(4))

# --- images ---
case("pixel_shuffle", lambda x: N.pixel_shuffle(x, 2), F(1, 8, 2, 3))
case("pixel_unshuffle", lambda x: N.pixel_unshuffle(x, 2), F(1, 2, 4, 6))
for i, size in enumerate([(6, 8), (4, 2), (5, 3), (2, 7)]):
    case(f"nearest_{i}", lambda x, size=size: N.interpolate(x, size), F(1, 2, 3, 4))
    for corners in (False, True):
        case(f"linear_{i}_{int(corners)}", lambda x, size=size,
             c=corners: N.interpolate(x, size, mode="bilinear", align_corners=c),
             F(1, 2, 3, 4))

# --- losses: the mean ---
case("cross_entropy", lambda x, t: N.cross_entropy(x, t.long()), F(5, 4), V(0, 3, -100, 1, 2, dtype=torch.int32))
some = lambda: V(0, 3, -100, 1, 2, dtype=torch.int32)
weights = lambda: V(0.5, 1.25, 2.0, 0.75)
case("cross_entropy_weight", lambda x, t, w: N.cross_entropy(x, t.long(), w.detach()), F(5, 4), some(), weights())
case("cross_entropy_smooth", lambda x, t: N.cross_entropy(x, t.long(), label_smoothing=0.1), F(5, 4), some())
case("cross_entropy_both", lambda x, t, w: N.cross_entropy(x, t.long(), w.detach(), label_smoothing=0.1), F(5, 4),
     some(), weights())
case("cross_entropy_z", lambda x, t: N.cross_entropy(x, t.long()) + 0.01 * (x.logsumexp(1)**2)[t >= 0].mean(), F(5, 4),
     some())
case("soft_cross_entropy", lambda x, p, w: N.cross_entropy(x, p.softmax(1), w.detach(), label_smoothing=0.2), F(3, 4),
     F(3, 4), weights())
case("nll_loss", lambda x, t, w: N.nll_loss(x, t.long(), w.detach()), F(5, 4), some(), weights())
for name in "mse_loss l1_loss".split():
    case(name, getattr(N, name), F(3, 4), F(3, 4))
case("huber_loss", lambda x, y: N.huber_loss(x, y, delta=0.6), F(3, 4), F(3, 4))
case("smooth_l1_loss", lambda x, y: N.smooth_l1_loss(x, y, beta=0.6), F(3, 4), F(3, 4))
case("binary_cross_entropy", N.binary_cross_entropy, F(3, 4, lo=0.05, hi=0.95), F(3, 4, lo=0, hi=1))
case("bce_with_logits", N.binary_cross_entropy_with_logits, torch.cat([F(4), V(0.0, 30.0, -30.0, 100.0)]),
     F(8, lo=0, hi=1))
case("bce_pos_weight", lambda x, t, w: N.binary_cross_entropy_with_logits(x, t, pos_weight=w.detach()), F(3, 4),
     F(3, 4, lo=0, hi=1), weights())
sides = lambda: V(1.0, -1.0, -1.0, 1.0, -1.0)
case("soft_margin_loss", lambda x, t: N.soft_margin_loss(x, t.detach()), F(5), sides())
case("hinge_embedding_loss", lambda x, t: N.hinge_embedding_loss(x, t.detach(), 0.8), F(5), sides())
case("margin_ranking_loss", lambda a, b, t: N.margin_ranking_loss(a, b, t.detach(), 0.3), F(5), F(5), sides())
case("poisson_nll_loss", lambda x, t: N.poisson_nll_loss(x, t), F(3, 4), F(3, 4, lo=0))
case("gaussian_nll_loss", lambda x, t, v: N.gaussian_nll_loss(x, t, v), F(3, 4), F(3, 4), F(3, 4, lo=0.3))
case("kl_div", lambda x, t: N.kl_div(x.log_softmax(1), t.softmax(1), reduction="batchmean"), F(3, 4), F(3, 4))
case("kl_div_log", lambda x, t: N.kl_div(x, t, reduction="batchmean", log_target=True), F(3, 4), F(3, 4))
case("multi_margin_loss", lambda x, t: N.multi_margin_loss(x, t.long()), F(4, 3), I(4, hi=3))
case("multi_margin_loss_2", lambda x, t: N.multi_margin_loss(x, t.long(), p=2, margin=0.5), F(4, 3), I(4, hi=3))
case("cosine_embedding_loss", lambda a, b, t: N.cosine_embedding_loss(a, b, t.detach(), 0.1), F(5, 3), F(5, 3), sides())
case("triplet_margin_loss", lambda a, p, n: N.triplet_margin_loss(a, p, n), F(4, 3), F(4, 3), F(4, 3))
case("cosine_similarity", lambda a, b: N.cosine_similarity(a, b, 1), F(3, 4), F(3, 4))
case("pairwise_distance", lambda a, b: N.pairwise_distance(a, b), F(3, 4), F(3, 4))
case("ctc_loss", lambda x, t, n, m: N.ctc_loss(x.log_softmax(2), t.long(), n.long(), m.long()), F(6, 3, 4),
     V(1, 2, 2, 3, 3, 1, 2, 1, 0, dtype=torch.int32).reshape(3, 3), V(6, 5, 6, dtype=torch.int32),
     V(3, 3, 2, dtype=torch.int32))
case("mean_loss", lambda x: (x * x).mean(), F(3, 4))
case("mean_loss_weights", lambda x, w: (x * w.detach()).sum() / w.detach().sum(), F(3, 4), F(3, 4, lo=0.1))

# --- matrices ---
L = torch.linalg


def M(*shape):  # far from singular, and no row exchange is like another
    x = F(*shape, lo=-1, hi=1) + 3 * torch.eye(shape[-1], dtype=torch.float64)
    return x[..., torch.arange(shape[-1]).roll(1), :].round(decimals=3)


def S(*shape):
    x = F(*shape, lo=-1, hi=1)
    return ((x + x.mT) / 2 + 3 * torch.eye(shape[-1], dtype=torch.float64)).round(decimals=3)


for offset in (0, 1, -2):
    case(f"diagonal_{offset}", lambda x, offset=offset: torch.diagonal(x, offset, -2, -1), F(2, 3, 4))
case("diag_embed", torch.diag_embed, F(2, 3))
case("diag_vector", torch.diag, F(3))
case("diag_matrix", torch.diag, F(4, 3))
case("trace", torch.trace, F(3, 3))
for p in (1, -1, math.inf, -math.inf):
    case(f"matrix_norm_{p}", lambda x, p=p: L.matrix_norm(x, p), F(2, 3, 4))
for n in (0, 1, 3, -2):
    case(f"matrix_power_{n}", lambda x, n=n: L.matrix_power(x / 2, n) if n > 0 else L.matrix_power(x, n), M(2, 3, 3))
case("cholesky", L.cholesky, S(2, 4, 4))
case("cholesky_1", L.cholesky, S(1, 1))
case("solve_lower", lambda a, b: L.solve_triangular(a.tril(), b, upper=False), S(2, 3, 3), F(2, 3, 2))
case("solve_upper", lambda a, b: L.solve_triangular(a.triu(), b, upper=True), S(3, 3), F(2, 3, 4))
case("solve", L.solve, M(2, 4, 4), F(2, 4, 3))
case("solve_broadcast", lambda a, b: L.solve(a.expand(2, 3, 3), b), M(3, 3), F(2, 3, 2))
case("inverse", L.inv, M(2, 4, 4))
case("det", L.det, M(2, 4, 4))
case("det_1", L.det, M(1, 1))
case("slogdet", L.slogdet, M(2, 3, 3))
case("solve_vector", L.solve, M(3, 3), F(3))
case("solve_vectors", L.solve, M(2, 3, 3), F(2, 3))

# --- what came later, so that the numbers above stay ---
for d in (0, -1):
    case(f"softmin_{d}", lambda x, d=d: N.softmin(x, d), F(2, 3, 4))
for k in (0, 1, 2, 3, -1):
    case(f"rot90_{k}", lambda x, k=k: torch.rot90(x, k, (0, 2)), F(2, 3, 4))
case("embedding_bag_max", lambda t, i: N.embedding_bag(i.long(), t, mode="max", padding_idx=0), F(6, 3),
     V(0, 2, 3, 1, 1, 4, 0, 0, 0, 5, 2, 5, dtype=torch.int32).reshape(4, 3))
for i, size in enumerate([(6, 8), (4, 2), (5, 3), (2, 7)]):
    for corners in (False, True):
        case(f"cubic_{i}_{int(corners)}", lambda x, size=size,
             c=corners: N.interpolate(x, size, mode="bicubic", align_corners=c), F(1, 2, 3, 4))
for border in (False, True):
    for corners in (False, True):
        case(f"grid_sample_{int(border)}_{int(corners)}",
             lambda x, g, b=border, c=corners: N.grid_sample(x, g, padding_mode="border" if b else "zeros",
                                                             align_corners=c),
             F(2, 3, 4, 5), F(2, 3, 2, 2, lo=-1.3, hi=1.3))
case("bincount", lambda i: torch.bincount(i.reshape(-1), minlength=6).int(), I(3, 4))
case("histogram", lambda x: torch.histc(x.detach(), 5, -1.5, 1.51).int(), F(4, 7))
for right in (False, True):
    case(f"searchsorted_{int(right)}", lambda s, x, r=right: torch.searchsorted(s.detach(), x.detach(), right=r).int(),
         V(-1.0, 0.5, 0.5, 1.0, 2.5, 3.0, 7.0),
         V(-2.0, -1.0, 0.5, 0.6, 1.0, 7.0, 9.0, 2.5).reshape(2, 4))
case("searchsorted_i32", lambda s, x: torch.searchsorted(s, x).int(), V(1, 3, 3, 8, dtype=torch.int32), I(3, 4, hi=10))

path = pathlib.Path(__file__).parent / "functions.json"
lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
path.write_text("[\n" + lines + "\n]\n")
print(len(cases), "cases,", path.stat().st_size, "bytes")
