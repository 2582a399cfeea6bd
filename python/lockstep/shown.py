"""The reprs of our objects: layers with their parameters, the state as a table of its tensors, optimizers with their
rate."""
from . import _core

_ROWS = 24  # of a state; the middle of a longer table is left out


def _types(of):
    return f"{of.dtype.name.replace('boolean', 'bool')}[{','.join(map(str, of.shape))}]"


def layer(self):
    """Linear(up: weight f32[32,20], bias f32[32])"""
    parts, path = [], None
    for kind in reversed(type(self).__mro__):
        for name, value in vars(kind).items():
            if name.startswith("_") or not isinstance(value, property):
                continue
            value = getattr(self, name)
            if isinstance(value, _core.Parameter):
                if value:
                    path = path or value.name.removesuffix("." + name)
                    parts.append(f"{name} {_types(value)}")
            elif isinstance(value, (bool, int, float, str)):
                parts.append(f"{name} {value}")
            elif type(value).__module__.startswith("lockstep") and type(value).__repr__ is layer:
                parts.append(f"{name} {value!r}")
    inside = ", ".join(parts)
    return f"{type(self).__name__}({path + ': ' if path and inside else ''}{inside})"


def state(self):
    """A line for each tensor except optimizers' moments, and the total number of elements."""
    specs = self._specs()
    if not specs:
        return "State(empty)"
    own = [spec for spec in specs if not spec[4]]
    trained, moments = sum(spec[2] for spec in own if spec[3]), sum(spec[2] for spec in specs if spec[4])
    head = f"State({trained:,} numbers are trained{f', {moments:,} are moments of them' if moments else ''}"
    rows = [f"  {name}  {type_}{'' if trains else '  not trained'}" for name, type_, _, trains, _ in own]
    if len(rows) > _ROWS:
        rows[_ROWS // 2:-_ROWS // 2] = [f"  ... {len(rows) - _ROWS} more"]
    return "\n".join([head, *rows]) + ")"


def optimizer(self):
    """AdamW(optim: lr 0.01)"""
    scalars = self.scalars(1)
    head = f"{self.path}." if self.path else ""
    said = ", ".join(f"{name.removeprefix(head)} {value:g}" for name, value in scalars.items() if name.endswith("lr"))
    return f"{type(self).__name__}({self.path}{': ' + said + ' at step 1' if said else ''})"


def model(self):
    inputs = (f"{name} {dtype.name}[{','.join(map(str, shape))}]" for name, (dtype, shape) in self.inputs.items())
    return f"Model({', '.join(inputs)})"


def schedule(self):
    return f"Schedule({self.at(1):g} at step 1)"


def install():
    own = {"State": state, "Optimizer": optimizer, "Model": model, "Schedule": schedule}
    for name, kind in vars(_core).items():
        if not isinstance(kind, type) or issubclass(kind, Exception) or kind.__repr__ is not object.__repr__:
            continue
        kind.__repr__ = own.get(name, layer if not issubclass(kind, _core.Optimizer) else optimizer)
