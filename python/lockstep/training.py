"""The session of a program, its data in memory, and the training loop."""
import atexit
import dataclasses
import os
import sys
import traceback

from . import _core
from .calls import checked, shown


class Session:
    """A program's place among the ranks. Under trainrun it joins them; alone it is a mesh of one rank.

    The mesh is [dp_replicate = all ranks], or what --mesh.shape=[...] and --mesh.dim_names=[...] say among
    `arguments` (sys.argv); --train.device=WORD and --train.precision=WORD are read, too. What is left is in
    `arguments`. `precision` is "" where no argument says one: then train() computes in what the state says.
    One per process. An exception that nobody catches ends the rank with the exit code of its
    kind, and trainrun names it; so it does an exit code of one's own. At an interactive prompt both are
    Python's.
    """

    @checked
    def __init__(self, arguments=None):
        words = list(sys.argv) if arguments is None else [sys.argv[0], *map(str, arguments)]
        self._before, self._exit, self._process = sys.excepthook, sys.exit, os.getpid()
        sys.excepthook = self._leave
        if os.environ.get("LOCKSTEP_LOG_DIR"):
            sys.exit = self._exit_here
        if "RANK" in os.environ:  # of torchrun or another launcher, whose ranks trainrun is to start as it did
            os.environ.setdefault("LOCKSTEP_PYTHON", sys.executable)
        self._session = _core._open_session(words or ["python"])
        self.mesh = self._session.mesh
        self.rank = self._session.rank
        self.local_ranks = self._session.local_ranks
        self.arguments = self._session.arguments
        self.precision = self._session.precision
        atexit.register(self._end)

    def __repr__(self):
        if self._session is None:
            return "Session(closed)"
        return f"Session(rank {self.rank}, mesh {self.mesh!r})"

    @checked
    def argument(self, index, otherwise=None):
        """Argument `index` behind the program's name, as the type of `otherwise`."""
        if index >= len(self.arguments):
            return otherwise
        return self.arguments[index] if otherwise is None else type(otherwise)(self.arguments[index])

    @checked
    def report(self, step: "int", **values):
        """Prints the values on rank 0, and tells trainrun that the step is done."""
        for name, value in values.items():
            if not hasattr(value, "__float__") or isinstance(value, _core.Tensor):
                raise _core.UserError(f"[report] {_core._line()}: {name} is {shown(value)}; it must be a number")
        self._session.report(step, {name: float(value) for name, value in values.items()})

    @property
    def stop_requested(self):
        """Whether SIGTERM or SIGINT came: agree with the other ranks (Step gives `stop`), save and leave."""
        return self._session.stop_requested

    def close(self):
        """Leaves the ranks: all meet. The end of the program does it, where no rank has failed."""
        if self._session is not None:
            self._session.finish()
        self._end()

    def _end(self):
        """The end of this program: whether the ranks meet follows from its exit code, which nobody knows yet."""
        self._session = None
        sys.excepthook, sys.exit = self._before, self._exit

    def _exit_here(self, code=None):
        """sys.exit under trainrun, which is told the line."""
        if os.getpid() == self._process:  # a child of a rank is none
            _explain_exit(code, traceback.extract_stack(sys._getframe(1)))
        self._exit(code)

    def _leave(self, kind, error, trace):
        """An exception that nobody caught. What is typed at a prompt, or runs in a child of this process, ends no
        rank."""
        if _at_prompt() or os.getpid() != self._process:
            return self._before(kind, error, trace)
        _leave(kind, error, trace)


def _at_prompt():
    ipython = sys.modules.get("IPython")
    return bool(
        hasattr(sys, "ps1")
        or sys.flags.interactive
        or sys.flags.inspect
        or os.environ.get("PYTHONINSPECT")
        or "idlelib.run" in sys.modules
        or ipython is not None and getattr(ipython, "get_ipython", lambda: None)() is not None
    )


def _of_the_user(frames):
    here = os.path.dirname(__file__) + os.sep
    return [frame for frame in frames if not frame.filename.startswith(here)]


def _place(frames):
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "?"


def _explain_exit(code, frames):
    """What trainrun is told where the process ends with this code."""
    number = 0 if code is None else code if isinstance(code, int) else 1
    _core._explain_exit(number & 255, f"SystemExit: {code} (raised at {_place(_of_the_user(frames))})")


def _leave(kind, error, trace):
    """An exception that nobody caught: the traceback without our own frames, and the exit code of its kind."""
    frames = _of_the_user(traceback.extract_tb(trace))
    if kind is KeyboardInterrupt and not os.environ.get("LOCKSTEP_LOG_DIR"):
        # Python ends by the signal itself then, which a shell tells as 130
        at = f" at {_place(frames)}" if frames else ""
        print(f"stopped by Ctrl-C (KeyboardInterrupt){at}{': ' if str(error) else ''}{error}", file=sys.stderr)
        return
    print("Traceback (most recent call last):", *(line.rstrip("\n") for line in traceback.format_list(frames)),
          *(line.rstrip("\n") for line in traceback.format_exception_only(kind, error)), sep="\n", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    ours = issubclass(kind, _core.Error)
    name = kind.__name__ if kind.__module__ in ("builtins", "lockstep") else f"{kind.__module__}.{kind.__name__}"
    where = f" (raised at {_place(frames)})" if frames else ""
    said = f"{name}: {error}" if str(error) else name
    _core._leave(name if ours else "ProgramError", str(error) if ours else said + where, True)


@checked
def arrays(shuffle: "bool" = False, seed: "int" = 0, **fields):
    """Arrays in memory as data: arrays(x=images, label=labels); row i is sample i, and after the last one the first.

    Integers are i32 and floats f32, also where NumPy has 64 bits. shuffle: each epoch in an order of its own,
    which follows from the seed; the same on any number of ranks.
    """
    return _core._arrays(fields, shuffle, seed)


@dataclasses.dataclass
class Validation:
    """What train() measures on samples that are not trained on.

    function(*fields) is traced as an evaluation, where dropout does nothing; it gives the Loss, may give
    metrics, and updates nothing. samples: of an evaluation, the first ones of the data. every: steps between
    evaluations; 0: at the end. measured(metrics) is called on every rank behind each evaluation of `every`, with a dict
    of "loss" and the metrics, as in measured=lambda metrics: plateau.observe(metrics["loss"]).
    """
    data: object
    function: object
    samples: int
    every: int = 0
    measured: object = None


Validation.__init__ = checked(Validation.__init__)


@checked
def train(
    session: "Session",
    state: "State",
    data: "SampleData",
    step: "Callable",
    *,
    run="runs/own",
    steps=100,
    global_batch=16,
    micro_batch=0,
    lanes=0,
    memory_budget=-1,
    together=1,
    offload_moments=False,
    offload_activations=False,
    save_every=0,
    save_async=True,
    memory_every=0,
    report_every=10,
    keep=3,
    validation=None,
    monitor="val_loss",
    monitor_mode="min",
    min_delta=0.0,
    best=False,
    patience=0,
    on_nonfinite="stop",
    nonfinite_limit=10,
    on_spike="warn",
    spike_factor=10.0,
    spike_window=64,
    hash_every=0,
    norms_every=0,
    tensorboard=False,
    profile=0,
    retries=3,
    on_failure="stop",
    replicas_every=1,
    recompute_every=0,
    on_corruption="stop",
):
    """Trains `state`: the loop of trainrun around a step function of one's own. Gives the hash of the state.

    step(*fields) is traced on a micro-batch of the data's fields, [micro_batch, ...] each; it updates the
    state and returns the Loss. Parameters that are named as fields take these, in any order; where none is,
    they come in order. Ranks compare their data before the first step. micro_batch: samples that a rank computes
    at a time; 0 takes what the batch and the step say, never the ranks, so that their number changes no bit: the
    whole batch where the step mixes its samples (batch norm, negatives of the batch) or reads how many they are,
    else its largest divisor, at most 32, that leaves 4 or more for ranks to share; for that the step is traced
    twice more, on the whole batch and on a part of it. Step i reads samples i * global_batch to (i + 1) * global_batch
    - 1. The run goes on from the newest checkpoint of its folder, on any number of ranks; it saves every `save_every`
    steps (0: at the end), and when Ctrl-C or SIGTERM asks for a stop; with save_async the state is copied and
    written while the training goes on. Every `memory_every` steps it is kept in the host's memory, too, from
    which trainrun restarts it (0: never). validation=Validation(...) measures on
    the way: "val_loss", and metrics as "val_NAME". By `monitor`, of which less is better (or more,
    monitor_mode="max"), best=True keeps the state of the best validation in RUN/best, and patience=N ends the
    run after N in a row that were not better by more than `min_delta`. on_nonfinite says what a step does
    whose loss or gradient norm is no number: "stop", "skip" or "rewind"; on_spike the same of one far above
    its median, "warn" or "off", too. memory_budget, together, offload_moments and offload_activations are
    those of compile(). tensorboard=True writes event files into RUN. The other options are keys
    of a config, behind the dot: `trainrun explain train.spike_window` tells more.
    """
    options = {
        name: value
        for name, value in locals().items()
        if name not in ("session", "state", "data", "step", "validation")
    }
    if session._session is None:
        raise _core.UserError("[train] the session is closed")
    if validation and not isinstance(validation, Validation):
        raise _core.UserError(f"[train] {_core._line()}: validation is {shown(validation)}; it must be "
                              "ls.Validation(data, function, samples)")
    try:
        hash_ = _core._train(
            session._session,
            state,
            data,
            step,
            options,
            *(
                (validation.data, validation.function, validation.samples, validation.every, validation.measured)
                if validation
                else (None, None, 0, 0, None)
            ),
        )
    except SystemExit as error:  # of a function of the user's, which may have raised it without sys.exit
        _explain_exit(error.code, traceback.extract_tb(error.__traceback__))
        raise
    if session.stop_requested:
        if os.environ.get("LOCKSTEP_LOG_DIR"):
            session.close()
            sys.exit(80)  # as trainrun says of a run that was stopped and saved
        raise KeyboardInterrupt(f"the state is saved in {run}/ckpt, and the same command goes on from there")
    return hash_
