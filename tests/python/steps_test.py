"""What a step is given and what it does: values of the state, fields by name, data of all ranks, updates that are not made."""
import unittest

from programs import Programs

MODEL = """
session = ls.Session()
rng = np.random.default_rng(0)
x = rng.normal(size=(64, 8)).astype(np.float32)
y = rng.integers(0, 3, 64).astype(np.int32)
state = ls.State(session.mesh, seed=0)
head = ls.Linear(state / "head", 8, 3)
adamw = ls.AdamW(state / "optim", lr=1e-2)
def step(x, y):
    loss = ls.cross_entropy(head(x), y)
    adamw.update(ls.grad(loss, state.parameters()))
    return loss
fields = {"x": (ls.f32, [8]), "y": (ls.i32, [])}
def compiled(step=step):
    return ls.compile(state, fields, step, global_batch=64, micro_batch=16)
"""


class Steps(Programs):
    def test_the_first_call_draws_initial_values(self):
        called = self.write("called.py", MODEL + "one = compiled()\none(x, y)\nprint(f'hash {state.hash()}')\n")
        asked = self.write("asked.py", MODEL + "one = compiled()\nstate.materialize()\none(x, y)\nprint(f'hash {state.hash()}')\n")
        said = self.alone(called)
        self.assertIn("the state has no values yet: its initial values are drawn, of seed 0", said)
        want = said[said.index("hash "):].split("\n")[0]
        self.assertIn(want, self.alone(asked))
        self.assertIn(want, self.ranks(2, called, "--mesh.dim_names=[\"dp_shard\"]"))

    def test_values_are_not_read_or_saved_before_there_are_any(self):
        for line, words in (
            ('state.array("head.weight")', "array() is called before the state has values: materialize() draws initial ones"),
            ("state.hash()", "hash() is called before the state has values"),
            ('ls.Checkpoint("runs/a", every=1).save(1, state)', "runs/a: the state has no values yet, and nothing is saved of it: call resume() or materialize() first"),
            ("ls.forward(state, {'x': (ls.f32, [4, 8])}, head)(x[:4])", "[forward] the state has no values yet"),
        ):
            for before in ("", "compiled()\n"):
                said = self.alone(self.write("early.py", MODEL + before + line + "\n"), code=2)
                self.assertIn(words, said)

    def test_weights_loaded_between_compile_and_the_first_call(self):
        """What the weights leave, as an adapter, has its initial values too."""
        first = self.write("first.py", MODEL + "ls.train(session, state, ls.arrays(x=x, y=y), step, run='runs/a', steps=3)\n")
        self.alone(first)
        second = self.write("second.py", MODEL.replace('adamw =', 'state.lora(rank=2)\nadamw =') + """
one = compiled()
ls.load_weights(state, "runs/a")
assert np.abs(state.array("head.lora_A.weight")).max() > 0
assert (state.array("head.weight") == ls.load("runs/a")["head.weight"]).all()
""")
        self.alone(second)

    def test_values_set_between_compile_and_the_first_call(self):
        self.alone(self.write("given.py", MODEL + '''
one = compiled()
state.set("head.bias", np.float32([1, 2, 3]))
before = ls.State(session.mesh, seed=0)
ls.Linear(before / "head", 8, 3)
before.materialize()
one(np.zeros_like(x), y)  # weights have no gradient but of decay
assert np.allclose(state.array("head.weight"), before.array("head.weight") * (1 - 1e-2 * 0.1), atol=1e-7), state.array("head.weight")
assert np.abs(state.array("head.bias") - [1, 2, 3]).max() < 0.02
'''))

    def test_fields_by_name(self):
        swapped = """
session = ls.Session()
rng = np.random.default_rng(0)
x = rng.normal(size=(64, 4)).astype(np.float32)
state = ls.State(session.mesh, seed=0)
layer = ls.Linear(state / "l", 4, 4, start=ls.torch_linear(4))
sgd = ls.Sgd(state / "o", lr=0.1)
def step(PARAMETERS):
    loss = ls.mse_loss(layer(x), target)
    sgd.update(ls.grad(loss, state.parameters()))
    return loss
ls.train(session, state, ls.arrays(x=x, target=2 * x), step, run="runs/" + session.argument(0, ""), steps=200)
print("diagonal", np.diag(state.array("l.weight")).round(2).tolist())
"""
        for number, parameters in enumerate(("x, target", "target, x", "*, target, x", "target, x, scale=1")):
            said = self.alone(self.write("named.py", swapped.replace("PARAMETERS", parameters)), number)
            self.assertIn("diagonal [2.0, 2.0, 2.0, 2.0]", said, parameters)
        in_order = swapped.replace("PARAMETERS", "a, b").replace("layer(x), target", "layer(a), b")
        self.assertIn("diagonal [2.0, 2.0, 2.0, 2.0]", self.alone(self.write("in_order.py", in_order), "o"))
        first = swapped.replace("PARAMETERS", "x, b").replace("layer(x), target", "layer(x), b")
        self.assertIn("diagonal [2.0, 2.0, 2.0, 2.0]", self.alone(self.write("first.py", first), "f"))
        half = swapped.replace("PARAMETERS", "target, b").replace("layer(x), target", "layer(b), target")
        self.assertIn('the fields are x, target, and the step function takes target, b: "target" stands elsewhere, and not all have '
                      "a parameter of their name; name each parameter as its field, or none", self.alone(self.write("half.py", half), "h", code=2))
        forward = MODEL + """state.materialize()
f = ls.forward(state, {"a": (ls.f32, [2]), "b": (ls.f32, [2])}, lambda b, a: a - b)
print(f(np.float32([3, 4]), np.float32([1, 1])).tolist())
"""
        self.assertIn("[2.0, 3.0]", self.alone(self.write("forward.py", forward)))

    def test_ranks_are_given_the_same_data(self):
        unseeded = MODEL.replace("default_rng(0)", "default_rng(100 + session.rank)")
        way_out = "draws of one seed"
        train = "ls.train(session, state, DATA, step, run='runs/a', steps=2, global_batch=16)\n"
        said = self.ranks(2, self.write("train.py", unseeded + train.replace("DATA", "ls.arrays(x=x, y=y)")), code=2)
        self.assertRegex(said, 'data .*field "x"')
        self.assertIn(way_out, said)
        function = "ls.SampleData(fields, lambda i: {'x': x[i % 64], 'y': y[i % 64]})"
        said = self.ranks(2, self.write("function.py", unseeded + train.replace("DATA", function)), code=2)
        self.assertRegex(said, 'field "x" of sample 0')
        said = self.ranks(2, self.write("called.py", unseeded + "one = compiled()\none(x, y)\n"), code=2)
        self.assertRegex(said, "batch of the first call")
        self.assertIn("call the step with the same arrays on every rank", said)
        measured = train.replace("DATA", "ls.arrays(x=np.ones_like(x), y=np.ones_like(y))").replace(
            "steps=2", "steps=2, validation=ls.Validation(ls.arrays(x=x, y=y), lambda x, y: ls.cross_entropy(head(x), y), 64)")
        said = self.ranks(2, self.write("measured.py", unseeded + measured), code=2)
        self.assertIn("data of the validation", said)
        self.ranks(2, self.write("same.py", MODEL + train.replace("DATA", "ls.arrays(x=x, y=y)")))

    def test_a_resumed_run_tells_other_data_and_another_seed(self):
        train = "ls.train(session, state, ls.arrays(x=x, y=y), step, run='runs/a', steps=session.argument(0, 2))\n"
        first = self.write("first.py", MODEL + train)
        self.assertNotIn("differ", self.alone(first))
        self.assertNotIn("value differs", self.alone(first, 3))
        other = self.write("other.py", MODEL.replace("default_rng(0)", "default_rng(1)").replace("seed=0", "seed=5") + train)
        said = self.alone(other, 4)
        self.assertIn("the program is not that of the checkpoint: 3 values differ", said)
        self.assertRegex(said, 'data: field "x" .*other samples from step 4 on')
        self.assertRegex(said, 'data: field "y" .*other samples from step 4 on')
        self.assertRegex(said, "seed +0 +5 +other random numbers from step 4 on")

    def test_an_update_that_is_not_made_is_told_once(self):
        program = MODEL + """
bad = x.copy()
bad[17, 2] = np.nan
one = compiled()
for arrays in ((x, y), (bad, y), (bad, y)):
    print("applied", one(*arrays)["applied"])
one(x, np.full_like(y, -100))
"""
        said = self.alone(self.write("nan.py", program))
        self.assertEqual(said.count("applied False"), 2)
        self.assertEqual(said.count("its update was not made"), 1)
        self.assertIn('[step] step 2: the loss is nan and the gradient norm is nan; the data is not finite: field "x" is nan at [2] of '
                      "sample 17 of the batch", said)

    def test_a_step_whose_labels_are_all_ignored(self):
        words = "no label of the step counts: the loss is divided by a count of 0, as where every label is ignored (-100), or masked"
        called = self.write("called.py", MODEL + "one = compiled()\none(x, np.full_like(y, -100))\n")
        self.assertIn(words, self.alone(called))
        train = MODEL + "ls.train(session, state, ls.arrays(x=x, y=np.full_like(y, -100)), step, run='runs/a', steps=2)\n"
        said = self.alone(self.write("train.py", train), code=2)
        self.assertIn(words + "; the last checkpoint is untouched. Mend the sample, or take it out of the data", said)
        self.assertNotIn("Lower", said)

    def test_what_a_step_does_not_update(self):
        nothing = MODEL.replace("    adamw.update(ls.grad(loss, state.parameters()))\n", "")
        said = self.alone(self.write("nothing.py", nothing + "compiled()\n"))
        self.assertEqual(said.count("[step] the step updates nothing: it measures, and no weight learns"), 1)
        trained = "ls.train(session, state, ls.arrays(x=x, y=y), step, run='runs/n', steps=1)\n"
        self.assertIn("the step updates nothing", self.alone(self.write("trained.py", nothing + trained)))
        unused = MODEL.replace("adamw =", 'unused = ls.Linear(state / "unused", 8, 3)\nadamw =')
        said = self.alone(self.write("unused.py", unused + """
one = compiled()
state.materialize()
before = state.array("unused.weight")
for _ in range(3):
    one(x, y)
assert (state.array("unused.weight") == before).all()
"""))
        self.assertEqual(said.count("the loss does not reach unused.bias, unused.weight: they have no gradient, and stay as they are"), 1)

    def test_an_average_behind_a_step_that_is_passed_over(self):
        said = self.alone(self.write("average.py", """
session = ls.Session()
x = np.random.default_rng(0).standard_normal((32, 3)).astype(np.float32)
y = x @ np.float32([[1], [2], [3]])
x[:4] = np.nan
state = ls.State(session.mesh, seed=1)
layer = ls.Linear(state / "l", 3, 1, start=ls.init.ones())
adamw, average = ls.AdamW(state / "o", lr=1e-2), ls.WeightAverage(state / "ema", 0.999)
def step(x, y):
    loss = ls.mse_loss(layer(x), y)
    adamw.update(ls.grad(loss, state.parameters()))
    average.update(x)
    return loss
ls.train(session, state, ls.arrays(x=x, y=y), step, run="runs/average", steps=6, global_batch=4, micro_batch=2, on_nonfinite="skip")
print("apart", np.abs(state.array("l.weight") - state.array("ema.l.weight.average")).max() < 0.06)
"""))
        self.assertIn("apart True", said)


if __name__ == "__main__":
    unittest.main()
