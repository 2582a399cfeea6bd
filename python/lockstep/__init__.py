"""Lockstep: distributed training whose step is traced in Python and compiled, with the same bits on any number of ranks."""
from . import _core
from ._core import *  # noqa: F401,F403  functions, layers, optimizers: as their C++ headers declare them
from . import init
from .dcp import convert_dcp
from .runs import load, metrics
from .training import Session, Validation, arrays, train

__version__ = _core.__version__
