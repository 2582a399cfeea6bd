"""Handles a call that no overload takes: accepts PyTorch's spelling, or reports which argument is wrong and what the
function takes."""
import ast
import dataclasses
import difflib
import functools
import inspect
import operator
import re

from . import _core
from .spelled import SAME, SAME_OF_FUNCTIONS, as_ours, is_number

# Other names of arguments, with ours, which the error suggests.
_NEAR = {
    "learning_rate": "lr", "params": "parameters", "max_norm": "clip", "strict": "partial", "prefix": "at",
    "in_features": "in", "out_features": "out", "in_channels": "in", "out_channels": "out", "kernel_size": "kernel",
    "num_heads": "heads", "embed_dim": "width", "d_model": "width", "hidden_size": "hidden",
    "normalized_shape": "width", "num_features": "channels", "num_embeddings": "rows", "embedding_dim": "width",
    "num_layers": "layers", "axes": "dims", "low": "lo", "high": "hi", "is_causal": "causal", "attn_mask": "mask",
    "epochs": "steps", "max_steps": "steps", "iterations": "steps", "batch_size": "global_batch",
    "batch": "global_batch", "validation_data": "validation", "optimizer": "step", "model": "step",
    "loss_fn": "step", "output_dir": "run", "checkpoint_dir": "run", "std": "deviation", "tau": "temperature",
    "k": "count", "repeats": "times", "microbatch": "micro_batch", "start": "weight",
}
# The error for a PyTorch argument that has no counterpart here.
_ABSENT = {
    "device": "the device is the session's: --train.device",
    "requires_grad": "which weights are trained is the state's: state.freeze([...])",
    "out": "nothing is written in place",
    "inplace": "nothing is written in place",
    "training": "what is for training is said by ls.Evaluation",
    "approximate": "gelu is the one by tanh, gelu_erf the other",
    "reduction": "a Loss is a sum and a count; loss.sum is the sum",
    "epochs": "an epoch is rows / global_batch steps",
}


@dataclasses.dataclass
class Parameter:
    name: str
    type: str
    needed: bool
    by_keyword: bool
    rest: str = ""  # "*" or "**"
    default: object = None


def _parameters(signature, defaults):
    """Of the text that nanobind has of an overload, in which default N is \\N or \\=N."""
    text = re.sub(r"\\=?(\d+)", r"\1", signature)
    text = re.sub(r"(?<=[(, ])in: ", "in_: ", text)
    tree = ast.parse(re.sub(r"^def\s*\(", "def _(", text) + ": ...").body[0].args
    of = lambda a, d, by_keyword: Parameter(a.arg, ast.unparse(a.annotation) if a.annotation else "", d is None,
                                            by_keyword,
                                            default=defaults[d.value] if d is not None else None)
    in_order = [*tree.posonlyargs, *tree.args]
    out = [of(a, d, False) for a, d in zip(in_order, [None] * (len(in_order) - len(tree.defaults)) + tree.defaults)]
    if tree.vararg:
        out.append(Parameter(tree.vararg.arg, "", False, False, "*"))
    out += [of(a, d, True) for a, d in zip(tree.kwonlyargs, tree.kw_defaults)]
    if tree.kwarg:
        out.append(Parameter(tree.kwarg.arg, "", False, True, "**"))
    return out


@functools.lru_cache(None)
def _signatures(function):
    return [_parameters(text, defaults) for text, _, defaults in function.__nb_signature__]


def _alternatives(type_):
    """'int | Sequence[int]' in its parts."""
    out, depth, start = [], 0, 0
    for i, c in enumerate(type_):
        depth += (c in "[(") - (c in "])")
        if c == "|" and depth == 0:
            out.append(type_[start:i].strip())
            start = i + 1
    return out + [type_[start:].strip()]


def _fits_one(type_, value):
    if type_ in ("", "object"):
        return True
    if type_ == "None":
        return value is None
    if type_ in ("int", "float"):
        return is_number(value, type_ == "int")
    if type_ in ("str", "bool", "dict"):
        return isinstance(value, {"str": str, "bool": bool, "dict": dict}[type_])
    if "Callable" in type_:
        return callable(value)
    if found := re.fullmatch(r"(?:typing\.)?Literal\[(.*)\]", type_):
        return isinstance(value, str) and repr(value) in found[1]
    if found := re.fullmatch(r"(?:[\w.]*\.)?Sequence\[(.*)\]", type_):
        if isinstance(value, _core.Tensor):
            return found[1].endswith("Tensor") and value.ndim > 0  # of its rows
        several = hasattr(value, "__len__") and hasattr(value, "__getitem__")
        if not several or isinstance(value, (str, bytes, dict)):
            return False
        return all(_fits(found[1], each) for each in value)
    name = type_.rsplit(".", 1)[-1]
    if name == "Session":
        return type(value).__name__ in ("Session", "_Session")
    known = getattr(_core, name, None)
    if name == "LinearInit" and isinstance(value, _core.Init):
        return True
    return not isinstance(known, type) or isinstance(value, known)


def _fits(type_, value):
    return any(_fits_one(each, value) for each in _alternatives(type_))


_WORDS = {"int": "an integer", "float": "a number", "bool": "True or False", "str": "a text", "None": "None",
          "dict": "a dict", "Tensor": "a Tensor", "Scope": 'a Scope, as state / "name"',
          "Init": "an Init, as ls.init.zeros()", "LinearInit": "an Init or a LinearInit", "DType": "a dtype, as ls.f32",
          "Parameter": "a Parameter", "Gradients": "what ls.grad(loss, state.parameters()) gives", "State": "a State",
          "Session": "a Session", "_Session": "a Session", "Schedule": "a Schedule",
          "SampleData": "what ls.arrays(x=..., y=...) or ls.SampleData gives"}
_WHOLE = {"int | Sequence[int]": "an integer or several", "float | Schedule": "a number or a Schedule"}


def _in_words(type_):
    """Of the annotation of an argument: what is taken."""
    short = re.sub(r"[\w.]*\.(?=\w)", "", type_)
    if short in _WHOLE:
        return _WHOLE[short]
    if found := re.fullmatch(r"Literal\[(.*)\]( \| None)?", short):
        words = found[1].replace("'", '"').split(", ") + ["None"] * bool(found[2])
        return ", ".join(words[:-1]) + " or " + words[-1]
    if len(parts := _alternatives(short)) > 1:
        return " or ".join(_in_words(part) for part in parts)
    if found := re.fullmatch(r"Sequence\[(.*)\]", short):
        return {"float": "a list of numbers", "int": "a list of integers", "Tensor": "a list of tensors",
                "Parameter": "a list of parameters",
                "str": "a list of texts"}.get(found[1], f"a list of {found[1]}")
    if "Callable" in short:
        return "a function"
    return _WORDS.get(short, f"{'an' if short[:1] in 'AEIOUaeiou' else 'a'} {short}")


def shown(value):
    """A value in a message: arrays by dtype and shape, the rest by its repr, shortened."""
    if isinstance(value, (_core.Tensor, _core.Parameter)):
        return repr(value)
    kind = type(value)
    if hasattr(value, "dtype") and hasattr(value, "shape") and kind.__module__.split(".")[0] not in ("lockstep",):
        shape = ",".join(str(n) for n in tuple(value.shape)) if isinstance(value.shape, tuple) else str(value.shape)
        if shape or not kind.__module__.startswith("numpy") or kind.__name__ == "ndarray":
            return (f"an array of {str(value.dtype).removeprefix('torch.')}[{shape}] "
                    f"({kind.__module__.split('.')[0]}.{kind.__name__})")
    try:
        text = repr(value)
    except Exception as error:
        text = f"a {kind.__name__} whose repr raises {type(error).__name__}"
    text = " ".join(text.split())
    text = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    return text if len(text) <= 80 else text[:77] + "..."


def _array_words(value):
    """The way out for a value that is not a tensor of the step, where one is needed."""
    if isinstance(value, _core.Parameter):
        return "its value in the step is p(x), x any tensor of the step"
    if isinstance(value, _core.Loss):
        return "a Loss is a sum and a count: loss.sum is a tensor"
    if isinstance(value, _core.Tensor):
        return "a list of one tensor is [x]"
    if is_number(value):
        return "a number becomes a tensor by ls.full_like(x, number)"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return ("arrays come into a step as batch fields (the function's arguments), or stay in the state (at.frozen, "
                "at.buffer); a few numbers are ls.constant(x, [1, 2])")
    if isinstance(value, (list, tuple)) and value and all(is_number(each) for each in value):
        return "a few numbers are ls.constant(x, [1, 2])"
    return ""


def _listed(signature):
    """'at, in_, out, and by keyword bias, init'"""
    names = lambda by: ", ".join(p.rest + p.name for p in signature if p.by_keyword == by and p.rest != "**"
                                 and p.name != "self")
    in_order, by_keyword = names(False), names(True)
    return ", and ".join([in_order] * bool(in_order) + [f"by keyword {by_keyword}"] * bool(by_keyword)) or "nothing"


def _meant(signatures, args, kwargs):
    """The signature with all the names, enough positional parameters and the most fitting arguments; else the first."""
    def rank(signature):
        names = {p.name for p in signature}
        in_order = [p for p in signature if not p.by_keyword]
        room = len(args) <= len(in_order) or any(p.rest for p in in_order)
        # tensors are taken in more places
        fit = sum(_fits(p.type, a) * (2 if "Parameter" in p.type else 1) for p, a in zip(in_order, args))
        given = {p.name for p in in_order[:len(args)]} | set(kwargs)
        known = sum(k in names or bool(_near(k, signature)) for k in kwargs)
        told = all(k in names for k in kwargs)
        missing = sum(p.needed and p.name not in given for p in signature)
        return told, room, fit, known, 0 if told else len(names), -missing
    return max(signatures, key=rank)


def _near(word, signature):
    names = [p.name for p in signature if not p.rest and p.name != "self"]
    for ours in (*SAME.get(word, ()), *SAME_OF_FUNCTIONS.get(word, ()), _NEAR.get(word)):
        for each in (ours, f"{ours}_"):
            if each in names and each != word:
                return each
    if word in _ABSENT and word not in _NEAR:
        return ""
    found = difflib.get_close_matches(word, names, 1, 0.55)
    return found[0] if found else ""


def _refuse_names(signature, kwargs, fail, takes):
    """For a keyword that is no parameter's name."""
    known = {p.name for p in signature if not p.rest}
    for word, value in kwargs.items():
        if word in known or any(p.rest == "**" for p in signature):
            continue
        better = _near(word, signature)
        near = f"; did you mean {better}?" if better else ""
        absent = f" ({_ABSENT[word]})" if word in _ABSENT else ""
        fail(f"there is no argument {word}, which is {shown(value)}{near}{absent}; {takes}")


def _refuse_number(signature, args, fail, takes):
    """For more arguments in order than there are parameters."""
    in_order = [p for p in signature if not p.by_keyword]
    if len(args) <= len(in_order) or any(p.rest == "*" for p in in_order):
        return
    method = bool(signature) and signature[0].name == "self"
    most, extra = len(in_order) - method, len(args) - method
    fail(f"argument {most + 1} in order is {shown(args[len(in_order)])}, and it takes "
         f"{most if most else 'none'}{' so' if most <= 1 else ' in order'}; {takes}"
         if extra else takes)


def _refuse_value(p, value, fail):
    """For a value that the parameter's type does not take."""
    if not _fits(p.type, value):
        name_ = p.name if not p.name.startswith("arg") else "the value"
        a_device = isinstance(value, str) and value in ("cuda", "cpu", "mps")
        more = (_array_words(value) if "Tensor" in p.type
                else _ABSENT["device"] if "DType" in p.type and a_device else "")
        if p.type.endswith("Loss") and isinstance(value, _core.Tensor):
            more = "of values it is ls.mean_loss(values)"
        many = p.type.endswith("Sequence[float]") and isinstance(p.default, (list, tuple)) and len(p.default)
        wanted = f"{many} numbers" if many else _in_words(p.type)
        fail(f"{name_} is {shown(value)}; it must be {wanted}{': ' + more if more else ''}")
    if p.name == "seed" and isinstance(value, int) and not 0 <= value < 2**64:
        fail(f"seed is {value}; it must be an integer from 0 to 2^64 - 1")


def refuse(name, signatures, args, kwargs):
    """UserError for arguments that fit none of the signatures."""
    signature = _meant(signatures, args, kwargs)
    where = f"[{name}] {_core._line()}: "
    takes = "it takes " + _listed(signature)
    fail = lambda words: _raise(where + words)
    _refuse_names(signature, kwargs, fail, takes)
    _refuse_number(signature, args, fail, takes)
    for i, p in enumerate(signature):
        if p.rest or p.name == "self":
            continue
        given = not p.by_keyword and i < len(args)
        if given and p.name in kwargs:
            fail(f"{p.name} is given twice: in order, {shown(args[i])}, and by its name, {shown(kwargs[p.name])}")
        if given or p.name in kwargs:
            _refuse_value(p, args[i] if given else kwargs[p.name], fail)
        elif p.needed:
            fail(f"{p.name} is missing; {takes}{f' ({p.name}: {_in_words(p.type)})' if p.type else ''}")
    method = bool(signature) and signature[0].name == "self"
    given = [*(shown(a) for a in args[method:]), *(f"{k}={shown(v)}" for k, v in kwargs.items())]
    fail(f"the arguments ({', '.join(given)}) fit no way of calling it; {takes}")


def _raise(words):
    raise _core.UserError(words) from None


def answer(function, name, args, kwargs):
    """The result of a call whose arguments nanobind does not convert."""
    if name == "size" and len(args) == 1 and not kwargs:
        return args[0].shape
    signatures = _signatures(function)
    if ours := as_ours(name, signatures, args, kwargs):
        return function(*ours[0], **ours[1])
    refuse(name.strip("_"), signatures, args, kwargs)


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "mod": "%", "matmul": "@", "floordiv": "//", "and": "&",
          "or": "|", "xor": "^", "pow": "**", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def operand(function, name, args, kwargs):
    """The result of a tensor's operator for a value that it does not take."""
    plain = name.strip("_")
    own, other = args
    sign = _SIGNS.get(plain) or _SIGNS.get(plain[1:])
    if not sign or not isinstance(own, _core.Tensor):
        return NotImplemented
    a_loss = isinstance(other, _core.Loss) and plain in ("add", "sub", "mul", "truediv", "lt", "gt")
    if a_loss or f"__r{plain}__" in dir(type(other)):
        return NotImplemented  # the other operand handles tensors
    words = _array_words(other) if not isinstance(other, (int, float)) else ""
    if words and not type(other).__module__.startswith("numpy"):
        _raise(f"[{sign}] {_core._line()}: {shown(own)} {sign} {shown(other)}: {words}")
    return NotImplemented


def array_ufunc(self, ufunc, method, *inputs, **kwargs):
    """A NumPy function of a traced tensor: an operator with a number becomes the tensor's own; any other has no values
    to compute with."""
    names = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "true_divide": "truediv",
             "power": "pow", "remainder": "mod", "less": "lt", "less_equal": "le", "greater": "gt",
             "greater_equal": "ge", "equal": "eq", "not_equal": "ne", "floor_divide": "floordiv", "bitwise_and": "and_",
             "bitwise_or": "or_", "bitwise_xor": "xor", "left_shift": "lshift", "right_shift": "rshift"}
    others = [each for each in inputs if not isinstance(each, _core.Tensor)]
    tensor = next(each for each in (*inputs, *kwargs.get("out", ())) if isinstance(each, _core.Tensor))
    numbers = all(is_number(each) or getattr(each, "ndim", 1) == 0 for each in others)
    if method == "__call__" and not kwargs and ufunc.__name__ in names and numbers:
        # A NumPy float64 is also a float and would recurse here.
        given = (each.item() if hasattr(each, "item") and each is not tensor else each for each in inputs)
        return getattr(operator, names[ufunc.__name__])(*given)
    text = repr(tensor)[7:-1]
    if others:
        raise TypeError(f"a tensor, {text}, has no values while a step is traced, and {shown(others[0])} is no tensor "
                        f"of the step: {_array_words(others[0])}")
    raise TypeError(_no_values(text, ufunc.__name__))


def _no_values(text, name):
    ours = name if hasattr(_core, name) else "exp"
    return (f"a tensor, {text}, has no values while a step is traced, so NumPy cannot compute with it; lockstep has "
            f"the function, as in ls.{ours}(x)")


def array_function(self, function, types, args, kwargs):
    raise TypeError(_no_values(repr(self)[7:-1], function.__name__))


def array(self, *args, **kwargs):
    raise TypeError(_no_values(repr(self)[7:-1], "exp"))


def number(self, *args):
    raise TypeError(f"a tensor, {repr(self)[7:-1]}, has no value while a step is traced: a called step returns its "
                    "metrics, step(x)[\"loss\"], and ls.metric() reports one")


def formatted(self, spec):
    return number(self) if spec else repr(self)


def rounded(self, digits=None):
    return _core.round(self) if digits is None else _core.round(self * 10.0 ** digits) / 10.0 ** digits


def set_item(self, key, value):
    raise TypeError(f"a tensor, {repr(self)[7:-1]}, is never written in place: x = ls.where(mask, value, x), "
                    "ls.scatter(x, dim, ids, values) or ls.concat(...)")


def checked(function):
    """A function of the package's Python code, whose wrong calls get the same errors as those of the others. Of its
    annotations, classes are checked."""
    signature = inspect.signature(function)
    name = (function.__qualname__.split(".")[0] if function.__name__ == "__init__" else function.__name__).strip("_")
    empty = inspect.Parameter.empty
    kinds = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    known = [Parameter(p.name, p.annotation if isinstance(p.annotation, str) else "",
                       p.default is empty and p.kind not in kinds, p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD),
                       kinds.get(p.kind, "")) for p in signature.parameters.values()]

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError:
            refuse(name, [known], args, kwargs)
        if not all(_fits(p.type, bound[p.name]) for p in known if p.name in bound and not p.rest):
            refuse(name, [known], args, kwargs)
        return function(*args, **kwargs)

    return call


def install():
    _core.Tensor.__array_ufunc__ = array_ufunc
    _core.Tensor.__array_function__ = array_function
    _core.Tensor.__array__ = array
    _core.Tensor.__setitem__ = set_item
    _core.Tensor.__int__ = _core.Tensor.__float__ = number
    _core.Tensor.__format__ = formatted
    _core.Tensor.__round__ = rounded
