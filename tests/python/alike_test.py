"""What all ranks give alike: rates and numbers of a step, options of train(), files of weights. A difference is
refused."""
import inspect
import re
import unittest

import lockstep as ls
import numpy as np
from lockstep import _core

from programs import Programs

MODEL = """
session = ls.Session()
rank = session.rank
x = np.random.default_rng(0).standard_normal((32, 4)).astype(np.float32)
def model(lr=1e-2, decay=0.9):
    global state, layer, plateau, sgd, average
    state = ls.State(session.mesh, seed=1)
    layer = ls.Linear(state / "l", 4, 4)
    plateau = ls.Plateau(state / "plateau", patience=0, factor=0.5)
    sgd, average = ls.Sgd(state / "o", lr=lr), ls.WeightAverage(state / "average", decay)
    sgd.follow(plateau)
def step(x, y):
    loss = ls.mse_loss(layer(x), y)
    sgd.update(ls.grad(loss, state.parameters()))
    average.update(x)
    return loss
def compiled():
    return ls.compile(state, {"x": (ls.f32, [4]), "y": (ls.f32, [4])}, step, global_batch=32, micro_batch=8)
def train(run="runs/a", **options):
    ls.train(session, state, ls.arrays(x=x, y=x), step, **{**dict(run=run, steps=4, global_batch=8), **options})
def refused(what, *options):
    try:
        what()
        print(*options, "NOT REFUSED", rank)
    except ls.UserError as error:
        if rank == 0:
            print(*options, "refused:", error)
"""
SAVED = "Nothing is saved of the step, which went by them"


class Alike(Programs):
    def test_scalars_of_a_step(self):
        said = self.ranks(2, self.write("rates.py", MODEL + """
def steps(count=3):
    one = compiled()
    for _ in range(count):
        one(x, x)
def late():
    one = compiled()
    one(x, x)
    one.done += rank
    one(x, x)
model(lr=1e-2 * (1 + 9 * rank))
refused(steps)
model(lr=ls.Schedule(1e-2, lambda step: 1.0 if step < 3 else 1.0 + rank))
refused(steps)
refused(train)
model(decay=0.9 - 0.1 * rank)
refused(steps)
model(lr=ls.Schedule(1e-2, lambda step: step))
refused(late)
model()
steps(1)
plateau.observe(0.5)
refused(lambda: plateau.observe(0.25 + rank))
plateau.observe(float("nan"))
measured = ls.Validation(ls.arrays(x=x, y=x), lambda x, y: ls.mse_loss(layer(x), y), 8, every=1,
                         measured=lambda metrics: plateau.observe(rank))
refused(lambda: train("runs/b", validation=measured))
model()
steps()
print("same", rank)
"""))
        for words in (
            "the set of scalars of step 1 differs between ranks, behind a step: rank 1 has o.lr = 0.1, rank 0 has "
            "0.01; a rate, a schedule and a decay are of the whole run: make them of what all ranks have, not of a "
            "rank's number, clock or draw. "
            + SAVED,
            "the set of scalars of step 2 differs between ranks, behind a step: rank 1 has step = 3, rank 0 has 2; "
            "also different: o.lr",
            "the number that a plateau observes differs between ranks, where plateau.observe() is called between "
            "steps: rank 1 has plateau = 1.25, rank 0 has 0.25; give every rank the same number, as a validation does, "
            "which is of all ranks' samples",
            "rank 1 has plateau = 1, rank 0 has 0;",
        ):
            self.assertIn(words, said)
        self.assertEqual(said.count("the set of scalars of step 3 differs between ranks, behind a step: rank 1 has "
                                    "o.lr = 0.02, rank 0 has 0.01"), 2, said)
        self.assertRegex(said, r"scalars of step 2 differs between ranks, behind a step: rank 1 has average\.decay\S* "
                               r"= 0\.8, rank 0 has 0\.9;")
        self.assertNotIn("NOT REFUSED", said)
        self.assertEqual(len(re.findall(r"\bsame \d", said)), 2)

    def test_a_rate_of_a_ranks_own_ends_the_run(self):
        program = self.write("rate.py", MODEL + "model(lr=1e-2 * (1 + rank))\ntrain()\n")
        said = self.ranks(2, program, code=2)
        self.assertIn("rank 1 has o.lr = 0.02, rank 0 has 0.01", said)

    def test_options_of_train_are_those_of_the_header(self):
        taken = lambda function: {name: one.default for name, one in inspect.signature(function).parameters.items()
                                  if one.kind is one.KEYWORD_ONLY}
        ours, declared = taken(ls.train), _core._train_options()
        self.assertIsNone(ours.pop("validation"))
        self.assertIs(declared.pop("return_when_stopped"), False)
        typed = lambda options: [(name, type(value), value) for name, value in options.items()]
        self.assertEqual(typed(ours), typed(declared))

    def test_every_option_of_train(self):
        names = {one.name: one.default for one in inspect.signature(ls.train).parameters.values()
                 if one.kind is one.KEYWORD_ONLY}
        del names["run"], names["validation"]
        other = {"lanes": 1, "memory_budget": 10**9, "monitor": "val_accuracy", "monitor_mode": "max",
                 "on_nonfinite": "skip", "on_spike": "skip", "on_failure": "warn", "on_corruption": "warn"}
        said = self.ranks(2, self.write("options.py", MODEL + f"""
model()
names, other = {names!r}, {other!r}
for name, value in names.items():
    if rank:
        value = other[name] if name in other else not value if isinstance(value, bool) else value + 1
    refused(lambda: train(**{{name: value}}), name)
measure = lambda x, y: ls.mse_loss(layer(x), y)
validation = lambda samples=8, every=1, measured=None: ls.Validation(ls.arrays(x=x, y=x), measure, samples,
                                                                     every=every, measured=measured)
refused(lambda: train(validation=validation(samples=8 + rank)), "validation.samples")
refused(lambda: train(validation=validation(every=1 + rank)), "validation.every")
refused(lambda: train(validation=validation(measured=print if rank else None)), "validation.measured")
refused(lambda: train(validation=validation() if rank else None), "validation")
refused(lambda: train(run=f"runs/at-{{rank}}"), "run")
print("end", rank)
"""))
        self.assertNotIn("NOT REFUSED", said)
        told = "refused: the set of options of train() differs between ranks, where train() is called: rank 1 has"
        for name in [*names, "validation.samples", "validation.every", "validation.measured"]:
            self.assertRegex(said, rf"{re.escape(name)} {re.escape(told)} {re.escape(name)} = .+, rank 0 has .+; give "
                                   rf"every rank the same options")
        self.assertIn(f"steps {told} steps = 101, rank 0 has 100; give every rank the same options", said)
        self.assertIn('on_spike ' + told + ' on_spike = "skip", rank 0 has "warn"', said)
        self.assertIn("rank 0 has no validation.samples", said)
        self.assertIn(
            "run refused: the folder of the run differs between ranks, where train() is called: rank 1 has run = "
            "runs/at-1, rank 0 has runs/at-0; every rank reads and writes one folder: a time, a draw or a rank's "
            "number in its name differs, so make the name before the ranks start, and hand it over as an argument of "
            "the program", said)
        self.assertEqual(len(re.findall(r"\bend \d", said)), 2)

    def test_an_option_of_a_ranks_own_ends_the_run(self):
        said = self.ranks(2, self.write("steps.py", MODEL + "model()\ntrain(steps=4 + rank)\n"), code=2)
        self.assertIn("rank 1 has steps = 5, rank 0 has 4", said)

    def test_files_of_weights(self):
        said = self.ranks(2, self.write("weights.py", MODEL + """
import json, struct
def write(path, value, more=0):
    data = np.full((4, 4), value, np.float32).tobytes() + np.zeros(4, np.float32).tobytes()
    header = {"l.weight": {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]},
              "l.bias": {"dtype": "F32", "shape": [4], "data_offsets": [64, 80]}}
    text = json.dumps(header).encode() + b" " * more
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return path
import os
os.makedirs(f"rank{rank}", exist_ok=True)
load = lambda path: lambda: ls.load_weights(state, path, partial=True)
model()
refused(load(write(f"rank{rank}/w.safetensors", rank)), "values")
refused(load(write(f"rank{rank}/w.safetensors", 1, 8 * rank)), "size")
load(write(f"rank{rank}/w.safetensors", 2))()
state.materialize()
print("loaded", rank, state.array("l.weight")[0, 0])
"""))
        for name in ("values", "size"):
            self.assertRegex(
                said, rf"{name} refused: the set of weights differs between ranks, where load_weights\(\) is called: "
                      rf"rank 1 has file 1 = "
                r"w\.safetensors, \d+ bytes, fingerprint \w{32}, rank 0 has w\.safetensors, \d+ bytes, fingerprint "
                r"\w{32}; every rank loads a part of "
                "the same weights: give all ranks the same files")
        self.assertEqual(len(re.findall(r"\bloaded \d 2\.0", said)), 2)

    def test_rows_tell_the_rate_of_a_plateau(self):
        for nproc in (1, 2):
            self.ranks(nproc, self.write("plateau.py", MODEL + f"""
model()
def step(x, y):
    loss = ls.mse_loss(layer(x), y)
    sgd.update(ls.grad(loss, state.parameters()))
    plateau.observe(ls.mean_loss(x * 0))
    return loss
train("runs/{nproc}", report_every=1)
"""))
            np.testing.assert_allclose(ls.metrics(self.path(f"runs/{nproc}"))["lr"], [1e-2, 1e-2, 0.5e-2, 0.25e-2],
                                       rtol=1e-6)


if __name__ == "__main__":
    unittest.main()
