"""Initial values of parameters, as torch.nn.init."""
from . import _core

globals().update({name: value for name, value in vars(_core.init).items() if not name.startswith("_")})
