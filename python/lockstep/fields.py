"""Fields of a batch are arrays of plain numbers. Anything else is refused with field, dtype and way out."""
import inspect
import os
import sys

from . import _core
from .calls import shown

_TAKEN = {"float64", "float32", "float16", "int64", "int32", "uint8", "uint16", "uint32", "uint64", "bool"}


def _refuse(field, what, way):
    raise _core.UserError(f'[data] field "{field}" {what}; {way}') from None


def _way_out(array):
    """What to do with an array of this dtype."""
    dtype = array.dtype
    if dtype.kind == "O":
        first = next(iter(array.flat), None)
        if isinstance(first, (list, tuple)) or hasattr(first, "__len__") and not isinstance(first, (str, bytes)):
            return "its rows have several lengths: pad them to one"
        kind = "empty" if array.size == 0 else f"the first is {shown(first)}"
        return f"its elements are Python objects ({kind}): make numbers of them, as in x.astype(numpy.float32)"
    if dtype.kind in "USTa":
        return "texts are numbered: numpy.unique(x, return_inverse=True)[1]"
    if dtype.kind in "Mm":
        said, x = ("dates", "(x - x.min())") if dtype.kind == "M" else ("times", "x")
        return f"{said} are counted: ({x} / numpy.timedelta64(1, 's')).astype(numpy.float32)"
    if dtype.kind == "c":
        return "take its parts: numpy.stack([x.real, x.imag], -1)"
    if dtype.names:
        return f"give each of its fields by itself: x[{dtype.names[0]!r}]"
    if not dtype.isnative:
        return "its bytes are in the other order: x.astype(x.dtype.newbyteorder('='))"
    if dtype.kind == "i":
        return "write x.astype(numpy.int32)"
    return "write x.astype(numpy.float32)"


def plain(field, value):
    """Converts `value` to a NumPy array of a dtype that tensors have."""
    import numpy

    if isinstance(value, _core.Tensor):
        _refuse(field, f"is {value!r}, a tensor of a step that is traced", "it has no values: give an array")
    if value is None:
        _refuse(field, "is None", "give an array of numbers")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach()
        if value.is_neg():
            value = value.resolve_neg()
        if value.is_conj():
            value = value.resolve_conj()
        if value.dtype is torch.bfloat16:
            return value.contiguous()
    if isinstance(value, (set, frozenset, dict)) or hasattr(value, "__next__"):
        _refuse(field, f"is {shown(value)}, a {type(value).__name__}", "give an array of numbers, or a list of them")
    try:
        array = numpy.asarray(value, order="C")
    except Exception as error:
        words = " ".join(str(error).split())
        if "inhomogeneous" in words:
            _refuse(field, "has rows of several lengths", "pad them to one")
        _refuse(field, f"is {shown(value)}, which NumPy does not convert to an array ({type(error).__name__}: {words})",
                "give an array of numbers")
    if array.dtype.name in _TAKEN and array.dtype.isnative:
        return array
    name = {"O": "objects", "U": "text", "S": "bytes", "T": "text"}.get(array.dtype.kind, array.dtype.name)
    if not array.dtype.isnative:
        name = f"{array.dtype.name} in the other byte order ({array.dtype.str})"
    shape = ",".join(str(n) for n in array.shape)
    _refuse(field, f"is {name} [{shape}], and no tensor has that dtype", _way_out(array))


def called(function):
    """'sample() at train.py:20': a function of the user's in a message."""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__name__", type(function).__name__)
    name = "a lambda" if name == "<lambda>" else f"{name}()"
    return f"{name} at {os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code else name


def refuse_sample(function, i, made, names):
    """UserError for an invalid result of the data's function for sample i."""
    fields = ", ".join(names)
    if hasattr(made, "keys"):
        absent = [name for name in names if name not in made]
        what = (f'gave a dict without the field "{absent[0]}"; it has {", ".join(map(str, made)) or "nothing"}, and '
                f'the fields are {fields}')
    elif made is None:
        what = f"gave None; it must return the fields {fields}: a dict, or a tuple in this order"
    else:
        count = len(made) if hasattr(made, "__len__") and not isinstance(made, str) else 1
        what = (f"gave {count} value{'' if count == 1 else 's'}, {shown(made)}, and the fields are {len(names)}: "
                f"{fields}")
    raise _core.UserError(f"[data] sample {i}: the data's function, {called(function)}, {what}")


def _signature(function, wrapped):
    try:
        return inspect.signature(function, follow_wrapped=wrapped)
    except (TypeError, ValueError):
        return None  # a C function has no signature


def arranged(function, fields, values, said):
    """The fields' values as `function` takes them: positional and by name. Parameters with names of fields take those
    fields; without such names the fields are passed in order. `said` names the function in messages."""
    given = dict(zip(fields, values))
    names = lambda takes: [name for name, one in takes.parameters.items()
                           if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    takes = _signature(function, False)
    if takes is None or not set(fields) <= set(names(takes)):
        takes = _signature(function, True) or takes  # a wrapper forwards its arguments
    if takes is None:
        return values, {}
    kinds, named = takes.parameters.values(), names(takes)
    places = [one for one in kinds if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    any_name = any(one.kind == one.VAR_KEYWORD for one in kinds)
    if set(fields) <= set(named) or any_name and all(one.name in given or one.default is not one.empty
                                                     for one in places):
        in_order = []
        for one in places:
            if one.name not in given:
                break
            in_order.append(given.pop(one.name))
        by_name = given
    else:
        in_order, by_name = values, {}
        for field, place in zip(fields, [one.name for one in places] + [None] * len(fields)):
            if field in named and field != place:
                raise _core.UserError(
                    f'[fields] {_core._line()}: the fields are {", ".join(fields)}, and {said} takes '
                    f'{", ".join(named)}: "{field}" stands '
                    "elsewhere, and not all have a parameter of their name; name each parameter as its field, or none"
                )
    try:
        takes.bind(*in_order, **by_name)
    except TypeError as error:
        raise _core.UserError(
            f"[fields] {_core._line()}: the fields are {', '.join(fields)}, and {said} takes "
            f"{', '.join(map(str, kinds)) or 'nothing'}: {error}; name each parameter as its field, or take as many as "
            "there are fields"
        ) from None
    return in_order, by_name
