"""What a step is given and what it does: values of the state, fields by name, data of all ranks, updates that are not
made."""
import re
import unittest

from programs import Programs

MODEL = """
session = ls.Session()
rng = np.random.default_rng(0)
x = rng.normal(size=(64, 8)).astype(np.float32)
y = rng.integers(0, 3, 64).astype(np.int32)
fields = {"x": (ls.f32, [8]), "y": (ls.i32, [])}


class Model:
    def __init__(self, seed=0, lora=0, unused=False, learns=True):
        self.state = ls.State(session.mesh, seed=seed)
        self.head = ls.Linear(self.state / "head", 8, 3)
        if unused:
            ls.Linear(self.state / "unused", 8, 3)
        if lora:
            self.state.lora(rank=lora)
        self.adamw = ls.AdamW(self.state / "optim", lr=1e-2)
        self.learns = learns

    def step(self, x, y):
        loss = ls.cross_entropy(self.head(x), y)
        if self.learns:
            self.adamw.update(ls.grad(loss, self.state.parameters()))
        return loss

    def compiled(self):
        return ls.compile(self.state, fields, self.step, global_batch=64, micro_batch=16)

    def train(self, data, run, **options):
        return ls.train(session, self.state, data, self.step, run=run, global_batch=16, **options)


def refused(what):
    try:
        what()
        print("taken")
    except ls.UserError as error:
        print("refused:", error)
"""


class Steps(Programs):
    def test_the_first_call_draws_initial_values(self):
        program = self.write("called.py", MODEL + """
hashes = set()
for asked in (False, True):
    model = Model()
    one = model.compiled()
    if asked:
        model.state.materialize()
    one(x, y)
    hashes.add(model.state.hash())
print("hash", *hashes)
""")
        said = self.alone(program)
        self.assertEqual(said.count("the state has no values yet: its initial values are drawn, of seed 0"), 1)
        line = next(line for line in said.splitlines() if line.startswith("hash "))
        self.assertEqual(len(line.split()), 2, line)
        self.assertIn(line, self.ranks(2, program, '--mesh.dim_names=["dp_shard"]'))

    def test_values_are_not_read_or_saved_before_there_are_any(self):
        said = self.alone(self.write("early.py", MODEL + """
for early in (False, True):
    model = Model()
    state = model.state
    if early:
        model.compiled()
    refused(lambda: state.array("head.weight"))
    refused(lambda: state.hash())
    refused(lambda: ls.Checkpoint("runs/a", every=1).save(1, state))
    refused(lambda: ls.forward(state, {"x": (ls.f32, [4, 8])}, model.head)(x[:4]))
"""))
        for words in ("array() is called before the state has values: materialize() draws initial ones, and takes what "
                      "load_weights() or set() gave; call it first, or Checkpoint.resume()",
                      "hash() is called before the state has values",
                      "runs/a: the state has no values yet, and nothing is saved of it: call resume() or materialize() "
                      "first",
                      "[forward] the state has no values yet"):
            self.assertEqual(said.count(words), 2, words)
        self.assertNotIn("taken", said)

    def test_weights_given_between_compile_and_the_first_call(self):
        """What they leave, as an adapter or another layer, has its initial values too."""
        self.alone(self.write("given.py", MODEL + """
Model().train(ls.arrays(x=x, y=y), "runs/a", steps=3)
tuned = Model(lora=2)
tuned.compiled()
ls.load_weights(tuned.state, "runs/a")
assert np.abs(tuned.state.array("head.lora_A.weight")).max() > 0
assert (tuned.state.array("head.weight") == ls.load("runs/a")["head.weight"]).all()
drawn, model = Model(), Model()
drawn.state.materialize()
one = model.compiled()
model.state.set("head.bias", np.float32([1, 2, 3]))
one(np.zeros_like(x), y)  # the gradient of the weight is 0: it decays alone
assert np.allclose(model.state.array("head.weight"), drawn.state.array("head.weight") * (1 - 1e-2 * 0.1), atol=1e-7)
assert np.abs(model.state.array("head.bias") - [1, 2, 3]).max() < 0.02
"""))

    def test_fields_by_name(self):
        said = self.alone(self.write("named.py", """
import functools
session = ls.Session()
x = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)


def trained(name, make):
    state = ls.State(session.mesh, seed=0)
    layer = ls.Linear(state / "l", 4, 4, start=ls.torch_linear(4))
    sgd = ls.Sgd(state / "o", lr=0.1)

    def learn(x, target):
        loss = ls.mse_loss(layer(x), target)
        sgd.update(ls.grad(loss, state.parameters()))
        return loss

    try:
        ls.train(session, state, ls.arrays(x=x, target=2 * x), make(learn), run="runs/" + name, steps=200,
                 global_batch=16)
        print(name, np.diag(state.array("l.weight")).round(2).tolist())
    except ls.UserError as error:
        print(name, "refused:", error)


trained("in_both", lambda learn: lambda x, target: learn(x, target))
trained("turned", lambda learn: lambda target, x: learn(x, target))
trained("by_keyword", lambda learn: lambda *, target, x: learn(x, target))
trained("with_default", lambda learn: lambda target, x, scale=1: learn(x, target))
trained("all_keywords", lambda learn: lambda **batch: learn(batch["x"], batch["target"]))
trained("in_order", lambda learn: lambda a, b: learn(a, b))
trained("first_alone", lambda learn: lambda x, b: learn(x, b))
trained("half", lambda learn: lambda target, b: learn(b, target))
trained("positions", lambda learn: lambda target, x, /: learn(x, target))
trained("some_positions", lambda learn: lambda target, /, x: learn(x, target))
trained("one_and_others", lambda learn: lambda x, **others: learn(x, others["target"]))
any_way = lambda learn: lambda *a, **k: (lambda target, x: learn(x, target))(*a, **k)
trained("wrapped_any", lambda learn: functools.wraps(lambda target, x: 0)(any_way(learn)))
trained("wrapped_named", lambda learn: functools.wraps(lambda target, x: 0)(lambda first, second: learn(second, first)))
trained("other_and_others", lambda learn: lambda a, **others: learn(a, a))
trained("too_few", lambda learn: lambda x: learn(x, x))
trained("too_many", lambda learn: lambda x, target, scale: learn(x, target))
state = ls.State(session.mesh)
state.materialize()
difference = ls.forward(state, {"a": (ls.f32, [2]), "b": (ls.f32, [2])}, lambda b, a: a - b)
print("forward", difference(np.float32([3, 4]), np.float32([1, 1])).tolist())
"""))
        for name in ("in_both", "turned", "by_keyword", "with_default", "all_keywords", "in_order", "first_alone",
                     "positions", "some_positions", "one_and_others",
                     "wrapped_any", "wrapped_named"):
            self.assertIn(f"{name} [2.0, 2.0, 2.0, 2.0]", said)
        self.assertRegex(said, 'half refused: .*the fields are x, target, and the step function takes target, b: '
                               '"target" stands elsewhere, and not '
                               "all have a parameter of their name; name each parameter as its field, or none")
        for name, takes, why in (("other_and_others", "a, **others", "too many positional arguments"),
                                 ("too_few", "x", "too many positional arguments"),
                                 ("too_many", "x, target, scale", "missing a required argument: 'scale'")):
            self.assertRegex(said, f"{name} refused: .*the fields are x, target, and the step function takes "
                                   f"{re.escape(takes)}: {why}; name each parameter as its field, or take as many as "
                                   "there are fields")
        self.assertIn("forward [2.0, 3.0]", said)

    def test_ranks_are_given_the_same_data(self):
        model = MODEL.replace("default_rng(0)", "default_rng(100 + session.rank)")
        said = self.ranks(2, self.write("unseeded.py", model + """
same = ls.arrays(x=np.ones_like(x), y=np.ones_like(y))
refused(lambda: Model().train(ls.arrays(x=x, y=y), "runs/a", steps=2))
refused(lambda: Model().train(ls.SampleData(fields, lambda i: {"x": x[i % 64], "y": y[i % 64]}), "runs/a", steps=2))
model = Model()
measured = ls.Validation(ls.arrays(x=x, y=y), lambda x, y: ls.cross_entropy(model.head(x), y), 64)
refused(lambda: model.train(same, "runs/a", steps=2, validation=measured))
refused(lambda: Model().compiled()(x, y))
refused(lambda: Model().train(same, "runs/a", steps=2))
"""))
        for words in ('the data differs between ranks, before the training step is compiled: rank 1 has field "x" = '
                      'f32[8] a row, fingerprint ',
                      'rank 1 has field "x" of sample 0 = ', "the data of the validation differs between ranks",
                      'the batch of the first call differs between ranks, at the first call of the step: rank 1 has '
                      'field "x" = f32[64,8], fingerprint ',
                      "give every rank the same data: the same files, and draws of one seed",
                      "call the step with the same arrays on every rank, the whole global batch"):
            self.assertIn(words, said)
        self.assertIn("taken", said, "equal data is refused")

    def test_what_one_rank_refuses_all_refuse(self):
        """Before the others wait for it; what they do next is one program again."""
        said = self.ranks(2, self.write("agreed.py", MODEL + """
one_alone = lambda given, wrong: wrong if session.rank else given
refused(lambda: ls.compile(Model().state, one_alone(fields, {"x": 3}), lambda x, y: ls.mean_loss(x), global_batch=64))
refused(lambda: Model().train(ls.arrays(x=x, y=y), "runs/a", steps=one_alone(1, "1")))
model = Model()
one, state = model.compiled(), model.state
for wrong in (np.full(3, 1e300), np.array(["a", "b", "c"])):
    refused(lambda: state.set("head.bias", one_alone(np.zeros(3), wrong)))
refused(lambda: one(x, one_alone(y, None)))
refused(lambda: one(x, one_alone(y, 2 - y)))
refused(lambda: one(x, one_alone(y, 2 - y)))
refused(lambda: one(x, y))
bad, big = y.copy(), x.astype(np.float64)
bad[60], big[3, 0] = 77, 1e300
refused(lambda: one(x, bad))
refused(lambda: one(big, y))
print("steps", one(x, y)["applied"], one.done, state.hash())
"""))
        for words in ("refused: rank 1: [data] agreed.py:",
                      "field 'x' is 3; a field is a name with its dtype and shape",
                      "refused: rank 1: [train] steps is '1'; it must be of the type of its default",
                      'refused: rank 1: [data] field "head.bias" has 1e+300 (f64), which f32 does not hold',
                      'refused: rank 1: [data] field "head.bias" is text [3], and no tensor has that dtype',
                      'refused: rank 1: [data] field "y" is None',
                      'refused: [cross_entropy] agreed.py:', 'the batch field "y" holds 77 in sample 60 of the step',
                      'refused: [data] field "x" has 1e+300 (f64), which f32 does not hold'):
            self.assertEqual(said.count(words), 2, f"{words} on both ranks:\n{said}")
        self.assertEqual(said.count("refused: the batch of the first call differs between ranks"), 4)
        self.assertEqual(said.count("taken"), 2)
        told = re.findall("steps True 2 [0-9a-f]{32}", said)
        self.assertEqual((len(told), len(set(told))), (2, 1), said)

    def test_a_resumed_run_tells_other_data_and_another_seed(self):
        said = self.alone(self.write("resumed.py", MODEL + """
Model().train(ls.arrays(x=x, y=y), "runs/a", steps=2)
Model().train(ls.arrays(x=x, y=y), "runs/a", steps=3)
print("other from here", flush=True)
Model(seed=5).train(ls.arrays(x=x + 1, y=2 - y), "runs/a", steps=4)
"""))
        self.assertEqual(said.count("the program is not that of the checkpoint"), 1)
        self.assertIn("the program is not that of the checkpoint: 3 values differ", said)
        self.assertRegex(said, 'data: field "x" .*other samples from step 4 on')
        self.assertRegex(said, 'data: field "y" .*other samples from step 4 on')
        self.assertRegex(said, "seed +0 +5 +other random numbers from step 4 on")

    def test_updates_that_are_not_made(self):
        said = self.alone(self.write("nan.py", MODEL + """
bad = x.copy()
bad[17, 2] = np.nan
one = Model().compiled()
for arrays in ((x, y), (bad, y), (bad, y)):
    print("applied", one(*arrays)["applied"])
state = ls.State(session.mesh)
head, o = ls.Linear(state / "head", 8, 3), ls.AdamW(state / "o", lr=1e-2)
def step(x, y):
    loss = ls.cross_entropy(head(x), y)
    o.update(ls.grad(loss, state.parameters()))
    return loss
ls.compile(state, fields, step, global_batch=64, micro_batch=16)(bad, y)
ignored = np.full_like(y, -100)
print("ignored", Model().compiled()(x, ignored)["applied"])
refused(lambda: Model().train(ls.arrays(x=x, y=ignored), "runs/a", steps=2))
"""))
        self.assertEqual(said.count("applied False"), 2)
        self.assertEqual(said.count("its update was not made"), 3, "once a step")
        self.assertIn("[step] step 1: the loss is nan and o.grad_norm is nan; the data is not finite: ", said)
        self.assertIn('[step] step 2: the loss is nan and the gradient norm is nan; the data is not finite: field "x" '
                      'is nan at [2] of '
                      "sample 17 of the batch", said)
        none = ("no label of the step counts: the loss is divided by a count of 0, as where every label is ignored "
                "(-100), or masked; a term that may count nothing is a mean over all places, times their number over "
                "maximum(count, 1)")
        self.assertGreaterEqual(said.count(none), 2)
        self.assertIn(none + "; the last checkpoint is untouched. Mend the sample, or take it out of the data", said)
        self.assertIn("ignored False", said)

    def test_weights_of_a_loss_that_are_too_large_or_small(self):
        said = self.alone(self.write("weights.py", """
session = ls.Session([])
for scale in (1e37, 1e-41, 1e30):
    state = ls.State(session.mesh)
    p = state.root.parameter("p", [1], ls.init.ones())
    sgd = ls.Sgd(state / "o", lr=0.5)
    def step(x, weights):
        loss = ls.mean_loss(x * p(x), weights)
        sgd.update(ls.grad(loss, [p]))
        return loss
    one = ls.compile(state, {"x": (ls.f32, [3]), "weights": (ls.f32, [3])}, step, global_batch=4, micro_batch=2)
    print(scale, one(np.ones((4, 3), np.float32), np.full((4, 3), scale, np.float32))["applied"])
"""))
        self.assertEqual(re.findall(r"^(1e\S+) (True|False)$", said, re.M),
                         [("1e+37", "False"), ("1e-41", "False"), ("1e+30", "True")])
        self.assertEqual(said.count("the count that the loss is divided by is none: the weights of a loss are finite "
                                    "and below 2^120, and their sum is 0 or from 2^-126 to 2^126: scale them; its "
                                    "update was not made"), 2)

    def test_what_a_step_does_not_update(self):
        said = self.alone(self.write("nothing.py", MODEL + """
Model(learns=False).compiled()
Model(learns=False).train(ls.arrays(x=x, y=y), "runs/n", steps=1)
model = Model(unused=True)
one = model.compiled()
model.state.materialize()
before = model.state.array("unused.weight")
for _ in range(3):
    one(x, y)
assert (model.state.array("unused.weight") == before).all()
"""))
        self.assertEqual(said.count("[step] the step updates nothing: it measures, and no weight learns"), 2)
        self.assertEqual(said.count("the loss does not reach unused.bias, unused.weight: they have no gradient, and "
                                    "stay as they are"), 1)

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
ls.train(session, state, ls.arrays(x=x, y=y), step, run="runs/average", steps=6, global_batch=4, micro_batch=2,
         on_nonfinite="skip")
print("apart", np.abs(state.array("l.weight") - state.array("ema.l.weight.average")).max() < 0.06)
"""))
        self.assertIn("apart True", said)


if __name__ == "__main__":
    unittest.main()
