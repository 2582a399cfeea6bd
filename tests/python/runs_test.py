"""What is done with a run of a Python program: a step replayed, its best state read, its weights started from."""
import os
import signal
import subprocess
import sys
import unittest

import lockstep as ls
import numpy as np

import tracing_test
from programs import BIN, Programs

MODEL = """
session = ls.Session()
state = ls.State(session.mesh, seed=1)
up, down = ls.Linear(state / "up", 20, 32), ls.Linear(state / "down", 32, 4)
adamw = ls.AdamW(state / "optim", lr=ls.warmup_cosine(1e-2, 5, 40))
rng = np.random.default_rng(1)
x = rng.random((256, 20)).astype(np.float32) - 0.5
label = x.reshape(256, 4, 5).sum(2).argmax(1)
def measure(x, label):
    return ls.cross_entropy(down(ls.relu(up(x))), label.to(ls.i32))
def step(x, label):
    loss = measure(x, label)
    adamw.update(ls.grad(loss, state.parameters()))
    return loss
run, steps = session.argument(0, "runs/a"), session.argument(1, 20)
"""
TRAIN = """
ls.train(session, state, ls.arrays(x=x, label=label, shuffle=True, seed=3), step, run=run, steps=steps, save_every=5,
         report_every=1, hash_every=4, keep=9, best=True,
         validation=ls.Validation(ls.arrays(x=x[:32], label=label[:32]), measure, 32, every=6))
"""


class Runs(Programs):
    def test_metrics_that_are_no_finite_numbers(self):
        with open(self.path("metrics.jsonl"), "w", encoding="utf-8") as file:
            file.write('{"step":1,"loss":"nan","box":"-inf","state_hash":"ab"}\n'
                       '{"step":2,"loss":0.5,"box":"inf"}\n{"step":3,"all":"nan"}\n')
        columns = ls.metrics(self.folder.name)
        for name, want in (("step", [1, 2, 3]), ("loss", [np.nan, 0.5, np.nan]), ("box", [-np.inf, np.inf, np.nan]),
                           ("all", [np.nan] * 3)):
            np.testing.assert_array_equal(columns[name], want)
            self.assertEqual(columns[name].dtype, np.int64 if name == "step" else np.float64)
        self.assertEqual(columns["state_hash"].tolist(), ["ab", None, None])
        self.run_words([sys.executable, self.write("nan.py", MODEL + """
x[:32] = np.nan
ls.train(session, state, ls.arrays(x=x, label=label), step, run=run, steps=3, global_batch=32, report_every=1,
         on_nonfinite="skip")
""")])
        loss = ls.metrics(self.path("runs/a"))["loss"]
        self.assertEqual((loss.dtype, np.isnan(loss).tolist()), (np.float64, [True, False, False]))
        for line in ("[1]", "{", "3", '"a"'):
            with open(self.path("metrics.jsonl"), "w", encoding="utf-8") as file:
                file.write('{"step":1}\n\n' + line + "\n")
            with self.assertRaisesRegex(ls.UserError, r"\[metrics\] line 3 of .*/metrics.jsonl is .*; it must be a row "
                                                      r"of metrics, as"):
                ls.metrics(self.folder.name)
        with open(self.path("metrics.jsonl"), "w", encoding="utf-8") as file:
            file.write('{"step":1}\n\n{"step":2}\n{"st')
        self.assertEqual(ls.metrics(self.folder.name)["step"].tolist(), [1, 2])

    def test_columns_of_a_run_are_no_names_of_metrics(self):
        self.alone(self.write("classifier.py", MODEL + TRAIN), "runs/a", 6)
        columns = [name for name in ls.metrics(self.path("runs/a")) if name != "grad_norm"] + ["applied", "stop"]
        self.assertIn("val_loss", columns)
        state = ls.State(tracing_test.session.mesh)
        for name in columns:
            with self.assertRaisesRegex(ls.UserError, f'"{name}" is the step\'s own; give yours another name'):
                ls.forward(state, {"x": (ls.f32, [3])}, lambda x: (ls.metric(name, ls.mean_loss(x)), x)[1])

    def test_what_is_loaded_is_what_was_named(self):
        self.alone(self.write("classifier.py", MODEL + TRAIN), "runs/a", 10)
        run = self.path("runs/a")
        self.assertEqual(sorted(ls.load(f"{run}/ckpt/step-5", step=5, names=["up.b*", "down.b*"])),
                         ["down.bias", "up.bias"])
        for call, words in (
            (lambda: ls.load(f"{run}/ckpt/step-5", step=10),
             r"/ckpt/step-5 is the checkpoint step-5, and step is 10; name the folder of the run"),
            (lambda: ls.load(run, step="5"), r"\[load\] runs_test.py:\d+: step is '5'; it must be an integer or None"),
            (lambda: ls.load(run, step=7), r"has no whole checkpoint of step 7; steps that are there: 5, 10"),
            (lambda: ls.load(run, names=["up.weight", "zz"]), r"has no tensor zz; it has "),
            (lambda: ls.load(run, names=[]), r"\[load\] names is empty; give globs of tensors"),
            (lambda: ls.load(""), r'\[load\] run is ""; it is the folder of a run, as in "runs/mine"'),
            (lambda: ls.metrics(" "), r'\[metrics\] run is " "; it is the folder of a run, as in "runs/mine"'),
            (lambda: ls.load_weights(ls.State(tracing_test.session.mesh), ""),
             r'\[load_weights\] path is ""; it names a run, as in "runs/mine", its best folder'),
        ):
            with self.assertRaisesRegex(ls.UserError, words):
                call()
        more = MODEL.replace("adamw =", "more = ls.Linear(state / 'more', 4, 4)\nadamw =") + TRAIN
        said = self.alone(self.write("more.py", more), "runs/a", 12, code=2)
        self.assertIn('in a program: give another run=, and the weights that both have alike by ls.load_weights(state, '
                      '"runs/a/ckpt/step-10", partial=True)', said)

    def replay(self, *words, code=0):
        return self.run_words([f"{BIN}/trainrun", "replay", *map(str, words)], code)

    def test_a_step_is_replayed_on_any_ranks(self):
        program = self.write("classifier.py", MODEL + TRAIN + "print('behind it')\n")
        self.ranks(2, program, "runs/a")
        with open(self.path("runs/a/metrics.jsonl"), encoding="utf-8") as file:
            before = file.read()
        for nproc in (1, 2):
            said = self.replay("--step", 12, "--nproc", nproc, "runs/a", program, "runs/a")
            self.assertIn("replaying steps 11 to 12 from runs/a/ckpt/step-10 on the mesh ", said)
            self.assertIn(f"step 12 of runs/a, program {program}\n", said)
            for name in ("loss", "grad_norm", "lr", "val_loss", "state_hash", "certificate"):
                self.assertRegex(said, rf"\n  {name} +(\S+) +\1 +equal\n")
            self.assertIn("equal: what is recorded of step 12 came out again, bit for bit\n", said)
            self.assertNotIn("behind it", said)
        with open(self.path("runs/a/metrics.jsonl"), encoding="utf-8") as file:
            self.assertEqual(file.read(), before)
        said = self.replay("--step", 12, "runs/a", code=2)
        self.assertIn(
            "name the program after it, as it was started: trainrun replay --step 12 runs/a " + program + " runs/a",
            said
        )
        said = self.replay("--step", 21, "runs/a", program, code=2)
        self.assertIn("step 21 is beyond the run: runs/a is recorded up to step 20", said)
        with open(program, encoding="utf-8") as file:
            text = file.read()
        other = self.path("other.py")
        with open(other, "w", encoding="utf-8") as file:
            file.write(text.replace("ls.relu", "ls.gelu"))
        said = self.replay("--step", 12, "runs/a", other, code=1)
        self.assertRegex(said, r"\n  certificate +\S+ +\S+ +differs\n")
        self.assertIn("replay with the program as it was then, and its arguments", said)

    def test_the_name_of_a_run_is_trainruns(self):
        program = self.write("said.py", "import sys\nsession = ls.Session()\nprint('got', sys.argv[1:], "
                                        "session.arguments)\n")
        said = self.run_words([f"{BIN}/trainrun", "--nproc", "2", "--name=mine", program, "--name=own", "--nproc", "7"])
        self.assertIn("got ['--name=own', '--nproc', '7'] ['--name=own', '--nproc', '7']\n", said)
        self.assertEqual(os.listdir(self.path("runs")), ["mine"])

    def test_the_best_state_is_read(self):
        self.alone(self.write("classifier.py", MODEL + TRAIN), "runs/a")
        best = [name for name in os.listdir(self.path("runs/a/best")) if name.startswith("step-")][0]
        done = int(best[5:])
        read = self.write(
            "read.py",
            MODEL
            + """
checkpoint = ls.Checkpoint(run, every=1)
done = checkpoint.resume(state)
print("resumed", done, float(state.array("up.weight").sum()))
if steps == 21:
    checkpoint.save(done + 1, state)
""",
        )
        weights = ls.load(self.path(f"runs/a/best/{best}"))["up.weight"]
        for path in ("runs/a/best", f"runs/a/best/{best}", "runs/a/best/"):
            self.assertIn(f"resumed {done} {float(weights.sum())}\n", self.alone(read, path))
        self.assertIn("resumed 20 ", self.alone(read, "runs/a"))
        self.assertIn("resumed 0 ", self.alone(read, "runs/new"))
        os.makedirs(self.path("runs/empty/logs"))
        self.assertIn("resumed 0 ", self.alone(read, "runs/empty"))
        os.makedirs(self.path("hf"))
        for name in ("hf/model.safetensors", "file.safetensors"):
            with open(self.path(name), "wb"):
                pass
        for path, words in (
            ("runs/a/bset", "is not there; did you mean runs/a/best?"),
            ("runs", "holds runs, as runs/a: name one of them"),
            ("runs/a/logs", "is a part of the run runs/a: name the run"),
            ("hf",
             "holds model.safetensors, which is no checkpoint of a run: weights alone are read by load_weights()"),
            ("file.safetensors", "is a file; name the folder of a run, or read weights by load_weights()"),
        ):
            if path == "runs/a/logs":
                os.makedirs(self.path(path), exist_ok=True)
            self.assertIn(f"[checkpoint] {path} {words}", self.alone(read, path, code=2))
        said = self.alone(read, "runs/a/best", 21, code=2)
        self.assertIn("[checkpoint] runs/a/best holds checkpoints that are read, and none is written beside them", said)

    def test_a_run_starts_from_weights(self):
        self.alone(self.write("classifier.py", MODEL + TRAIN), "runs/a")
        best = [name for name in os.listdir(self.path("runs/a/best")) if name.startswith("step-")][0]
        start = MODEL.replace("adamw =", "ls.load_weights(state, session.argument(2))\nadamw =")
        tuned = self.write("tuned.py", start + TRAIN)
        for number, path in enumerate(("runs/a/best", f"runs/a/best/{best}")):
            want = self.alone(tuned, f"runs/t{number}", 3, path)
            self.assertIn(f"initial weights from runs/a/best/{best}\n", want)
            self.assertIn(f"state {self.state_of(want)}", self.ranks(2, tuned, f"runs/u{number}", 3, path))
        self.assertLess(ls.metrics(self.path("runs/t0"))["loss"][0], ls.metrics(self.path("runs/a"))["loss"][0] - 0.1)
        self.assertNotIn("initial weights", self.alone(tuned, "runs/t0", 5, "runs/a/best"), "a resumed run has its own")
        # Its values, before anything is trained, and the optimizer's, which begins anew.
        shown = self.write(
            "shown.py",
            start + "state.materialize()\nprint(float(state.array('up.weight').sum()), "
                    "float(abs(state.array('up.bias')).sum()))\n",
        )
        saved = ls.load(self.path(f"runs/a/best/{best}"))
        said = self.alone(shown, "runs/x", 1, "runs/a/best")
        self.assertIn(f"{float(saved['up.weight'].sum())} {float(abs(saved['up.bias']).sum())}\n", said)
        replayed = self.replay("--step", 2, "--from-start", "runs/t0", tuned, "runs/t0", 3, "runs/a/best")
        self.assertIn("came out again, bit for bit", replayed)
        wider = self.write("wider.py", start.replace("20, 32", "20, 16").replace("32, 4", "16, 4") + TRAIN)
        said = self.alone(wider, "runs/y", 3, "runs/a/best", code=2)
        self.assertIn("[load_weights] ", said)
        self.assertIn("up.weight", said)
        more = self.write("more.py", start.replace("\nls.load", "\nmore = ls.Linear(state / 'more', 4, 4)\nls.load")
                          + TRAIN)
        self.assertIn("more.weight", self.alone(more, "runs/y", 3, "runs/a/best", code=2))
        said = self.alone(tuned, "runs/y", 3, "runs/none", code=2)
        self.assertIn("[load_weights] there is no runs/none; name a run, its best folder, a step folder, or "
                      "safetensors", said)

    def test_what_a_layer_keeps_comes_with_its_weights(self):
        normed = MODEL.replace("32, 4)\n", "32, 4)\nnorm = ls.BatchNorm2d(state / 'norm', 32)\n")
        normed = normed.replace("relu(up(x))", "relu(norm(up(x).reshape([-1, 32, 1, 1])).reshape([-1, 32]))")
        program = self.write("normed.py", normed + TRAIN)
        self.alone(program, "runs/a")
        shown = self.write(
            "shown.py",
            normed.replace("adamw =", "ls.load_weights(state, session.argument(2))\nadamw =")
            + "state.materialize()\nprint(*state.array('norm.running_mean'))\n"
            + "print(float(state.array(state.names()[-1]).sum()))\n",
        )
        saved = ls.load(self.path("runs/a"))
        self.assertGreater(abs(saved["norm.running_mean"]).max(), 0)
        said = self.alone(shown, "x", 1, "runs/a")
        self.assertIn(" ".join(str(value) for value in saved["norm.running_mean"]) + "\n0.0\n", said)
        # A file of all that a checkpoint holds is no file of weights: what is beside them is named.
        part = "runs/a/ckpt/step-20/rank-0.safetensors"
        said = self.alone(shown, "x", 1, part, code=2)
        self.assertIn(f"[load_weights] {part}", said)
        self.assertIn("optim.", said)

    def test_adapters_come_with_the_weights(self):
        lora = MODEL.replace("adamw =", "state.lora(rank=3, alpha=9)\nadamw =")
        self.alone(self.write("tuned.py", lora + TRAIN.replace("best=True", "best=False")), "runs/tuned")
        saved = ls.load(self.path("runs/tuned"))
        again = lora.replace("adamw =", "ls.load_weights(state, session.argument(2))\nadamw =")
        shown = "state.materialize()\nnp.savez(run.replace('/', '-'), **{n: state.array(n) for n in state.names()})\n"
        said = self.alone(self.write("again.py", again + shown), "again", 1, "runs/tuned")
        self.assertIn("the adapters of runs/tuned/ckpt/step-20, rank 3 and alpha 9, go on as adapters beside 2 "
                      "weights\n", said)
        arrays = np.load(self.path("again.npz"))
        for name in ("up.weight", "up.lora_A.weight", "up.lora_B.weight"):
            np.testing.assert_array_equal(arrays[name], saved[name])
        plain = MODEL.replace("adamw =", "ls.load_weights(state, session.argument(2))\nadamw =")
        said = self.alone(self.write("plain.py", plain + shown), "plain", 1, "runs/tuned")
        self.assertIn("the adapters of runs/tuned/ckpt/step-20, rank 3 and alpha 9, are merged into 2 weights\n", said)
        arrays = np.load(self.path("plain.npz"))
        product = saved["up.lora_B.weight"].astype(np.float64) @ saved["up.lora_A.weight"]
        np.testing.assert_array_equal(arrays["up.weight"], (saved["up.weight"] + 3.0 * product).astype(np.float32))
        # By Checkpoint, which has another alpha now.
        other = lora.replace("alpha=9", "alpha=3") + "print('done', ls.Checkpoint('runs/tuned').resume(state))\n"
        said = self.alone(self.write("other.py", other), "x")
        self.assertIn("were scaled by alpha / rank = 3.0, and those of this program are by 1.0", said)

    def test_weights_below_a_scope_and_in_part(self):
        self.alone(self.write("classifier.py", MODEL + TRAIN), "runs/a", 5)
        saved = ls.load(self.path("runs/a"))
        pair = """
            session = ls.Session()
            state = ls.State(session.mesh)
            for at in ("teacher", "student"):
                ls.Linear(state / at / "up", 20, 32), ls.Linear(state / at / "head", 32, 7)
                ls.load_weights(state, "runs/a", at=at if at == "teacher" else state / at, partial=True)
            rows = np.arange(224.0).reshape(7, 32)
            state.set("student.head.weight", rows)
            state.materialize()
            for name in ("teacher.up.weight", "student.up.weight", "student.head.weight"):
                np.save(name, state.array(name))
            state.set("teacher.head.bias", np.full(7, 2, np.float32))
            print(state.array("teacher.head.bias")[3])
        """
        said = self.alone(self.write("pair.py", pair))
        self.assertIn("2 of the state keep their values, which runs/a/ckpt/step-5 does not have: teacher.head.weight, "
                      "teacher.head.bias\n", said)
        self.assertIn("2 of runs/a/ckpt/step-5 are not read, since the state does not have them: down.weight, "
                      "down.bias\n", said)
        self.assertIn("2.0\n", said)
        for at in ("teacher", "student"):
            np.testing.assert_array_equal(np.load(self.path(f"{at}.up.weight.npy")), saved["up.weight"])
        np.testing.assert_array_equal(np.load(self.path("student.head.weight.npy")),
                                      np.arange(224, dtype=np.float32).reshape(7, 32))
        wrong = pair.replace("arange(224.0).reshape(7, 32)", "zeros((32, 7))")
        self.assertIn('[set] wrong.py:10: "student.head.weight" is f32[7,32], and what it is set to f32[32,7]',
                      self.alone(self.write("wrong.py", wrong), code=2))

    def test_models_below_a_scope(self):
        program = """
            session = ls.Session()
            state = ls.State(session.mesh)
            sizes = dict(vocab=64, context=8, width=16, depth=1, heads=2)
            models = [ls.build(state / at, "gpt", **sizes) for at in ("policy", "reference")]
            head = ls.Linear(state / "value", 16, 1)
            state.materialize()
            ids = np.arange(16, dtype=np.int32).reshape(2, 8)
            together = lambda ids: ls.concat([model(ids) for model in models], 2)
            both = ls.forward(state, {"ids": (ls.i32, [2, 8])}, together)(ids)
            values = ls.forward(state, {"ids": (ls.i32, [2, 8])}, lambda ids: head(models[0].features(ids)))(ids)
            print("shapes", both.shape, values.shape, np.abs(both[..., :64] - both[..., 64:]).max() > 0)
            recurrent = ls.build(ls.State(session.mesh) / "net", "lstm", vocab=64, context=8)
            ls.forward(state, {"ids": (ls.i32, [2, 8])}, lambda ids: recurrent.features(ids))
        """
        said = self.alone(self.write("two.py", program), code=2)
        self.assertIn("shapes (2, 8, 128) (2, 8, 1) True", said)
        self.assertIn("two.py:16: this family gives no features; gpt, llama, qwen, gemma, mistral, bert, "
                      "bert_classifier and vit do", said)

    def test_ctrl_c_ends_with_one_line(self):
        own = MODEL + """
compiled = ls.compile(state, {"x": (ls.f32, [20]), "label": (ls.i64, [])}, step, global_batch=16, micro_batch=4)
ls.Checkpoint(run).resume(state)
print("here", flush=True)
while True:
    compiled(x[:16], label[:16])
"""
        long = MODEL + TRAIN.replace("steps=steps", "steps=10**9")
        for name, text, words in (
            ("long.py", long, r"stopped by Ctrl-C \(KeyboardInterrupt\) at long.py:\d+: the state is saved in "
                              r"runs/a/ckpt, and the same command goes on from there\n"),
            ("own.py", own, r"stopped by Ctrl-C \(KeyboardInterrupt\) at own.py:\d+\n"),
        ):
            program = subprocess.Popen(
                [sys.executable, "-u", self.write(name, text), "runs/a"],
                cwd=self.folder.name, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            self.addCleanup(program.kill)
            self.assertTrue(program.stdout.readline())
            program.send_signal(signal.SIGINT)
            said = program.communicate(timeout=60)[1]
            self.assertEqual(program.returncode, -signal.SIGINT, said)  # 130 in a shell
            self.assertNotIn("Traceback", said)
            self.assertRegex(said, "(^|\n)" + words + "$")

    def test_a_step_is_drawn(self):
        program = self.write("classifier.py", MODEL + "print('traced')\n" + TRAIN)
        trainrun = f"{BIN}/trainrun"
        said = self.run_words([trainrun, "show", "--graph", "step.svg", "--nproc", "2", "--roofline", "cpu", program,
                               "runs/a"])
        self.assertIn("step.svg: a step of rank 0, predicted by the roofline cpu: ", said)
        with open(self.path("step.svg"), encoding="utf-8") as file:
            picture = file.read()
        self.assertIn("<svg xmlns=", picture)
        self.assertIn("classifier on 2 ranks, mesh [dp_replicate=2]", picture)
        self.assertFalse(os.path.exists(self.path("runs/a")))
        said = self.run_words([trainrun, "show", program], code=2)
        self.assertIn("is a program, which has no config: show --graph FILE.svg draws its step", said)
        said = self.run_words([trainrun, "show", "--graph", "step.png", program], code=2)
        self.assertIn('--graph is "step.png", which does not end in .svg', said)

    def test_an_evaluation_is_planned(self):
        plans = []
        without = TRAIN.replace("measure, 32, every=6))", "measure, 32, every=6) and None)").replace("best=True,", "")
        for name, text in (("with", TRAIN), ("without", without)):
            program = self.write(f"{name}.py", MODEL + text)
            plans.append(self.run_words([f"{BIN}/trainrun", "plan", "--long", program]))
        self.assertIn("evaluation", plans[0])
        self.assertNotIn("evaluation", plans[1])


if __name__ == "__main__":
    unittest.main()
