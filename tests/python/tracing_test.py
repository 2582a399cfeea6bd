"""Tensors, state and compiled functions of the package: what they compute, beside NumPy."""
import collections
import gc
import inspect
import os
import re
import unittest
import weakref

import lockstep as ls
import numpy as np

session = ls.Session([])


def computed(function, *arrays):
    """What a traced function gives for these arrays."""
    types = {np.dtype(np.float32): ls.f32, np.dtype(np.int32): ls.i32, np.dtype(np.uint32): ls.u32,
             np.dtype(bool): ls.boolean}
    state = ls.State(session.mesh)
    state.materialize()
    fields = {f"x{i}": (types[a.dtype], a.shape) for i, a in enumerate(arrays)}
    return ls.forward(state, fields, function)(*arrays)


rng = np.random.default_rng(7)
A = rng.standard_normal((3, 4, 5)).astype(np.float32)
B = rng.standard_normal((3, 4, 5)).astype(np.float32)


class Shapes(unittest.TestCase):
    def test_a_function_is_compiled_for_each_shape(self):
        state = ls.State(session.mesh)
        state.materialize()
        total = ls.forward(state, {"x": (ls.f32, [3, 4])}, lambda x: x.sum(1), max_shapes=3)
        for shape in ((3, 4), (2, 4), (3, 7), (3, 4), (2, 4)):
            x = rng.standard_normal(shape).astype(np.float32)
            np.testing.assert_allclose(total(x), x.sum(1), rtol=1e-5, atol=1e-6)
        with self.assertRaisesRegex(ls.UserError, r"x f32\[5,5\] is shape 4 of this function, and at most 3 are kept.*"
                                    r"the first is x f32\[3,4\].*raise max_shapes"):
            total(np.zeros((5, 5), np.float32))
        with self.assertRaisesRegex(ls.UserError, r'field "x" is f32\[5\]; the step reads f32\[3,4\]'):
            total(np.zeros(5, np.float32))
        with self.assertRaisesRegex(ls.UserError, "max_shapes is 0; a function has at least 1"):
            ls.forward(state, {"x": (ls.f32, [3, 4])}, lambda x: x, max_shapes=0)


class Forwards(unittest.TestCase):
    def setUp(self):
        self.state = ls.State(session.mesh, seed=1)
        self.state.root.parameter("p", 4, ls.init.ones())
        self.state.materialize()

    def forward(self, function, **options):
        return ls.forward(self.state, {"x": (ls.f32, [4, 3])}, function, **options)

    def test_several_results(self):
        x = A[0, :, :3].copy()
        pair = self.forward(lambda x: (x + 1, x.sum(1)))(x)
        self.assertEqual(type(pair), tuple)
        np.testing.assert_array_equal(pair[0], x + 1)
        np.testing.assert_allclose(pair[1], x.sum(1), rtol=1e-6)
        self.assertEqual([a.shape for a in self.forward(lambda x: [x[0], x, x[:, :1]])(x)], [(3,), (4, 3), (4, 1)])
        named = self.forward(lambda x: {"same": x, "argmax": x.argmax(1), "p": self.state.find("p")(x)})(x)
        self.assertEqual(list(named), ["same", "argmax", "p"])
        np.testing.assert_array_equal(named["same"], x)
        np.testing.assert_array_equal(named["argmax"], x.argmax(1))
        np.testing.assert_array_equal(named["p"], np.ones(4))
        values, indices = self.forward(lambda x: ls.topk(x, 2))(x)
        np.testing.assert_array_equal(indices, np.argsort(-x, 1)[:, :2])
        for made, words in ((None, "gave None"), (3, "gave 3"), ((), "gave nothing"), ({"a": 1}, ".*with 1 in it")):
            with self.assertRaisesRegex(ls.UserError, rf"\[forward\] the function {words}.*; it must return a Tensor, "
                                                      rf"or a tuple, list or dict of them"):
                self.forward(lambda x: made)

    def test_results_are_the_functions_own(self):
        """Not what it assigns or measures beside them, nor a tensor of another call."""
        p = self.state.find("p")
        with self.assertRaisesRegex(ls.UserError, 'the function updates "p", and a forward changes nothing; leave '
                                                  'optimizer and assign out'):
            self.forward(lambda x: (ls.assign(p, p(x) * 2), x)[1])
        x = np.ones((4, 3), np.float32)
        np.testing.assert_array_equal(self.forward(lambda x: (ls.metric("m", ls.mean_loss(x)), x * 3)[1])(x), x * 3)
        kept = []
        self.forward(lambda x: (kept.append(x), x)[1])
        with self.assertRaisesRegex(ls.UserError, "gave a tensor that is not of this call"):
            self.forward(lambda x: kept[0])
        with self.assertRaisesRegex(ls.UserError, r'reads the scalar "optim.lr", which an optimizer gives to a step'):
            self.forward(lambda x: x * ls.scalar(x, "optim.lr"))

    def test_tensors_that_are_kept(self):
        """They still print and have a shape; another trace refuses them."""
        state = ls.State(session.mesh)
        w, kept = state.root.parameter("w", 5), []

        def doubled(x):
            kept.append(x)
            return [x * 2]

        def back(saved, gradients):
            kept.append(gradients[0])
            return [gradients[0] * 2]

        def step(x):
            loss = ls.mean_loss(ls.custom_gradient(doubled, back, [x * w(x)])[0])
            kept.extend([loss.sum, *ls.grad(loss, state.parameters()).values])
            return loss

        def forward(x):
            kept.append(x)
            return x

        fields = {"x": (ls.f32, [4, 5])}
        ls.compile(state, {"x": (ls.f32, [5])}, step, global_batch=4, micro_batch=4)
        ls.forward(state, fields, forward)
        self.assertEqual([repr(x) for x in kept], [f"Tensor(f32[{shape}])" for shape in ("4,5", "4,5", "", "5", "4,5")])
        for x in kept:
            self.assertEqual((x + 1).shape, x.shape)
            with self.assertRaisesRegex(ls.UserError, "belongs to another graph; tensors of one step cannot be kept "
                                                      "for the next"):
                ls.forward(state, fields, lambda y: y[0, :1] + x)

    def test_a_circle_through_its_results_is_collected(self):
        kinds = [collections.namedtuple("Pair", "a b")]
        run = ls.forward(ls.State(session.mesh), {"x": (ls.f32, [2])}, lambda x: kinds[0](x, x))
        kinds[0].made_by, gone = run, weakref.ref(kinds[0])
        kinds.clear()  # from here on the function reaches the type through what it gave alone
        del run
        gc.collect()
        self.assertIsNone(gone())

    def test_random_numbers(self):
        """They follow from the seed and the number of the call."""
        x = np.ones((4, 3), np.float32)
        for draw in (lambda x: x + ls.randn(x, [4, 3]), lambda x: ls.uniform(x, [4, 3]), lambda x: ls.multinomial(x, 3),
                     lambda x: ls.dropout(x, 0.5),
                     lambda x: ls.randint(x, [4, 3], 0, 1000), lambda x: ls.bernoulli(x * 0.5),
                     lambda x: ls.truncated_normal(x, [4, 3])):
            one, two, other = self.forward(draw), self.forward(draw), self.forward(draw, seed=2)
            first, second, third = (one(x) for _ in range(3))
            self.assertTrue((first != second).any() or (first != third).any())
            self.assertEqual((one.done, one.seed, other.seed), (3, 1, 2))
            np.testing.assert_array_equal([two(x) for _ in range(3)], [first, second, third])
            self.assertTrue((np.array([other(x) for _ in range(3)]) != [first, second, third]).any())
            one.done = 1
            np.testing.assert_array_equal(one(x), second)
        layer = ls.Dropout(ls.State(session.mesh) / "drop", 0.5)
        np.testing.assert_array_equal(self.forward(lambda x: layer(x))(x), x)
        both = self.forward(lambda x: (ls.randn(x, [4000, 2]), ls.randn(x, [4000, 2])))(x)
        self.assertTrue((both[0] != both[1]).all())
        self.assertLess(abs(both[0].mean()), 0.05)
        self.assertLess(abs(both[0].std() - 1), 0.05)

    def test_arrays_by_name(self):
        minus = ls.forward(self.state, {"x": (ls.f32, [2]), "y": (ls.f32, [2])}, lambda x, y: x - y)
        np.testing.assert_array_equal(minus(y=np.ones(2), x=np.zeros(2)), [-1, -1])
        for call, words in ((lambda: minus(np.ones(2)), 'field "y" is missing; it reads x f32\\[2\\], y f32\\[2\\]'),
                            (lambda: minus(np.ones(2), x=np.ones(2)), 'field "x" is given twice'),
                            (lambda: minus(np.ones(2), np.ones(2), z=np.ones(2)), 'there is no field "z"'),
                            (lambda: minus(np.ones(2), np.ones(2), np.ones(2)),
                             "3 arrays are given in order, and there are 2 fields")):
            with self.assertRaisesRegex(ls.UserError, words):
                call()


class Tensors(unittest.TestCase):
    def test_operators(self):
        for operator in (lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b, lambda a,
                         b: a + 2 - b * 3,
                         lambda a, b: 2 / a - b / 4, lambda a, b: -a, lambda a, b: abs(a) ** 2, lambda a, b: 1 - a,
                         lambda a, b: a % 2):
            np.testing.assert_allclose(computed(operator, A, B), operator(A, B), rtol=2e-6)
        for operator in (lambda a, b: a < b, lambda a, b: a >= 0, lambda a, b: a == b, lambda a, b: (a > 0) & (b > 0),
                         lambda a, b: ~(a > 0),
                         lambda a, b: (a > 0) | (b > 0), lambda a, b: (a > 0) ^ (b > 0)):
            np.testing.assert_array_equal(computed(operator, A, B), operator(A, B))
        np.testing.assert_allclose(computed(lambda a, b: a @ b.transpose(1, 2), A, B), A @ B.transpose(0, 2, 1),
                                   rtol=1e-5)

    def test_indices(self):
        for index in (lambda a: a[1], lambda a: a[-1], lambda a: a[:, 2], lambda a: a[..., 1], lambda a: a[1, :, 2:4],
                      lambda a: a[None],
                      lambda a: a[:, None, 1:], lambda a: a[..., None], lambda a: a[::2, 1:-1],
                      lambda a: a[0, ..., -2:], lambda a: a[:, :, ::3]):
            np.testing.assert_array_equal(computed(index, A), index(A))

    def test_shape_and_repr(self):
        def function(x):
            self.assertEqual((x.shape, x.ndim, x.size(-1), len(x), x.dtype), ((3, 4, 5), 3, 5, 3, ls.f32))
            self.assertEqual(repr(x), "Tensor(f32[3,4,5])")
            return x.to(ls.i32)

        np.testing.assert_array_equal(computed(function, A), A.astype(np.int32))

    def test_functions_are_methods(self):
        np.testing.assert_array_equal(computed(lambda x: x.relu().reshape([12, 5]).sum([1]), A),
                                      computed(lambda x: ls.sum(ls.reshape(ls.relu(x), [12, 5]), 1), A))

    def test_bf16_comes_as_float32(self):
        got = computed(lambda x: x.to(ls.bf16), A)
        self.assertEqual(got.dtype, np.float32)
        np.testing.assert_allclose(got, A, rtol=2**-8)

    def test_gradient_of_ones_own(self):
        def function(x):
            y, = ls.custom_gradient(lambda x: [x * 2], lambda saved, gradients: [gradients[0] * 10], [x])
            return ls.grad(y.sum(), [x])[0]

        np.testing.assert_array_equal(computed(function, A), np.full_like(A, 10))

    def test_precision_guard(self):
        def function(x):
            with ls.Precision(x, ls.bf16):
                return x[0] @ x[1].transpose(0, 1)

        got, exact = computed(function, A), A[0] @ A[1].T
        self.assertGreater(np.abs(got - exact).max(), 1e-5)
        np.testing.assert_allclose(got, exact, atol=0.1)


class States(unittest.TestCase):
    def test_parameters(self):
        state = ls.State(session.mesh, seed=3)
        layer = ls.Linear(state / "mlp" / 0, 4, 2)
        state.root.buffer("count", [1], dtype=ls.i32)
        table = state.root.frozen("table", [5, 2], ls.init.normal(1))
        self.assertEqual([p.name for p in state.parameters()], ["mlp.0.weight", "mlp.0.bias"])
        both = ["mlp.0.weight", "mlp.0.bias"]
        for globs, names in ((("mlp.**",), both), (("mlp.0",), both), (("*.*.bias", "**.weight"), both),
                             (("**.bias",), ["mlp.0.bias"])):
            self.assertEqual([p.name for p in state.parameters(*globs)], names)
        for glob, words in (("G.**", "'G.**' names no weight that is trained; there are mlp.0.weight, mlp.0.bias"),
                            (["mlp.**"], "['mlp.**'] is no glob of names, as in parameters(\"up.**\")")):
            with self.assertRaises(ls.UserError) as caught:
                state.parameters(glob)
            self.assertRegex(str(caught.exception), r"^\[parameters\] tracing_test.py:\d+: " + re.escape(words) + "$")
        self.assertEqual(state.names(), ["mlp.0.weight", "mlp.0.bias", "count", "table"])
        self.assertEqual((layer.weight.shape, layer.weight.dtype, repr(layer.bias)),
                         ((2, 4), ls.f32, "Parameter(mlp.0.bias f32[2])"))
        self.assertTrue(table and not state.find("nothing"))
        state.materialize()
        self.assertEqual(state.array("table").shape, (5, 2))
        self.assertTrue(state.array("table").any())

    def test_outlives_its_name(self):  # layers hold what they were made in
        layer = ls.Linear(ls.State(session.mesh).root / "a", 4, 2)
        self.assertEqual(layer.weight.name, "a.weight")

    def test_model_of_the_registry(self):
        state = ls.State(session.mesh, seed=1)
        model = ls.build(state.root, "mixer", size=16, patch=8, width=16, depth=1, classes=3)
        self.assertEqual(model.inputs, {"images": (ls.f32, (3, 16, 16))})
        state.materialize()
        logits = ls.forward(state, {"images": (ls.f32, [2, 3, 16, 16])},
                            lambda x: model(x))(np.zeros((2, 3, 16, 16), np.float32))
        self.assertEqual(logits.shape, (2, 3))
        self.assertIn("gpt", ls.families())


class Package(unittest.TestCase):
    def test_says_what_it_has(self):
        names = [name for name in dir(ls) if not name.startswith("_")]
        self.assertGreater(len(names), 320)
        for name in names:
            value = getattr(ls, name)
            if inspect.isclass(value) or "nb_func" in type(value).__name__:
                self.assertTrue(value.__doc__, name)

    def test_pages_name_what_exists(self):
        root = os.path.dirname(os.environ["LOCKSTEP_EXAMPLES"])
        for page in ("README.md", "docs/pytorch.md"):
            with open(os.path.join(root, page), encoding="utf-8") as file:
                names = re.findall(r"\bls((?:\.\w+)+)", file.read())
            self.assertTrue(names, page)
            for name in names:
                value = ls
                for part in name.split(".")[1:]:
                    self.assertTrue(hasattr(value, part), f"{page}: ls{name}")
                    value = getattr(value, part)


if __name__ == "__main__":
    unittest.main()
