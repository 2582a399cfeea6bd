"""Losses are added and weighed, each by its own count; micro-batches that nobody gives change no meaning."""
import unittest

import lockstep as ls
import numpy as np

from programs import Programs

SESSION = ls.Session([])
RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 4)).astype(np.float32)
Y = RNG.integers(0, 3, 8)
M = (np.arange(8) < 3).astype(np.float32)


def entropy_slope(w):
    """The mean cross-entropy of x w^T, and its gradient of w."""
    z = X.astype(np.float64) @ w.T
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    return -np.log(p[np.arange(8), Y]).mean(), ((p - np.eye(3)[Y]) / 8).T @ X


class Sums(unittest.TestCase):
    def trained(self, loss_of, micro_batch=2):
        """Loss of one step at rate 1, and w before and after it."""
        state = ls.State(SESSION.mesh, seed=0)
        w = state.root.parameter("w", [3, 4], ls.init.normal(0.5))
        sgd = ls.Sgd(state / "optim", lr=1.0, clip=0)

        def step(x, y, m):
            weight = w(x)
            loss = loss_of(x @ weight.transpose(0, 1), y, m, weight)
            sgd.update(ls.grad(loss, state.parameters()))
            return loss

        fields = {"x": (ls.f32, [4]), "y": (ls.i32, []), "m": (ls.f32, [])}
        compiled = ls.compile(state, fields, step, global_batch=8, micro_batch=micro_batch)
        state.materialize()
        before = state.array("w").copy()
        return compiled(X, Y, M)["loss"], before.astype(np.float64), state.array("w")

    def test_two_counts(self):
        def both(z, y, m, w):
            a, b = ls.cross_entropy(z, y), ls.mean_loss(z[:, 0] ** 2, m)
            loss = sum([a, 0.5 * b, b / 2])
            ls.metric("b", b + 0)
            self.assertEqual(repr(loss), "Loss(a sum of 3 losses)")
            self.assertEqual(len(loss.terms), 3)
            return loss

        for micro_batch in (0, 1, 2, 4, 8):
            value, w, after = self.trained(both, micro_batch)
            mean, slope = entropy_slope(w)
            z = X @ w[0]
            slope[0] += (2 * z * M / 3) @ X
            self.assertAlmostEqual(value, mean + (z * z * M).sum() / 3, places=5)
            np.testing.assert_allclose(w - after, slope, atol=1e-6)

    def test_what_is_written(self):
        for loss_of, entropy, weights in (
            (lambda a, w: 10 * a, 10, 0),
            (lambda a, w: a - 3 * a + np.float32(0.5) * a + a * True, -0.5, 0),
            (lambda a, w: -a / 4 + 1, -0.25, 0),
            (lambda a, w: a + 0.01 * (w * w).sum(), 1, 0.01),
            (lambda a, w: (w * w).sum() - a, -1, 1),
        ):
            value, w, after = self.trained(lambda z, y, m, w, of=loss_of: of(ls.cross_entropy(z, y), w))
            _, slope = entropy_slope(w)
            np.testing.assert_allclose(w - after, entropy * slope + 2 * weights * w, atol=2e-6)

    def test_refused(self):
        for loss_of, words in (
            (lambda a, z: a * a, "a product of losses is no loss: their means are known after the last micro-batch"),
            (lambda a, z: a / a, "a quotient of losses is no loss"),
            (lambda a, z: 1 / a, "a quotient of losses is no loss"),
            (lambda a, z: z.sum() / a, "a quotient of losses is no loss"),
            (lambda a, z: a**2, "a power of losses is no loss"),
            (lambda a, z: float("nan") * a, "the weight of a loss is nan; give it a finite number"),
            (lambda a, z: a + z.mean(), "differs from micro-batch to micro-batch: make a loss of it, mean_loss"),
            (lambda a, z: (a + a).sum, "a sum of 2 losses has no sum of its own, since each is divided by its own "
                                       "count; loss.terms"),
            (lambda a, z: (a + a).count, "a sum of 2 losses has no count of its own"),
        ):
            with self.assertRaisesRegex(ls.UserError, r"losses_test.py:\d+.*" + words):
                self.trained(lambda z, y, m, w, of=loss_of: of(ls.cross_entropy(z, y), z))
        state = ls.State(SESSION.mesh)
        w = state.root.parameter("w", [3, 4])
        sgd = ls.Sgd(state / "optim", lr=1.0)

        def gradients_added(x, y):
            z = x @ w(x).transpose(0, 1)
            a, b = (ls.grad(loss, [w]).values[0] for loss in (ls.cross_entropy(z, y), ls.mean_loss(z)))
            sgd.update(ls.Gradients([w], [a + b]))
            return ls.mean_loss(z)

        with self.assertRaisesRegex(ls.UserError, r"no gradient summed over micro-batches; pass what grad\(\) gave, as "
                                                  r"of a sum of losses, grad\(a \+ b, parameters\)"):
            ls.compile(state, {"x": (ls.f32, [4]), "y": (ls.i32, [])}, gradients_added, global_batch=8, micro_batch=2)
        with self.assertRaisesRegex(AttributeError, "a sum of 2 losses.*it has no value while a step is traced"):
            self.trained(lambda z, y, m, w: (ls.cross_entropy(z, y) + ls.cross_entropy(z, y)).item())
        with self.assertRaisesRegex(TypeError, "a loss, a sum of 2, has no value while a step is traced"):
            self.trained(lambda z, y, m, w: bool(ls.cross_entropy(z, y) + ls.cross_entropy(z, y)))


NEGATIVES = """
session = ls.Session()
state = ls.State(session.mesh, seed=0)
layer = ls.Linear(state / "layer", 16, 16)
sgd = ls.Sgd(state / "optim", lr=0.1)
x = np.random.default_rng(0).normal(size=(256, 16)).astype(np.float32)
def step(x):
    z = ls.normalize(layer(x), dim=1)
    q = z @ z.transpose(0, 1) / 0.1
    loss = ls.cross_entropy(q, ls.iota_like(q[:, 0], 0))
    sgd.update(ls.grad(loss, state.parameters()))
    return loss
def apart(x):
    loss = ls.mean_loss(layer(x) ** 2)
    sgd.update(ls.grad(loss, state.parameters()))
    return loss
ls.train(session, state, ls.arrays(x=x), OF, run=session.argument(0), steps=2, OPTIONS)
"""


class MicroBatches(Programs):
    def alone(self, program, *arguments):
        return super().alone(program, *arguments, "--train.device=cpu")  # where as many ranks fit as are asked for

    def ranks(self, nproc, program, *arguments):
        return super().ranks(nproc, program, *arguments, "--train.device=cpu")

    def program(self, of, options):
        return self.write("negatives.py", NEGATIVES.replace("OF", of).replace("OPTIONS", options))

    def test_negatives_are_of_the_whole_batch(self):
        whole = self.alone(self.program("step", "global_batch=64, micro_batch=64"), "runs/whole")
        self.assertNotIn("mixes", whole)
        program = self.program("step", "global_batch=64")
        for nproc in (1, 2, 3):
            said = self.ranks(nproc, program, f"runs/{nproc}")
            self.assertEqual(self.state_of(said), self.state_of(whole))
            self.assertIn("dot at negatives.py:11 mixes the samples of a batch: a micro-batch is the whole batch of "
                          "64, unless micro_batch says otherwise", said)
        told = self.ranks(2, self.program("step", "global_batch=64, micro_batch=4"), "runs/small")
        words = ("dot at negatives.py:11 mixes the samples of a micro-batch, which has 4 of the 64 of a step: it sees "
                 "no more of them at a time. A micro-batch of 64 sees the whole batch, on one rank")
        self.assertEqual(told.count(words), 1, told)
        self.assertNotEqual(self.state_of(told), self.state_of(whole))

    def test_any_batch_has_a_micro_batch(self):
        program = self.program("apart", "global_batch=50")
        alone = self.alone(program, "runs/alone")
        self.assertNotIn("mixes", alone)
        for nproc in (2, 3):
            self.assertEqual(self.state_of(self.ranks(nproc, program, f"runs/{nproc}")), self.state_of(alone))
        given = self.alone(self.program("apart", "global_batch=50, micro_batch=10"), "runs/given")
        self.assertEqual(self.state_of(given), self.state_of(alone))

    def test_a_run_goes_on_with_its_micro_batch(self):
        self.alone(self.program("apart", "global_batch=32, micro_batch=2"), "runs/a")
        longer = NEGATIVES.replace("OF", "apart").replace("steps=2", "steps=4")
        said = self.alone(self.write("longer.py", longer.replace("OPTIONS", "global_batch=32")), "runs/a")
        self.assertNotIn("value differs", said)
        want = self.alone(self.write("given.py", longer.replace("OPTIONS", "global_batch=32, micro_batch=2")), "runs/b")
        self.assertEqual(self.state_of(said), self.state_of(want))

    def test_of_compile(self):
        state = ls.State(SESSION.mesh, seed=0)
        layer = ls.Linear(state / "layer", 4, 4)
        sgd = ls.Sgd(state / "optim", lr=0.0)
        seen = []

        def step(x):
            seen.append(x.shape[0])
            y = layer(x)
            loss = ls.mean_loss((y - y.mean([0], True)) ** 2)
            sgd.update(ls.grad(loss, state.parameters()))
            return loss

        compiled = ls.compile(state, {"x": (ls.f32, [4])}, step, global_batch=8)
        state.materialize()
        for samples in (8, 6):
            y = X[:samples] @ state.array("layer.weight").T
            self.assertAlmostEqual(compiled(X[:samples])["loss"], ((y - y.mean(0)) ** 2).mean(), places=5)
        self.assertEqual(set(seen), {8, 6, 2})  # 2: beside the whole batch, to see what mixes


if __name__ == "__main__":
    unittest.main()
