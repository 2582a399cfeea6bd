"""Converts PyTorch's spelling of a call to ours if the meaning is the same: other names of arguments, sizes as separate
arguments, numbers in place of tensors."""
from . import _core

# Argument names of PyTorch that mean the same as ours; accepted if a function has ours.
SAME = {"dim": ("dims", "dim"), "keepdim": ("keep",), "input": ("x", "a", "logits", "p", "log_probabilities"),
        "target": ("targets",), "other": ("b",), "size": ("shape", "sizes")}
# Only for functions: a layer or an optimizer has its own names.
SAME_OF_FUNCTIONS = {
    "axis": ("dims", "dim"), "keepdims": ("keep",), "dims": ("order", "dim"), "start_dim": ("first",),
    "end_dim": ("last",), "dim0": ("a",), "dim1": ("b",),
    "min": ("lo",), "max": ("hi",), "min_val": ("lo",), "max_val": ("hi",), "negative_slope": ("slope",),
    "chunks": ("count",), "tensors": ("xs",),
    "shifts": ("shift",), "num_classes": ("classes",), "fill_value": ("value",), "steps": ("count",),
    "num_samples": ("count",), "replacement": ("again",),
    "label_smoothing": ("smoothing",), "index": ("ids",), "indices": ("ids",), "src": ("values",), "mat2": ("b",),
}
# PyTorch's defaults.
_BY_DEFAULT = {"norm": ("p", 2), "concat": ("dim", 0)}
# Functions that take sizes or dims as separate arguments, as in x.reshape(2, -1): the index of the first.
_ONE_BY_ONE = {"reshape": 1, "permute": 1, "expand": 1, "repeat": 1, "tile": 1, "flip": 1, "zeros": 1, "ones": 1,
               "randn": 1, "squeeze": 1, "broadcast_to": 1}
# Functions of two tensors, one of which may be a number; where() has a condition first.
_OR_NUMBER = {"maximum": 0, "minimum": 0, "where": 1, "remainder": 0, "floor_divide": 0, "equal": 0, "not_equal": 0,
              "less": 0, "less_equal": 0,
              "greater": 0, "greater_equal": 0, "bitwise_and": 0, "bitwise_or": 0, "bitwise_xor": 0,
              "bitwise_left_shift": 0, "bitwise_right_shift": 0, "pow": 0}


def is_number(value, whole=False):
    if isinstance(value, (bool, str, bytes, _core.Tensor, _core.Loss)) or getattr(value, "ndim", 0):
        return isinstance(value, bool)
    return hasattr(value, "__index__") or not whole and hasattr(value, "__float__")


def as_ours(name, signatures, args, kwargs):
    """The same call for our signatures; None if PyTorch does not have it either."""
    args, kwargs = list(args), dict(kwargs)
    changed = _rename(name, signatures, kwargs)
    changed |= _put_beside(name, signatures[0], args, kwargs)
    value = args[2] if len(args) == 3 else kwargs.get("value")
    if name == "full" and "dtype" not in kwargs and is_number(value):
        kwargs["dtype"], changed = _core.i32 if is_number(value, True) else _core.f32, True
    if spelled := _spelled_otherwise(name, signatures[0], args, kwargs):
        args, kwargs, changed = *spelled, True
    at = _ONE_BY_ONE.get(name)
    if at and len(args) > at + 1 and all(is_number(each, True) for each in args[at:]):
        args[at:], changed = [[int(each) for each in args[at:]]], True
    if name in _OR_NUMBER and not changed:
        changed = _numbers(name, args, kwargs, signatures)
    return (args, kwargs) if changed else None


def _rename(name, signatures, kwargs):
    """Gives keywords of PyTorch our names; whether one has changed."""
    changed = False
    names = {p.name for signature in signatures for p in signature}
    for theirs, ours in {**SAME, **(SAME_OF_FUNCTIONS if name.islower() else {})}.items():
        if theirs in kwargs and theirs not in names:
            if word := next((each for each in ours if each in names and each not in kwargs), None):
                kwargs[word], changed = kwargs.pop(theirs), True
    return changed


def _put_beside(name, signature, args, kwargs):
    """Puts a tensor of the traced step before the arguments of a function that makes one beside it; whether it has."""
    first = next((p for p in signature if p.name != "self"), None)
    if (not first or first.name != "beside" or "beside" in kwargs
            or args and isinstance(args[0], _core.Tensor)):
        return False
    if (traced := _core._traced()) is None:
        raise _core.UserError(f"[{name}] {_core._line()}: no step is traced here; call it in the step function, "
                              "and outside of it NumPy's")
    args.insert(0, traced)
    if name == "uniform" and len(args) > 2 and all(is_number(each, True) for each in args[1:]):
        args[1:] = [args[1:]]
    if name == "arange" and len(args) == 2 and "end" not in kwargs:  # arange(n)
        args.insert(1, 0)
    return True


def _split(args, kwargs):
    """split(x, 2, dim=1): parts of 2, and the rest."""
    size = kwargs.pop("split_size", kwargs.pop("split_size_or_sections", None))
    given = ([] if size is None else [size]) + args[1:]
    if not given or len(given) > 2 or len(given) == 2 and not is_number(given[1], True):
        return None
    dim, of = given[1] if len(given) == 2 else kwargs.pop("dim", 0), given[0]
    if is_number(of, True):
        if of < 1:
            raise _core.UserError(f"[split] {_core._line()}: parts of {of} are asked for; a part has at least 1")
        size = args[0].shape[dim] if -args[0].ndim <= dim < args[0].ndim else of
        of = [of] * (size // of) + [size % of] * bool(size % of)
    return ([args[0], dim, of], kwargs) if isinstance(of, (list, tuple)) else None


def _clamp(args, kwargs):
    """clamp(x, 0): one of two ends."""
    ends = dict(zip(("lo", "hi"), args[1:])) | kwargs
    ends = {end: number for end, number in ends.items() if number is not None}
    return (args[:1], {"lo": float("-inf"), "hi": float("inf")} | ends) if len(ends) == 1 else None


def _spelled_otherwise(name, signature, args, kwargs):
    """Our arguments and keywords for a call whose order or default differs in PyTorch; None for any other."""
    tensors = lambda values: all(isinstance(each, _core.Tensor) for each in values)
    if name == "split" and args:
        return _split(args, kwargs)
    if name == "grad" and len(args) > 1 and isinstance(args[1], (_core.Tensor, _core.Parameter)):
        return [args[0], [args[1]], *args[2:]], kwargs
    if name == "einsum" and len(args) > 1 and tensors(args[1:]):
        return [args[0], args[1:]], kwargs
    if name == "randint" and len(args) == 4 and not is_number(args[3]) and is_number(args[1]):
        return [args[0], args[3], args[1], args[2]], kwargs
    floats = (_core.f32, _core.f64, _core.bf16, _core.f16)
    if name == "clamp" and args and tensors(args[:1]) and args[0].dtype in floats:
        return _clamp(args, kwargs)
    word, value = _BY_DEFAULT.get(name, (None, None))
    place = next((i for i, p in enumerate(signature) if p.name == word), -1)
    return (args, {**kwargs, word: value}) if word and word not in kwargs and len(args) <= place else None


def _numbers(name, args, kwargs, signatures):
    """Numbers in the place of one of two tensors, as tensors in the other's dtype and shape."""
    places = [p.name for p in signatures[0]][_OR_NUMBER[name]:][:2]
    offset = _OR_NUMBER[name]
    pair = [(args, offset + i) if offset + i < len(args) else (kwargs, n) for i, n in enumerate(places)]
    value = [holder[key] if isinstance(holder, list) else holder.get(key) for holder, key in pair]
    plain = [is_number(each) and not isinstance(each, bool) for each in value]
    tensors = [each for each in value if isinstance(each, _core.Tensor)]
    if not any(plain) or len(tensors) + sum(plain) != 2:
        return False
    for (holder, key), each, number in zip(pair, value, plain):
        if not number:
            continue
        if tensors:
            holder[key] = _core.full_like(tensors[0], each)
        else:  # where(condition, 1.0, 0.0)
            whole = all(hasattr(one, "__index__") for one in value)
            if not args or not isinstance(args[0], _core.Tensor):
                return False
            holder[key] = _core.full(args[0], list(args[0].shape), float(each), _core.i32 if whole else _core.f32)
    return True
