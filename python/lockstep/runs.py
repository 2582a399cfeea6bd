"""Reads the results of a run: checkpoints as arrays, metrics as columns."""
import fnmatch
import json
import os

from . import _core
from .calls import checked, shown


def _folder_named(function, run):
    """The path that is given, which is not empty, as where a variable is not set."""
    run = os.fspath(run)
    if not run.strip():
        raise _core.UserError(f'[{function}] run is "{run}"; it is the folder of a run, as in "runs/mine"')
    return run


def _step_folder(run, step):
    run = _folder_named("load", run)
    one, folder = _core._named_checkpoints(run)
    if one:
        here = os.path.basename(folder.rstrip("/"))
        if step is not None and here != f"step-{step}":
            raise _core.UserError(f"[load] {run} is the checkpoint {here}, and step is {step}; name the folder of the "
                                  f"run, or leave step out")
        return folder
    found = _core._checkpoints(folder)
    whole = [(number, path) for number, path, problem in found if not problem and step in (None, number)]
    if not whole:
        have = ", ".join(str(number) for number in sorted(number for number, _, _ in found)) or "none"
        wanted = "a checkpoint" if step is None else f"a checkpoint of step {step}"
        raise _core.UserError(f"[load] {run} has no whole {wanted[2:]}; steps that are there: {have}")
    return whole[0][1]  # newest first


@checked
def load(run, step: "int | None" = None, names="*"):
    """The tensors of a checkpoint as NumPy arrays by name: load("runs/quickstart")["token.weight"].

    run: the folder of a run, of its checkpoints, or of one step, also s3://BUCKET/...; step: the newest if None; names:
    one or several globs, each of which must match a tensor. Every byte that is read is verified. bf16 is returned as
    float32 with the same numbers.
    """
    folder = _step_folder(run, step)
    globs = [names] if isinstance(names, str) else list(names)
    if not globs:
        raise _core.UserError('[load] names is empty; give globs of tensors, as ["*.weight"], or leave it out')
    have = _core._tensors(folder)
    nothing = [glob for glob in globs if not fnmatch.filter(have, glob)]
    if nothing:
        raise _core.UserError(f"[load] {folder} has no tensor {' or '.join(nothing)}; it has "
                              f"{', '.join(have[:8])}{', ...' if len(have) > 8 else ''}")
    chosen = [name for name in have if any(fnmatch.fnmatchcase(name, glob) for glob in globs)]
    return {name: _core._read_tensor(folder, name) for name in chosen}


def _row(path, number, line):
    """A line of metrics, as a dict."""
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise _core.UserError(f"[metrics] line {number} of {path} is {shown(line.strip())}; it must be a row of "
                              'metrics, as {"step": 1, "loss": 2.5}')
    return row


def metrics(run):
    """The rows of metrics.jsonl as columns, NumPy arrays of equal length: NaN if a row has no number or a NaN; other
    values as objects."""
    import numpy

    run = _folder_named("metrics", run)
    path = run if os.path.isfile(run) else os.path.join(run, "metrics.jsonl")
    if not os.path.isfile(path):
        raise _core.UserError(f"[metrics] there is no {path}; name the folder of a run, or a file of its metrics")
    with open(path, encoding="utf-8") as lines:
        rows = [_row(path, number, line) for number, line in enumerate(lines, 1) if line.endswith("\n")
                and line.strip()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = {}
    for name in names:
        values = [row.get(name) for row in rows]
        values = [float(value) if value in ("nan", "inf", "-inf") else value for value in values]  # as JSON has them
        numbers = all(value is None or isinstance(value, (int, float)) and not isinstance(value, bool)
                      for value in values)
        whole = numbers and all(isinstance(value, int) for value in values)
        out[name] = numpy.array(values if whole or not numbers else [float("nan") if v is None else v for v in values],
                                dtype=None if numbers else object)
    return out
