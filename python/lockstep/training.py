"""The session of a program, its data in memory, and the training loop."""
import atexit
import dataclasses
import os
import sys
import traceback

from . import _core
from .calls import checked, shown


class Session:
    """A program as one of the ranks. Under trainrun it joins the others; otherwise it is a mesh of one rank.

    The mesh is [dp_replicate = all ranks], or that of --mesh.shape=[...] and --mesh.dim_names=[...] in
    `arguments` (sys.argv); --train.device=WORD and --train.precision=WORD are read, too. The other arguments
    remain in `arguments`. `precision` is "" without an argument: then train() computes in the state's dtype.
    A process can have one Session. An uncaught exception ends the rank with the exit code of its
    kind, and trainrun reports it, like an exit code of your program. At an interactive prompt both behave as
    usual in Python.
    """

    @checked
    def __init__(self, arguments=None):
        words = list(sys.argv) if arguments is None else [sys.argv[0], *map(str, arguments)]
        self._before, self._exit, self._process = sys.excepthook, sys.exit, os.getpid()
        sys.excepthook = self._leave
        if os.environ.get("LOCKSTEP_LOG_DIR"):
            sys.exit = self._exit_here
        if "RANK" in os.environ:  # set by torchrun or another launcher; trainrun then starts the ranks with this Python
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
        """Argument `index` after the program's name, converted to the type of `otherwise`."""
        if index >= len(self.arguments):
            return otherwise
        return self.arguments[index] if otherwise is None else type(otherwise)(self.arguments[index])

    @checked
    def report(self, step: "int", **values):
        """Prints the values on rank 0 and reports the end of the step to trainrun."""
        for name, value in values.items():
            if not hasattr(value, "__float__") or isinstance(value, _core.Tensor):
                raise _core.UserError(f"[report] {_core._line()}: {name} is {shown(value)}; it must be a number")
        self._session.report(step, {name: float(value) for name, value in values.items()})

    @property
    def stop_requested(self):
        """Whether SIGTERM or SIGINT came: agree with the other ranks (Step gives `stop`), save and leave."""
        return self._session.stop_requested

    def close(self):
        """Leaves the ranks; all of them synchronise. The end of the program calls it if no rank has failed."""
        if self._session is not None:
            self._session.finish()
        self._end()

    def _end(self):
        """The end of this program. Its exit code, which is not known yet, decides whether the ranks synchronise."""
        self._session = None
        sys.excepthook, sys.exit = self._before, self._exit

    def _exit_here(self, code=None):
        """sys.exit under trainrun; reports the line to it."""
        if os.getpid() == self._process:  # a child process is not a rank
            _explain_exit(code, traceback.extract_stack(sys._getframe(1)))
        self._exit(code)

    def _leave(self, kind, error, trace):
        """Handles an uncaught exception. Code typed at a prompt, or running in a child of this process, ends no
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
    """Reports to trainrun why the process ends with this code."""
    number = 0 if code is None else code if isinstance(code, int) else 1
    _core._explain_exit(number & 255, f"SystemExit: {code} (raised at {_place(_of_the_user(frames))})")


def _leave(kind, error, trace):
    """Handles an uncaught exception: prints the traceback without our frames and exits with the code of its kind."""
    frames = _of_the_user(traceback.extract_tb(trace))
    if kind is KeyboardInterrupt and not os.environ.get("LOCKSTEP_LOG_DIR"):
        # Python then ends by the signal itself, which a shell reports as 130
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

    Integers become i32 and floats f32, also from NumPy's 64-bit dtypes. shuffle: each epoch has its own order,
    which depends only on the seed; it is the same on any number of ranks.
    """
    return _core._arrays(fields, shuffle, seed)


@dataclasses.dataclass
class Validation:
    """An evaluation by train() on samples that are not trained on.

    function(*fields) is traced as an evaluation, where dropout does nothing; it returns the Loss, may report
    metrics, and updates nothing. samples: the number of first samples of the data to use. every: steps between
    evaluations; 0: at the end. measured(metrics) is called on every rank after each evaluation of `every`, with a dict
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
    """Trains `state`: trainrun's loop with your step function. Returns the hash of the state.

    step(*fields) is traced on a micro-batch of the data's fields, [micro_batch, ...] each; it updates the state
    and returns the Loss. Parameters with names of fields take those fields, in any order; without such names
    the fields are passed in order. Ranks compare their data before the first step.

    micro_batch: samples that a rank computes at a time. 0 chooses it from the batch and the step, never from
    the ranks, so that their number changes no bit. It is the whole batch if the step mixes samples (batch norm,
    in-batch negatives) or reads their number. Otherwise it is the largest divisor of the batch, at most 32,
    that leaves 4 or more micro-batches for ranks to share. To find out, the step is traced on the whole batch
    and on a part of it.

    Step i reads samples i * global_batch to (i + 1) * global_batch - 1.

    The run continues from the newest checkpoint of its folder, on any number of ranks. It saves every
    `save_every` steps (0: at the end), and when Ctrl-C or SIGTERM requests a stop; with save_async the state is
    copied and written while the training continues. Every `memory_every` steps it is also kept in host memory,
    from which trainrun can restart it (0: never).

    validation=Validation(...) evaluates during the run: "val_loss", and metrics as "val_NAME". `monitor` is the
    metric to compare; less is better (or more, monitor_mode="max"). best=True keeps the state of the best
    validation in RUN/best, and patience=N ends the run after N validations in a row that were not better by
    more than `min_delta`.

    on_nonfinite is the reaction to a loss or gradient norm that is not finite: "stop", "skip" or "rewind";
    on_spike that to one far above its median, also "warn" or "off".

    memory_budget, together, offload_moments and offload_activations are those of compile(). tensorboard=True
    writes event files into RUN. The other options are config keys without their section: see `trainrun explain
    train.spike_window`.
    """
    given = {**locals(), "return_when_stopped": True}  # an exception or the exit code reports it
    options = {name: given[name] for name in _core._train_options()}
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
    except SystemExit as error:  # from a user's function, which may have raised it without sys.exit
        _explain_exit(error.code, traceback.extract_tb(error.__traceback__))
        raise
    if session.stop_requested:
        if os.environ.get("LOCKSTEP_LOG_DIR"):
            session.close()
            sys.exit(80)  # the exit code of a run that was stopped and saved
        raise KeyboardInterrupt(f"the state is saved in {run}/ckpt, and the same command goes on from there")
    return hash_
