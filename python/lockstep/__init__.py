"""Lockstep: distributed training whose step is traced in Python and compiled, with the same bits on any number of
ranks."""
from typing import TYPE_CHECKING

from . import _core
from ._core import *  # noqa: F401,F403  functions, layers, optimizers: as their C++ headers declare them
from . import calls, init, shown, words
from .dcp import convert_dcp
from .runs import load, metrics
from .training import Session, Validation, arrays, train

__version__ = _core.__version__
calls.install()
shown.install()
words.install()

if not TYPE_CHECKING:  # a type checker knows all names; with this function it would accept any name
    def __getattr__(name):
        raise AttributeError(words.missing(name, globals()))
