"""What a name is here that PyTorch spells in another way: what the error of an absent attribute says, of the module and of its objects."""
import difflib

from . import _core

# Of torch, torch.nn, torch.nn.functional, torch.optim and torch.utils: those that no spelling leads to.
ELSEWHERE = {
    # making tensors
    "tensor": "a batch field: a step and ls.arrays take NumPy's arrays; a few numbers are ls.constant(x, [1, 2])",
    "as_tensor": "a batch field: a step and ls.arrays take NumPy's arrays",
    "from_numpy": "a batch field: a step and ls.arrays take NumPy's arrays",
    "asarray": "a batch field: a step and ls.arrays take NumPy's arrays",
    "rand": "ls.uniform(x, [2, 3])",
    "rand_like": "ls.uniform(x, x.shape)",
    "randn_like": "ls.randn(x, x.shape)",
    "randint_like": "ls.randint(x, x.shape, lo, hi)",
    "normal": "ls.randn(x, [2, 3]) * deviation + mean",
    "randperm": "the data's own order: ls.arrays(..., shuffle=True)",
    "empty": "ls.zeros(x, [2, 3])",
    "empty_like": "ls.zeros_like(x)",
    "logspace": "ls.pow(base, ls.linspace(x, first, last, count))",
    "complex": "two real tensors: there are no complex numbers",
    "tril_indices": "ls.tril(x), which keeps the triangle",
    "triu_indices": "ls.triu(x), which keeps the triangle",
    # joining, cutting, turning
    "cat": "ls.concat([a, b], dim)",
    "concatenate": "ls.concat([a, b], dim)",
    "hstack": "ls.concat([a, b], 1)",
    "vstack": "ls.concat([a, b], 0)",
    "column_stack": "ls.stack([a, b], 1)",
    "dstack": "ls.stack([a, b], 2)",
    "tensor_split": "ls.chunk(x, count, dim), or ls.split(x, dim, sizes)",
    "hsplit": "ls.chunk(x, count, 1)",
    "vsplit": "ls.chunk(x, count, 0)",
    "narrow": "x[:, start:end], or ls.slice",
    "view": "ls.reshape(x, [2, 3])",
    "ravel": "ls.flatten(x)",
    "t": "ls.transpose(x, 0, 1)",
    "swapaxes": "ls.transpose(x, a, b)",
    "swapdims": "ls.transpose(x, a, b)",
    "moveaxis": "ls.movedim(x, a, b)",
    "atleast_1d": "ls.unsqueeze(x, 0)",
    "atleast_2d": "ls.unsqueeze(x, 0)",
    "broadcast_tensors": "nothing: operators broadcast by themselves; ls.broadcast_to(x, shape)",
    "fliplr": "ls.flip(x, 1)",
    "flipud": "ls.flip(x, 0)",
    "numel": "the product of x.shape",
    "clone": "nothing: a tensor is never written in place",
    # arithmetic
    "add": "a + b",
    "sub": "a - b",
    "subtract": "a - b",
    "mul": "a * b",
    "multiply": "a * b",
    "div": "a / b",
    "divide": "a / b",
    "true_divide": "a / b",
    "neg": "-x",
    "negative": "-x",
    "positive": "x",
    "addcmul": "x + value * a * b",
    "addcdiv": "x + value * a / b",
    "fmod": "ls.remainder(a, b), with the sign of b",
    "float_power": "ls.pow(x, e)",
    "absolute": "ls.abs(x)",
    "clip": "ls.clamp(x, lo, hi)",
    "clamp_min": "ls.maximum(x, lo)",
    "clamp_max": "ls.minimum(x, hi)",
    "fix": "ls.trunc(x)",
    "frac": "x - ls.trunc(x)",
    "sgn": "ls.sign(x)",
    "logaddexp": "ls.logsumexp(ls.stack([a, b]), 0)",
    "logit": "ls.log(p / (1 - p))",
    "expit": "ls.sigmoid(x)",
    "rsub": "other - x",
    "hypot": "ls.sqrt(a * a + b * b)",
    "deg2rad": "x * 3.14159265 / 180",
    "atan2": "ls.atan(y / x), by quadrants with ls.where",
    "eq": "a == b",
    "ne": "a != b",
    "lt": "a < b",
    "le": "a <= b",
    "gt": "a > b",
    "ge": "a >= b",
    "isclose": "ls.abs(a - b) < eps",
    "allclose": "ls.all(ls.abs(a - b) < eps)",
    # sums and order
    "std": "ls.stddev(x, dim)",
    "std_mean": "ls.stddev(x, dim) and ls.mean(x, dim)",
    "var_mean": "ls.var(x, dim) and ls.mean(x, dim)",
    "amax": "ls.max(x, dim)",
    "amin": "ls.min(x, dim)",
    "aminmax": "ls.min(x, dim) and ls.max(x, dim)",
    "nansum": "ls.sum(ls.nan_to_num(x), dim)",
    "nanmean": "ls.mean_loss(values, mask), or sums of ls.where(ls.isnan(x), 0.0, x)",
    "count_nonzero": "ls.sum((x != 0).to(ls.i32), dim)",
    "cummax": "nothing; ls.cumsum and ls.cumprod are there",
    "kthvalue": "ls.sort(x).values[..., k]",
    "quantile": "ls.sort(x).values, at a place",
    "histc": "ls.histogram(x, bins, lo, hi)",
    "bucketize": "ls.searchsorted(sorted, x)",
    "diff": "x[1:] - x[:-1]",
    "unique": "nothing, since its shape follows from values: ls.sort, ls.bincount",
    "nonzero": "nothing, since its shape follows from values: ls.where, ls.mean_loss(values, mask)",
    "masked_select": "ls.where(mask, x, other), since the shape would follow from values",
    "index_fill": "ls.where, or ls.scatter(x, dim, ids, value)",
    "index_put": "ls.scatter(x, dim, ids, values)",
    "index_copy": "ls.scatter(x, dim, ids, values)",
    "scatter_reduce": "ls.scatter_add(x, dim, ids, values)",
    # products
    "mm": "a @ b, or ls.matmul",
    "mv": "a @ b, or ls.matmul",
    "dot": "ls.sum(a * b)",
    "vdot": "ls.sum(a * b)",
    "inner": "a @ ls.transpose(b, -1, -2)",
    "ger": "ls.outer(a, b)",
    "addmm": "x + a @ b",
    "addmv": "x + a @ b",
    "addbmm": "x + ls.bmm(a, b)",
    "baddbmm": "x + ls.bmm(a, b)",
    "chain_matmul": "a @ b @ c",
    "kron": "ls.einsum, and ls.reshape",
    "cdist": "ls.norm(a[:, None] - b[None], 2, [-1])",
    "linalg": "the functions themselves: ls.solve, ls.inverse, ls.det, ls.cholesky, ls.norm",
    "inv": "ls.inverse(x)",
    "fft": "nothing: there are no complex numbers",
    # layers
    "Module": "a function or class of your own that calls layers: examples/gpt.py",
    "ModuleList": "a list: [Block(at / \"blocks\" / i) for i in range(n)]",
    "ModuleDict": "a dict",
    "ParameterList": "a list",
    "Sequential": "a function that calls one layer after the other",
    "Identity": "lambda x: x",
    "Flatten": "ls.flatten(x, 1)",
    "Upsample": "ls.interpolate_nearest(x, [h, w]) or ls.interpolate_linear",
    "upsample": "ls.interpolate_nearest(x, [h, w]) or ls.interpolate_linear",
    "interpolate": "ls.interpolate_nearest(x, [h, w]), ls.interpolate_linear or ls.interpolate_cubic",
    "GELU": "ls.gelu_erf; ls.gelu is the one by tanh",
    "SiLU": "ls.silu",
    "Softmax": "ls.softmax(x, dim)",
    "scaled_dot_product_attention": "ls.sdpa(q, k, v, causal=True), with tokens before heads",
    "multi_head_attention_forward": "ls.MultiheadAttention(at, width, heads)",
    "GRU": "a loop of ls.Linear layers over time; ls.Lstm is there",
    "RNN": "a loop of ls.Linear layers over time; ls.Lstm is there",
    "LSTMCell": "ls.Lstm(at, in, hidden)",
    "Transformer": "ls.Attention and ls.MultiheadAttention, or ls.build(at, \"gpt\", ...)",
    "TransformerEncoderLayer": "ls.Attention, ls.LayerNorm and ls.Linear: examples/gpt.py",
    "Dropout2d": "ls.dropout_channels(x, p)",
    "dropout2d": "ls.dropout_channels(x, p)",
    "DropPath": "ls.dropout_samples(x, p)",
    "SyncBatchNorm": "ls.BatchNorm2d, whose running statistics are means over all ranks",
    "InstanceNorm2d": "ls.instance_norm(x)",
    "conv1d": "ls.convolution(x, weight)",
    "conv2d": "ls.convolution(x, weight)",
    "conv3d": "ls.convolution(x, weight)",
    "conv_transpose2d": "ls.convolution_transposed(x, weight)",
    "local_response_norm": "ls.avg_pool of x * x",
    "lp_pool2d": "ls.avg_pool of ls.pow(x, p)",
    "PReLU": "ls.prelu(x, slope), its slope a parameter",
    "threshold": "ls.where(x > threshold, x, value)",
    "pixel_norm": "ls.normalize(x)",
    # losses
    "BCELoss": "ls.binary_cross_entropy(p, target)",
    "BCEWithLogitsLoss": "ls.binary_cross_entropy_with_logits(x, target)",
    "NLLLoss": "ls.nll_loss(log_probabilities, targets)",
    "KLDivLoss": "ls.kl_div(log_probabilities, target)",
    "CTCLoss": "ls.ctc_loss(log_probabilities, targets, input_lengths, target_lengths)",
    # training
    "Adam": "AdamW (weight_decay=0 is Adam)",
    "Adamax": "ls.AdamW",
    "NAdam": "ls.AdamW",
    "RAdam": "ls.AdamW",
    "optim": "the optimizers themselves, as AdamW",
    "nn": "the layers themselves, as Linear",
    "functional": "the functions themselves, as ls.relu",
    "lr_scheduler": "lr=ls.warmup_cosine(...), or ls.Schedule(lr, lambda step: ...)",
    "LambdaLR": "ls.Schedule(lr, lambda step: ...)",
    "StepLR": "ls.Schedule(lr, lambda step: 0.1 ** (step // 1000))",
    "ExponentialLR": "ls.Schedule(lr, lambda step: 0.999 ** step)",
    "CosineAnnealingLR": "ls.warmup_cosine(lr, warmup, steps)",
    "CosineAnnealingWarmRestarts": "ls.cosine_restarts",
    "OneCycleLR": "ls.warmup_cosine(lr, warmup, steps)",
    "ReduceLROnPlateau": "ls.Plateau(state / \"plateau\"); opt.follow(plateau)",
    "clip_grad_norm_": "clip=1.0 of the optimizer",
    "clip_grad_value_": "ls.clamp of the values of ls.Gradients",
    "autograd": "ls.grad(loss, parameters), ls.custom_gradient",
    "no_grad": "Forward, or a validation of train",
    "inference_mode": "Forward, or a validation of train",
    "enable_grad": "nothing: ls.grad asks for gradients",
    "set_grad_enabled": "nothing: ls.grad asks for gradients",
    "autocast": "state.compute_dtype(ls.bf16), or --train.precision=bf16",
    "amp": "state.compute_dtype(ls.bf16), or --train.precision=bf16",
    "GradScaler": "--train.precision=fp16",
    "manual_seed": "ls.State(session.mesh, seed=1)",
    "seed": "ls.State(session.mesh, seed=1)",
    "device": "the session's: --train.device=cuda",
    "cuda": "the session's device: --train.device=cuda",
    "float32": "ls.f32",
    "float": "ls.f32",
    "float64": "ls.f64",
    "double": "ls.f64",
    "float16": "ls.f16",
    "half": "ls.f16",
    "bfloat16": "ls.bf16",
    "int32": "ls.i32",
    "int": "ls.i32",
    "int64": "ls.i64",
    "long": "ls.i64",
    "uint8": "ls.u8",
    "bool": "ls.boolean",
    "DataLoader": "arrays, or SampleData",
    "Dataset": "ls.SampleData(fields, lambda i: ...)",
    "TensorDataset": "ls.arrays(x=..., y=...)",
    "save": "Checkpoint",
    "save_checkpoint": "ls.Checkpoint(run).save(done, state)",
    "distributed": "ls.Session(), under trainrun --nproc N",
    "init_process_group": "ls.Session(), under trainrun --nproc N",
    "DistributedDataParallel": "nothing: trainrun --nproc N",
    "DataParallel": "nothing: trainrun --nproc N",
    "fully_shard": "--mesh.dim_names=[dp_shard]",
    "FullyShardedDataParallel": "--mesh.dim_names=[dp_shard]",
    "jit": "ls.compile, which every step goes through",
    "checkpoint": "memory_budget= of ls.compile and ls.train: the compiler chooses what is computed again",
    "AveragedModel": "ls.WeightAverage(state / \"average\", 0.999)",
    "EMA": "ls.WeightAverage(state / \"average\", 0.999)",
    "utils": "ls.arrays, ls.SampleData, ls.Checkpoint",
    "eval": "with ls.Evaluation():, or ls.forward",
}

_NO_VALUE = "it has no value while a step is traced; "
_STATE = "the weights are the state's: "
_DEVICE = "the device is the session's: --train.device=cuda"
# Of objects, by kind.
ATTRIBUTES = {
    "Tensor": {
        "item": _NO_VALUE + "a called step returns its metrics, step(x)[\"loss\"]",
        "numpy": _NO_VALUE + "ls.forward() computes one, ls.metric() reports one",
        "tolist": _NO_VALUE + "ls.forward() computes one, ls.metric() reports one",
        "data": _NO_VALUE + "ls.forward() computes one, ls.metric() reports one",
        "backward": "gradients are asked for: ls.grad(loss, state.parameters())",
        "grad": "gradients are asked for: ls.grad(loss, state.parameters())",
        "requires_grad": "which weights are trained is the state's: state.freeze([...])",
        "requires_grad_": "which weights are trained is the state's: state.freeze([...])",
        "view": "write x.reshape(...)",
        "view_as": "write x.reshape(y.shape)",
        "reshape_as": "write x.reshape(y.shape)",
        "expand_as": "write x.expand(y.shape)",
        "type_as": "write x.to(y.dtype)",
        "type": "write x.to(ls.f32)",
        "astype": "write x.to(ls.f32)",
        "float": "write x.to(ls.f32)",
        "double": "write x.to(ls.f64)",
        "half": "write x.to(ls.f16)",
        "bfloat16": "write x.to(ls.bf16)",
        "long": "write x.to(ls.i64)",
        "int": "write x.to(ls.i32)",
        "bool": "write x != 0",
        "contiguous": "leave it out: it is",
        "clone": "leave it out: a tensor is never written in place",
        "cuda": _DEVICE,
        "cpu": "the device is the session's: --train.device=cpu",
        "device": "the device is the session's: --train.device",
        "is_cuda": "the device is the session's: --train.device",
        "dim": "write x.ndim",
        "T": "write x.transpose(0, 1)",
        "mT": "write x.transpose(-1, -2)",
        "H": "write x.transpose(-1, -2)",
        "is_floating_point": "x.dtype says it",
        "new_zeros": "write ls.zeros(x, [2, 3])",
        "new_ones": "write ls.ones(x, [2, 3])",
        "new_full": "write ls.full(x, [2, 3], 1.0, ls.f32)",
        "new_tensor": "write ls.constant(x, [1, 2])",
        "register_hook": "gradients are values of a step: ls.grad(loss, [x])[0]",
        "retain_grad": "gradients are values of a step: ls.grad(loss, [x])[0]",
        "add_": "nothing is written in place: x = x + y",
        "mul_": "nothing is written in place: x = x * y",
        "copy_": "nothing is written in place: ls.assign(parameter, value) writes the state",
        "fill_": "nothing is written in place: ls.full_like(x, 0.0)",
        "zero_": "nothing is written in place: ls.zeros_like(x)",
        "masked_fill_": "nothing is written in place: x = x.masked_fill(mask, value)",
    },
    "Loss": {
        "item": _NO_VALUE + "a called step returns its metrics, step(x)[\"loss\"]",
        "numpy": _NO_VALUE + "ls.forward() computes one, ls.metric() reports one",
        "detach": _NO_VALUE + "ls.metric(name, loss) reports it",
        "backward": "gradients are asked for: ls.grad(loss, state.parameters())",
        "mean": "it is one already, a sum over a count, divided once behind all micro-batches",
    },
    "Parameter": {
        "data": "state.array(name) is a copy of its values; in the step p(x) is its value",
        "grad": "gradients are asked for: ls.grad(loss, [p])",
        "numpy": "state.array(p.name) is a copy of its values",
        "item": "state.array(p.name) is a copy of its values",
        "detach": "in the step ls.stop_gradient(p(x))",
        "requires_grad": "which weights are trained is the state's: state.freeze([...])",
        "copy_": "ls.assign(p, value) writes it in the step",
        "numel": "the product of p.shape",
    },
    "Optimizer": {
        "step": "write opt.update(ls.grad(loss, state.parameters())) in the step function",
        "zero_grad": "leave it out: gradients are values of one step",
        "state_dict": "its moments are part of the state, which ls.Checkpoint saves",
        "load_state_dict": "its moments are part of the state, which ls.Checkpoint loads",
        "param_groups": "groups are said where it is made: groups=[ls.AdamWOptions(parameters=..., lr=...)]",
        "lr": "a rate is said where it is made: lr=0.1, ls.warmup_cosine(...) or ls.Schedule(lr, lambda step: ...); opt.scalars(step) tells it",
        "learning_rate": "a rate is said where it is made: lr=0.1, ls.warmup_cosine(...) or ls.Schedule(lr, lambda step: ...)",
        "minimize": "write opt.update(ls.grad(loss, state.parameters())) in the step function",
        "backward": "write opt.update(ls.grad(loss, state.parameters())) in the step function",
    },
    "State": {
        "cuda": _DEVICE,
        "cpu": "the device is the session's: --train.device=cpu",
        "to": _DEVICE + "; what it computes in: state.compute_dtype(ls.bf16)",
        "half": "write state.compute_dtype(ls.f16)",
        "bfloat16": "write state.compute_dtype(ls.bf16)",
        "float": "parameters are f32",
        "train": "ls.train(session, state, data, step); what is for evaluation is said by ls.Evaluation",
        "eval": "write with ls.Evaluation():, or ls.forward, around what is traced",
        "state_dict": "state.names() and state.array(name) are its tensors; ls.Checkpoint saves it",
        "load_state_dict": "write ls.load_weights(state, path), or ls.Checkpoint(run).resume(state)",
        "save": "write ls.Checkpoint(run).save(done, state)",
        "load": "write ls.load_weights(state, path), or ls.Checkpoint(run).resume(state)",
        "named_parameters": "state.parameters() have a name each",
        "zero_grad": "leave it out: gradients are values of one step",
        "requires_grad_": "write state.freeze([...])",
        "items": "state.names() and state.array(name) are its tensors",
        "keys": "write state.names()",
        "parameter": "write state.root.parameter(name, shape)",
        "frozen": "write state.root.frozen(name, shape, init)",
        "buffer": "write state.root.buffer(name, shape)",
    },
    "layer": {
        "parameters": _STATE + "state.parameters(); a layer's own are its attributes",
        "named_parameters": _STATE + "state.parameters(); a layer's own are its attributes",
        "state_dict": _STATE + "ls.Checkpoint saves them",
        "load_state_dict": _STATE + "ls.load_weights(state, path)",
        "train": "what is for evaluation is said by ls.Evaluation",
        "eval": "write with ls.Evaluation():, or ls.forward, around what is traced",
        "forward": "call it: layer(x)",
        "cuda": _DEVICE,
        "to": _DEVICE,
        "half": "write state.compute_dtype(ls.f16)",
        "requires_grad_": "write state.freeze([...])",
        "zero_grad": "leave it out: gradients are values of one step",
        "register_forward_hook": "call it where its output is wanted: y = layer(x)",
        "apply": "how weights start is said where they are made: ls.init.normal(0.02)",
    },
}


def _plain(name):
    return name.replace("_", "").lower()


def _spelled(name, known):
    """The name among `known` that is spelled as this one but for case, underscores and PyTorch's endings, or nearly so."""
    names = {}
    for each in sorted(known):
        if not each.startswith("_"):
            names.setdefault(_plain(each), each)
    wanted = _plain(name)
    for spelled in (wanted, wanted.removesuffix("loss"), wanted.removesuffix("2d"), wanted.removesuffix("1d"), wanted.removesuffix("3d")):
        if spelled in names:
            return names[spelled]
    near = difflib.get_close_matches(wanted, names, 1, 0.75)
    return names[near[0]] if near else None


def missing(name, known):
    """What is said of lockstep.NAME, where `known` are the names that there are."""
    text = f"module 'lockstep' has no attribute {name!r}"
    if name.startswith("_"):
        return text
    if name in ELSEWHERE:
        return f"{text}; here that is {ELSEWHERE[name]}"
    near = _spelled(name, known)
    return f"{text}; did you mean {near}?" if near else f"{text}; docs/pytorch.md has PyTorch's words beside ours"


def _kind(of):
    for kind in ("Tensor", "Loss", "Parameter", "Optimizer", "State"):
        if isinstance(of, getattr(_core, kind)):
            return kind
    return "layer" if callable(of) else type(of).__name__


def absent(self, name):
    """An attribute of one of our objects that is not there."""
    text = f"{type(self).__name__!r} object has no attribute {name!r}"
    if name.startswith("_"):
        raise AttributeError(text)
    kind = _kind(self)
    said = f" ({repr(self).split('(', 1)[1][:-1]})" if kind in ("Tensor", "Loss") else ""
    if words := ATTRIBUTES.get(kind, {}).get(name):
        raise AttributeError(f"{text}{said}: {words}")
    if kind == "Tensor" and name in ELSEWHERE:
        raise AttributeError(f"{text}{said}: here that is {ELSEWHERE[name]}")
    if kind == "Tensor" and isinstance(getattr(_core, name, None), type(_core.relu)):
        raise AttributeError(f"{text}: write ls.{name}(...)")
    if kind == "Tensor" and name.endswith("_") and hasattr(_core.Tensor, name[:-1]):
        raise AttributeError(f"{text}: nothing is written in place: x = x.{name[:-1]}(...)")
    if kind == "Parameter" and hasattr(_core.Tensor, name):
        raise AttributeError(f"{text}: its value in the step is p(x), x any tensor of the step: p(x).{name}")
    near = _spelled(name, dir(type(self)))
    raise AttributeError(f"{text}; did you mean {near}?" if near else text)


def install():
    for kind in vars(_core).values():
        if isinstance(kind, type) and not issubclass(kind, Exception) and not hasattr(kind, "__getattr__") and kind is not _core.DType:
            kind.__getattr__ = absent
