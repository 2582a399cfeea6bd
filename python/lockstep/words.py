"""Suggests our name for a PyTorch name, in the error of an absent attribute of the module or of an object."""
import difflib

from . import _core
from .names import ELSEWHERE

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
        "values": "max and min return only the values: values, indices = ls.max_with_index(x, dim), or min_with_index",
        "indices": "max and min return only the values: values, indices = ls.max_with_index(x, dim), or min_with_index",
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
        "mean": "it is one already, a sum over a count, divided once after all micro-batches",
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
        "lr": "a rate is said where it is made: lr=0.1, ls.warmup_cosine(...) or ls.Schedule(lr, lambda step: ...); "
              "opt.scalars(step) tells it",
        "learning_rate": "a rate is said where it is made: lr=0.1, ls.warmup_cosine(...) or ls.Schedule(lr, lambda "
                         "step: ...)",
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
        "parameters": _STATE + "state.parameters(\"up.**\"), by the layer's path; a layer's own are its attributes",
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
    """The name in `known` that equals this one, or nearly so, except for case, underscores and PyTorch's endings."""
    names = {}
    # a function for a function
    for each in sorted(known, key=lambda each: (each[:1].islower() != name[:1].islower(), each)):
        if not each.startswith("_"):
            names.setdefault(_plain(each), each)
    wanted = _plain(name)
    for spelled in (wanted, wanted.removesuffix("loss"), wanted.removesuffix("2d"), wanted.removesuffix("1d"),
                    wanted.removesuffix("3d")):
        if spelled in names:
            return names[spelled]
    near = difflib.get_close_matches(wanted, names, 1, 0.75)
    return names[near[0]] if near else None


def missing(name, known):
    """The error text for lockstep.NAME; `known` are the existing names."""
    text = f"module 'lockstep' has no attribute {name!r}"
    if name.startswith("_"):
        return text
    if name in ELSEWHERE:
        return f"{text}; here that is {ELSEWHERE[name]}"
    near = _spelled(name, known)
    return f"{text}; did you mean {near}?" if near else f"{text}; docs/pytorch.md lists PyTorch's words with ours"


def _kind(of):
    for kind in ("Tensor", "Loss", "Parameter", "Optimizer", "State"):
        if isinstance(of, getattr(_core, kind)):
            return kind
    return "layer" if callable(of) else type(of).__name__


def absent(self, name):
    """The error for an absent attribute of one of our objects."""
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


def assigned(self, name, value):
    """Sets an attribute; of an absent one the error is that of reading it."""
    try:
        object.__setattr__(self, name, value)
    except AttributeError:
        if hasattr(type(self), name):
            raise
        absent(self, name)


def install():
    for kind in vars(_core).values():
        if not isinstance(kind, type) or issubclass(kind, Exception) or kind is _core.DType:
            continue
        if not hasattr(kind, "__getattr__"):
            kind.__getattr__, kind.__setattr__ = absent, assigned
