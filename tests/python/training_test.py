"""Training in Python: one hash on any ranks, mesh and resume; loops, data and what a run wrote."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

import lockstep as ls
import numpy as np

from programs import BIN, EXAMPLES, Programs

CLASSIFIER = """
session = ls.Session()
state = ls.State(session.mesh, seed=1)
up, down = ls.Linear(state / "up", 20, 32), ls.Linear(state / "down", 32, 4)
adamw = ls.AdamW(state / "optim", lr=ls.warmup_cosine(1e-2, 5, 40))
rng = np.random.default_rng(1)
x = rng.random((256, 20)).astype(np.float32) - 0.5
label = x.reshape(256, 4, 5).sum(2).argmax(1)
def step(x, label):
    logits = down(ls.relu(up(x)))
    loss = ls.cross_entropy(logits, label.to(ls.i32))
    adamw.update(ls.grad(loss, state.parameters()))
    return loss
run, steps = session.argument(0, "runs/a"), session.argument(1, 40)
"""
TRAIN = ("ls.train(session, state, ls.arrays(x=x, label=label, shuffle=True, seed=3), step, run=run, steps=steps, "
         "save_every=10)\n")


class Training(Programs):
    def test_one_hash_on_all_meshes_and_after_a_resume(self):
        program = self.write("classifier.py", CLASSIFIER + TRAIN)
        want = self.state_of(self.alone(program, "runs/a"))
        for nproc, mesh in ((2, "[dp_replicate]"), (3, "[dp_replicate]"), (2, "[dp_shard]")):
            self.assertEqual(self.state_of(self.ranks(nproc, program, f"runs/{nproc}{mesh[4]}",
                                                      f"--mesh.dim_names={mesh}")), want)
        self.ranks(2, program, "runs/r", 17)
        self.assertEqual(self.state_of(self.ranks(3, program, "runs/r", 40)), want)
        tensors = ls.load(self.path("runs/r"))
        self.assertEqual(sorted(tensors)[:2], ["down.bias", "down.weight"])
        self.assertEqual(tensors["up.weight"].shape, (32, 20))
        np.testing.assert_array_equal(ls.load(self.path("runs/a"), names="up.*")["up.weight"], tensors["up.weight"])
        columns = ls.metrics(self.path("runs/a"))
        self.assertEqual(columns["step"].tolist(), [1, 10, 20, 30, 40])
        self.assertLess(columns["loss"][-1], columns["loss"][0])

    def test_validation_is_the_same_on_any_ranks_and_changes_no_bit(self):
        measured = TRAIN.replace("save_every=10", """save_every=10, validation=ls.Validation(
            ls.arrays(x=x[:32], label=label[:32]),
            lambda x, label: ls.cross_entropy(down(ls.relu(up(x))), label.to(ls.i32)), 32, every=15)""")
        plain = self.write("plain.py", CLASSIFIER + TRAIN)
        program = self.write("measured.py", CLASSIFIER + measured)
        want = self.state_of(self.alone(plain, "runs/p"))
        self.assertEqual(self.state_of(self.alone(program, "runs/v")), want)
        self.assertEqual(self.state_of(self.ranks(3, program, "runs/w")), want)
        columns, others = ls.metrics(self.path("runs/v")), ls.metrics(self.path("runs/w"))
        self.assertEqual(columns["step"].tolist(), [1, 10, 15, 20, 30, 40])
        known = ~np.isnan(columns["val_loss"])
        self.assertEqual(columns["step"][known].tolist(), [15, 30, 40])
        self.assertEqual(columns["val_loss"][known].tolist(), others["val_loss"][known].tolist())
        self.assertLess(columns["val_loss"][-1], columns["val_loss"][known][0])
        self.assertGreater(columns["samples_per_s"].min(), 0)
        some = self.write("some.py", CLASSIFIER + measured.replace("to(ls.i32)), 32,", "to(ls.i32)), 31,"))
        self.assertEqual(self.state_of(self.alone(some, "runs/s")), want)  # 31 is no multiple of a micro-batch
        for given, words in (
            ("64,",
             "validation.samples is 64, and its data has 32 rows, so that some would be measured twice: take 32"),
            ("0,", "validation.samples is 0; a validation measures at least 1"),
        ):
            file = self.write("wrong.py", CLASSIFIER + measured.replace("to(ls.i32)), 32,", "to(ls.i32)), " + given))
            self.assertIn(words, self.alone(file, "runs/x", code=2))
        nothing = self.write("nothing.py", CLASSIFIER + measured.replace(
            "lambda x, label: ls.cross_entropy(down(ls.relu(up(x))), label.to(ls.i32))", "lambda x, label: None"))
        self.assertIn("the validation's function gave None; it must return the Loss",
                      self.alone(nothing, "runs/x", code=2))
        trains = self.write("trains.py", CLASSIFIER + measured.replace(
            "lambda x, label: ls.cross_entropy(down(ls.relu(up(x))), label.to(ls.i32))", "step"))
        said = self.alone(trains, "runs/y", code=2)
        self.assertIn('the function of the validation updates "', said)
        self.assertIn("it would train on what it measures; leave optimizer and assign out of it", said)

    def test_a_rate_follows_a_validation(self):
        followed = TRAIN.replace(
            "save_every=10",
            """save_every=10, validation=ls.Validation(
            ls.arrays(x=x[:32], label=label[:32]),
            lambda x, label: ls.cross_entropy(down(ls.relu(up(x))), label.to(ls.i32)), 32, every=4,
            measured=lambda metrics: plateau.observe(metrics["loss"]))""",
        )
        model = CLASSIFIER.replace(
            "\ndef ",
            "\nplateau = ls.Plateau(state / 'plateau', factor=0.5, patience=1, threshold=0.9)\n"
            "adamw.follow(plateau)\ndef ",
            1,
        )
        program = self.write("followed.py", model + followed)
        want = self.state_of(self.alone(program, "runs/a", 40))
        self.assertEqual(self.state_of(self.ranks(2, program, "runs/b", 40, "--mesh.dim_names=[dp_shard]")), want)
        self.ranks(2, program, "runs/c", 17)
        self.assertEqual(self.state_of(self.alone(program, "runs/c", 40)), want)
        self.assertLess(ls.load(self.path("runs/a"))["plateau.factor"][0], 0.1)

    def test_the_best_is_kept_and_the_run_ends_early(self):
        program = self.write(
            "early.py",
            CLASSIFIER
            + TRAIN.replace(
                "save_every=10",
                """save_every=10, best=True, patience=2, min_delta=100,
            validation=ls.Validation(ls.arrays(x=x[:32], label=label[:32]),
            lambda x, label: ls.cross_entropy(down(ls.relu(up(x))), label.to(ls.i32)), 32, every=4)""",
            ),
        )
        said = self.alone(program, "runs/a")
        want = self.state_of(said)
        self.assertIn("done early, after step 12 of 40: val_loss was not below ", said)
        self.assertIn(", of step 4, by more than 100, in 2 validations (patience); checkpoint in runs/a/ckpt", said)
        self.assertEqual(self.state_of(self.ranks(2, program, "runs/b")), want)
        self.ranks(2, program, "runs/r", 10)
        self.assertEqual(self.state_of(self.ranks(1, program, "runs/r")), want)
        rows = ls.metrics(self.path("runs/a"))
        best = f"step-{rows['step'][np.nanargmin(rows['val_loss'])]}"
        self.assertNotEqual(best, "step-4", "the loss falls, by less than min_delta")
        for run in ("a", "b", "r"):
            self.assertEqual(
                [name for name in os.listdir(self.path(f"runs/{run}/best")) if name.startswith("step-")],
                [best],
            )
        np.testing.assert_array_equal(
            ls.load(self.path(f"runs/a/best/{best}"))["up.weight"],
            ls.load(self.path(f"runs/r/best/{best}"))["up.weight"],
        )
        wrong = self.write("wrong.py", CLASSIFIER + TRAIN.replace("save_every=10", "patience=2"))
        self.assertIn(
            "[train] patience goes by validations, and there is no validation: give one",
            self.alone(wrong, "runs/x", code=2),
        )

    def test_policies_and_files_of_a_run(self):
        broken = (
            CLASSIFIER
            + "x[4 * 16] = np.nan\n"
            + TRAIN.replace(", shuffle=True, seed=3", "").replace(
                "save_every=10", "tensorboard=True, on_nonfinite=word"
            )
        )
        skipped = self.write("skipped.py", broken.replace("run, steps =", "word = 'skip'\nrun, steps ="))
        said = self.alone(skipped, "runs/a", 10)
        self.assertIn("step 5 is passed over: the loss is nan", said)
        self.assertIn("certificate ", said)
        self.assertEqual(self.state_of(self.ranks(2, skipped, "runs/b", 10)), self.state_of(said))
        self.assertEqual(ls.metrics(self.path("runs/b"))["passed_over"][-1], 1)
        self.assertEqual(
            len([name for name in os.listdir(self.path("runs/a")) if name.startswith("events.out.tfevents.")]),
            1,
        )
        stopped = self.write("stopped.py", broken.replace("run, steps =", "word = 'stop'\nrun, steps ="))
        said = self.alone(stopped, "runs/c", 10, code=2)
        self.assertIn("step 5: the loss is nan", said)
        self.assertIn('the data is not finite: field "x" is nan at [0] of sample 0 of the batch (row 64 of the arrays)',
                      said)
        wrong = self.write("wrong.py", broken.replace("run, steps =", "word = 'skipp'\nrun, steps ="))
        self.assertIn(
            'on_nonfinite is "skipp"; choose stop | skip | rewind; did you mean skip?',
            self.alone(wrong, "runs/d", 10, code=2),
        )

    def test_what_a_resumed_program_has_otherwise_is_listed(self):
        plain = CLASSIFIER.replace("ls.warmup_cosine(1e-2, 5, 40)", "1e-2") + TRAIN
        program = self.write("rate.py", plain)
        self.alone(program, "runs/a", 10)
        self.assertNotIn("differ", self.alone(program, "runs/a", 20))
        other = self.write("other.py", plain.replace("lr=1e-2", "lr=2e-2"))
        said = self.ranks(2, other, "runs/a", 30)
        self.assertIn("the program is not that of the checkpoint: 1 value differs", said)
        self.assertRegex(said, r"optim\.lr +0\.01 +0\.02 +another learning rate from step 21 on")

    def test_an_option_of_another_type_is_named(self):
        wrong = self.write("wrong.py", CLASSIFIER + TRAIN.replace("save_every=10", "patience='three'"))
        self.assertIn(
            "[train] patience is 'three'; it must be of the type of its default",
            self.alone(wrong, "runs/a", code=2),
        )

    def test_a_script_is_planned(self):
        program = self.write("classifier.py", CLASSIFIER + "print('traced')\n" + TRAIN)
        trainrun = f"{os.environ['LOCKSTEP_BIN']}/trainrun"
        said = self.run_words([trainrun, "plan", "--nproc", "4", program, "runs/a"])
        self.assertIn("classifier on 4 ranks, mesh [dp_replicate=4]; 804 parameters\n  fits      yes", said)
        self.assertIn(" samples/s, ", said)
        self.assertFalse(os.path.exists(self.path("runs/a")))
        plan = json.loads(
            subprocess.run(
                [trainrun, "plan", "--json", program],
                cwd=self.folder.name,
                capture_output=True,
                text=True,
                timeout=60,
            ).stdout
        )
        self.assertEqual(plan["model"]["parameters"], 804)
        self.assertIn(f"certificate {plan['certificate']}", self.alone(program, "runs/a"))

    def test_bf16(self):
        program = self.write("classifier.py", CLASSIFIER + TRAIN)
        want = self.state_of(self.alone(program, "runs/a", "--train.precision=bf16"))
        self.assertEqual(self.state_of(self.ranks(2, program, "runs/b", "--train.precision=bf16")), want)
        own = self.write("own.py", CLASSIFIER.replace("adamw =", "state.compute_dtype(ls.bf16)\nadamw =") + TRAIN)
        self.assertEqual(self.state_of(self.alone(own, "runs/c")), want, "what the program chose")
        fp32 = self.state_of(self.alone(program, "runs/d"))
        self.assertEqual(self.state_of(self.alone(own, "runs/e", "--train.precision=fp32")), fp32,
                         "the word is for this start")
        self.assertNotEqual(want, fp32)

    def test_float8_by_each_recipe(self):
        text = CLASSIFIER.replace("down(ls.relu(up(x)))", "down(ls.relu(mid(ls.relu(up(x)))))")
        states = {}
        for recipe in ("tensorwise", "rowwise", "delayed"):
            layers = ('mid = ls.Linear(state / "mid", 32, '
                      f'32)\nstate.compute_dtype(ls.bf16)\nstate.float8(recipe="{recipe}")\nadamw =')
            # of products, a multiple of 16
            rows = TRAIN.replace("save_every=10", "save_every=10, global_batch=32, micro_batch=16")
            program = self.write(f"{recipe}.py", text.replace("adamw =", layers) + rows)
            states[recipe] = self.state_of(self.alone(program, f"runs/{recipe}", 20))
            self.assertEqual(self.state_of(self.ranks(2, program, f"runs/{recipe}2", 20)), states[recipe])
        self.assertEqual(len(set(states.values())), 3)
        said = self.alone(program, "runs/refused", "--train.precision=bf16", code=2)
        self.assertIn('train.precision is "bf16", and the program\'s layers multiply in float8 (State::float8); leave '
                      'out one of the two', said)

    def test_parts_are_trained(self):
        for name, part in (("lora", "state.lora(rank=2, targets=['up'], also=['down'])"),
                           ("freeze", "state.freeze(['up'])")):
            program = self.write(f"{name}.py", CLASSIFIER.replace("adamw =", f"{part}\nadamw =") + TRAIN)
            want = self.state_of(self.alone(program, f"runs/{name}", 20))
            self.assertEqual(self.state_of(self.ranks(3, program, f"runs/{name}3", 20)), want)
            first, last = (ls.load(self.path(f"runs/{name}/ckpt/step-{step}")) for step in (10, 20))
            for fqn in first:
                trained = ".lora_" in fqn or "down." in fqn
                self.assertEqual(np.array_equal(first[fqn], last[fqn]), not trained, fqn)
            self.assertEqual("up.lora_A.weight" in first, name == "lora")

    def test_loop_of_ones_own_is_the_same_run(self):
        loop = """
compiled = ls.compile(state, {"x": (ls.f32, [20]), "label": (ls.i64, [])}, step, global_batch=16, micro_batch=4)
checkpoint = ls.Checkpoint(run, every=10)
compiled.done = checkpoint.resume(state)
while compiled.done < steps:
    at = np.arange(16) + compiled.done * 16
    result = compiled(x[at % 256], label=label[at % 256])
    session.report(compiled.done, loss=result["loss"])
    checkpoint.save(compiled.done, state)
print(f"step {compiled.done}: state {state.hash()}")
"""
        loop_program = self.write("loop.py", CLASSIFIER + loop)
        plain = self.write("plain.py", CLASSIFIER + TRAIN.replace(", shuffle=True, seed=3", ""))
        want = self.state_of(self.alone(plain, "runs/a"))
        self.assertEqual(self.state_of(self.alone(loop_program, "runs/b")), want)
        self.ranks(2, loop_program, "runs/c", 25)
        self.assertIn("state " + want, self.ranks(2, loop_program, "runs/c", 40))
        joined = self.write("joined.py", CLASSIFIER + loop.replace("micro_batch=4)", "micro_batch=4, together=2)"))
        self.assertEqual(self.state_of(self.alone(joined, "runs/g")), want)
        none = self.write("none.py", CLASSIFIER + loop.replace("micro_batch=4)", "micro_batch=4, together=0)"))
        self.assertIn("together is 0; at least 1 micro-batch runs at a time", self.alone(none, "runs/h", code=2))
        trained = TRAIN.replace(", shuffle=True, seed=3", "")
        for option in ("together=2", "memory_budget=0", "offload_moments=True"):
            program = self.write("how.py", CLASSIFIER + trained.replace("run=run", "run=run, " + option))
            self.assertEqual(self.state_of(self.alone(program, "runs/" + option)), want, option)
        none = self.write("none.py", CLASSIFIER + trained.replace("run=run", "run=run, together=0"))
        self.assertIn("together is 0; at least 1 micro-batch runs at a time", self.alone(none, "runs/i", code=2))
        # Moments lie on the host in the second half, then in all of it.
        offloaded = loop.replace("micro_batch=4)", "micro_batch=4, offload_moments=True)")
        away = self.write("away.py", CLASSIFIER + offloaded)
        self.ranks(2, loop_program, "runs/d", 25)
        self.assertIn("state " + want, self.ranks(3, away, "runs/d", 40))
        self.assertEqual(self.state_of(self.alone(away, "runs/e")), want)
        refused = self.write("refused.py", CLASSIFIER
                             + loop.replace("micro_batch=4)", "micro_batch=4, offload_activations=True)"))
        self.assertIn("compile.offload_activations is true, and compile.memory_budget is none",
                      self.alone(refused, "runs/f", code=2))

    def test_batches_of_other_sizes_and_lengths_are_compiled_and_go_on(self):
        program = self.write("shapes.py", """
import gc, weakref
session = ls.Session()
state = ls.State(session.mesh, seed=1)
token, out = ls.Embedding(state / "token", 17, 8), ls.Linear(state / "out", 8, 17)
adamw = ls.AdamW(state / "optim", lr=1e-2)
def step(ids, target):
    loss = ls.cross_entropy(out(ls.tanh(token(ids))), target)
    adamw.update(ls.grad(loss, state.parameters()))
    return loss
batches = [(8, 6), (6, 6), (8, 9), (5, 6), (8, 6), (6, 6)]
def batch(i):
    count, length = batches[i % len(batches)]
    ids = (np.arange(count * length).reshape(count, length) * 7 + i) % 17
    return ids.astype(np.int32), (ids + 1) % 17
if session.argument(0, "") == "apart":
    steps = [ls.compile(state, {"ids": (ls.i32, [t]), "target": (ls.i32, [t])}, step, global_batch=n, micro_batch=m)
             for (n, t), m in zip(batches[:4], (4, 3, 4, 1))]
    of = lambda i: steps[i % len(batches) % 4]
else:
    one = ls.compile(state, {"ids": (ls.i32, [6]), "target": (ls.i32, [6])}, step, global_batch=8, micro_batch=4)
    of = lambda i: one
state.materialize()
for i in range(12):
    compiled = of(i)
    compiled.done = i
    result = compiled(*batch(i))
print(f"step 12: state {state.hash()}")
if session.argument(0, "") != "apart":
    assert one.shapes == 4, one.shapes
    class Callable:
        def __call__(self, ids, target):
            return step(ids, target)
    function = Callable()
    fields = {"ids": (ls.i32, [6]), "target": (ls.i32, [6])}
    function.step = ls.compile(state, fields, function, global_batch=8, micro_batch=4)
    seen = weakref.ref(function)
    del function
    gc.collect()
    assert seen() is None, "the collector does not see that a step holds its function"
""")
        want = self.state_of(self.alone(program, "apart"))
        said = self.alone(program)
        self.assertEqual(self.state_of(said), want)
        self.assertIn("the step is compiled for a batch of ids i32[5,6], target i32[5,6], in micro-batches of 1: shape "
                      "4 of at most 8", said)
        for nproc in (2, 3):
            self.assertEqual(self.state_of(self.ranks(nproc, program)), want)

    def test_samples_of_a_function(self):
        sampled = ("ls.train(session, state, ls.SampleData({'x': (ls.f32, [20]), 'label': (ls.i32, [])}, lambda i: "
                   "{'label': label[i % 256], 'x': x[i % 256]}), step, run=run, steps=steps)\n")
        program = self.write("sampled.py", CLASSIFIER + sampled)
        plain = self.write("plain.py", CLASSIFIER + TRAIN.replace(", shuffle=True, seed=3", ""))
        self.assertEqual(self.state_of(self.ranks(2, program, "runs/a")), self.state_of(self.alone(plain, "runs/b")))

    def test_interrupt_saves_and_is_told(self):
        text = f"{CLASSIFIER}try:\n    {TRAIN.replace('steps=steps', 'steps=10**9')}"
        text += "except KeyboardInterrupt:\n    print('interrupted')\n"
        program = subprocess.Popen([sys.executable, self.write("long.py", text), "runs/a"], cwd=self.folder.name,
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.kill)
        line = program.stdout.readline()
        self.assertTrue(line.startswith("step 1/1000000000  loss "), line)
        program.send_signal(signal.SIGINT)
        rest = program.communicate(timeout=60)[0]
        self.assertEqual(program.returncode, 0, rest)
        self.assertTrue(rest.endswith("interrupted\n"), rest)
        self.assertTrue(ls.load(self.path("runs/a")))

    def test_a_stop_under_trainrun_ends_with_80_and_goes_on(self):
        trainrun = f"{os.environ['LOCKSTEP_BIN']}/trainrun"
        words = [
            trainrun,
            "--nproc",
            "2",
            self.write("long.py", CLASSIFIER + TRAIN.replace("steps=steps", "steps=10**9")),
        ]
        program = subprocess.Popen(
            words, cwd=self.folder.name, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.addCleanup(program.kill)
        said = ""
        while "step 20/" not in said:
            line = program.stdout.readline()
            self.assertTrue(line, said)
            said += line
        program.send_signal(signal.SIGTERM)
        said += program.communicate(timeout=60)[0]
        self.assertEqual(program.returncode, 80, said)
        self.assertIn("saved in runs/a/ckpt; the same command goes on from there", said)
        with open(self.path("long.py"), encoding="utf-8") as file:
            text = file.read()
        with open(self.path("short.py"), "w", encoding="utf-8") as file:
            file.write(text.replace("steps=10**9", "steps=30"))
        again = self.alone(self.path("short.py"), "runs/a")
        self.assertIn("resumed from runs/a/ckpt/step-", again)
        page = self.run_words([trainrun, "report", "runs/a"])
        self.assertTrue(os.path.exists(self.path("runs/a/report.html")), page)

    def test_interrupt_of_ones_own_loop(self):
        program = subprocess.Popen([sys.executable, "-u",
                                    self.write("long.py", CLASSIFIER + "print('here')\nwhile True:\n    pass\n")],
                                   cwd=self.folder.name,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(program.kill)
        self.assertEqual(program.stdout.readline(), "here\n")
        program.send_signal(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", program.communicate(timeout=60)[1])

    def test_ranks_of_another_launcher_are_one_run(self):
        """As torchrun starts them: by their own interpreter, which is not the python3 of PATH."""
        program = self.write("classifier.py", CLASSIFIER + TRAIN)
        want = self.state_of(self.alone(program, "runs/a"))
        os.mkdir(self.path("other"))
        with open(self.path("other/python3"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexit 3\n")
        os.chmod(self.path("other/python3"), 0o755)
        common = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        common.update(PATH=f"{self.path('other')}:{BIN}:{os.environ['PATH']}", WORLD_SIZE="2", LOCAL_WORLD_SIZE="2",
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000))
        ranks = [subprocess.Popen([sys.executable, program, "runs/b"], cwd=self.folder.name, text=True,
                                  env=common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in range(2)]
        for rank in ranks:
            self.addCleanup(rank.kill)
        said = [rank.communicate(timeout=60)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0], said)
        self.assertEqual(self.state_of(said[0]), want)
        self.assertEqual(said[1], "")

    def test_a_lost_rank_comes_back(self):
        program = self.write("classifier.py", CLASSIFIER + TRAIN)
        want = self.state_of(self.alone(program, "runs/a"))
        killing = self.write("killing.py", "import os, signal\n" + CLASSIFIER +
                             "def fill(i):\n    if i == 25 * 16 and os.environ['LOCKSTEP_RESTART'] == '0':\n        "
                             "os.kill(os.getpid(), signal.SIGKILL)\n"
                             "    return x[i % 256], label[i % 256]\n"
                             "ls.train(session, state, ls.SampleData({'x': (ls.f32, [20]), 'label': (ls.i64, [])}, "
                             "fill), step, run=run, steps=steps, save_every=10)\n")
        plain = self.state_of(self.alone(self.write("plain.py", CLASSIFIER
                                                    + TRAIN.replace(", shuffle=True, seed=3", "")), "runs/p"))
        self.assertNotEqual(plain, want)
        out = self.run_words([f"{os.environ['LOCKSTEP_BIN']}/trainrun", "--nproc", "2", "--max-restarts", "1", killing,
                              "runs/k"])
        self.assertIn("restart 1 of 1", out)
        self.assertEqual(self.state_of(out), plain)


if __name__ == "__main__":
    unittest.main()
