"""The session of a program, its data in memory, and the training loop."""
import atexit
import dataclasses
import os
import sys
import traceback

from . import _core


class Session:
    """A program's place among the ranks. Under trainrun it joins them; alone it is a mesh of one rank.

    The mesh is [dp_replicate = all ranks], or what --mesh.shape=[...] and --mesh.dim_names=[...] say among
    `arguments` (sys.argv); --train.device=WORD and --train.precision=WORD are read, too. What is left is in
    `arguments`. `precision` is "" where no argument says one: then train() computes in what the state says.
    One per process. An exception that nobody catches ends the rank with the exit code of its
    kind, and trainrun names it.
    """

    def __init__(self, arguments=None):
        words = list(sys.argv) if arguments is None else [sys.argv[0], *arguments]
        self._before = sys.excepthook
        sys.excepthook = _leave
        if "RANK" in os.environ:  # of torchrun or another launcher, whose ranks trainrun is to start as it did
            os.environ.setdefault("LOCKSTEP_PYTHON", sys.executable)
        self._session = _core._open_session(words or ["python"])
        self.mesh = self._session.mesh
        self.rank = self._session.rank
        self.local_ranks = self._session.local_ranks
        self.arguments = self._session.arguments
        self.precision = self._session.precision
        atexit.register(self.close)

    def argument(self, index, otherwise=None):
        """Argument `index` behind the program's name, as the type of `otherwise`."""
        if index >= len(self.arguments):
            return otherwise
        return self.arguments[index] if otherwise is None else type(otherwise)(self.arguments[index])

    def report(self, step, **values):
        """Prints the values on rank 0, and tells trainrun that the step is done."""
        self._session.report(step, {name: float(value) for name, value in values.items()})

    @property
    def stop_requested(self):
        """Whether SIGTERM or SIGINT came: agree with the other ranks (Step gives `stop`), save and leave."""
        return self._session.stop_requested

    def close(self):
        """Leaves the ranks. Called at the end of the program."""
        self._session = None
        sys.excepthook = self._before


def _leave(kind, error, trace):
    """An exception that nobody caught: the traceback without our own frames, and the exit code of its kind."""
    here = os.path.dirname(__file__) + os.sep
    frames = [frame for frame in traceback.extract_tb(trace) if not frame.filename.startswith(here)]
    if kind is KeyboardInterrupt:  # Python ends by the signal itself then, which a shell tells as 130
        at = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
        print(f"stopped by Ctrl-C (KeyboardInterrupt){at}{': ' if str(error) else ''}{error}", file=sys.stderr)
        return
    print("Traceback (most recent call last):", *(line.rstrip("\n") for line in traceback.format_list(frames)),
          *(line.rstrip("\n") for line in traceback.format_exception_only(kind, error)), sep="\n", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    ours = issubclass(kind, _core.Error)
    name = kind.__name__ if kind.__module__ in ("builtins", "lockstep") else f"{kind.__module__}.{kind.__name__}"
    where = f" (raised at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    _core._leave(name if ours else "ProgramError", str(error) if ours else f"{name}: {error}{where}", True)


def arrays(shuffle=False, seed=0, **fields):
    """Arrays in memory as data: arrays(x=images, label=labels); row i is sample i, and after the last one the first.

    shuffle: each epoch in an order of its own, which follows from the seed; the same on any number of ranks.
    """
    return _core._arrays(fields, shuffle, seed)


@dataclasses.dataclass
class Validation:
    """What train() measures on samples that are not trained on.

    function(*fields) is traced as an evaluation, where dropout does nothing; it gives the Loss, may give
    metrics, and updates nothing. samples: of an evaluation, the first ones of the data. every: steps between evaluations; 0: at the end. measured(metrics) is called on every rank
    behind each evaluation of `every`, with a dict of "loss" and the metrics, as in measured=lambda metrics:
    plateau.observe(metrics["loss"]).
    """
    data: object
    function: object
    samples: int
    every: int = 0
    measured: object = None


def train(
    session,
    state,
    data,
    step,
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
    whole batch where the step mixes its samples (batch norm, negatives of the batch), else its largest divisor,
    at most 32, that leaves 4 or more for ranks to share; for that the step is traced once more, on the whole
    batch. Step i reads samples i * global_batch to (i + 1) * global_batch - 1. The
    run goes on from the newest checkpoint of its folder, on any number of ranks; it saves every `save_every`
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
    if session.stop_requested:
        if os.environ.get("LOCKSTEP_LOG_DIR"):
            session.close()
            sys.exit(80)  # as trainrun says of a run that was stopped and saved
        raise KeyboardInterrupt(f"the state is saved in {run}/ckpt, and the same command goes on from there")
    return hash_
