"""A call that is wrong is answered with the function, the argument and what is taken; PyTorch's spelling of one that is
right is taken."""
import inspect
import os
import random
import re
import unittest

import lockstep as ls
import numpy as np
from lockstep import words

from tracing_test import A, B, computed, session


def traced(function, *arrays):
    """What the function does while it is traced; its own result is not computed."""
    seen = []
    state = ls.State(session.mesh)
    types = {np.dtype(np.float32): ls.f32, np.dtype(np.int32): ls.i32}
    ls.forward(state, {f"x{i}": (types[a.dtype], a.shape) for i, a in enumerate(arrays or (A,))},
               lambda *x: (seen.append(function(*x)), x[0])[1])
    return seen[0]


class Documented(unittest.TestCase):
    def test_options_say_each_field_by_its_name(self):
        for options in (ls.AdamWOptions, ls.SgdOptions, ls.LionOptions, ls.MuonOptions):
            self.assertTrue(options.__doc__.strip().endswith(options.__init__.__doc__.strip().splitlines()[-1].strip()),
                            options.__doc__)
            self.assertIn(" clip: largest global norm of ", options.__doc__)


class Refused(unittest.TestCase):
    def told(self, call, *parts, error=ls.UserError):
        """What is said of a call that is made while a step is traced."""
        def body(*x):
            with self.assertRaises(error) as caught:
                call(*x)
            return str(caught.exception)

        said = traced(body)
        for part in parts:
            self.assertIn(part, said)
        self.assertNotIn("incompatible function arguments", said)
        return said

    def test_argument_is_named(self):
        here = f"calls_test.py:{inspect.currentframe().f_lineno + 1}: "
        self.told(lambda x: ls.relu(np.ones(3, np.float32)), "[relu] " + here
                  + "x is an array of float32[3] (numpy.ndarray); it must be a Tensor: arrays come into a step as "
                    "batch fields",
                  "at.frozen", "ls.constant(x, [1, 2])")
        self.told(lambda x: x.sum(dmi=1), "[sum] ",
                  "there is no argument dmi, which is 1; did you mean dims?; it takes dims, keep")
        self.told(lambda x: ls.softmax(x, "last"), "[softmax] ", "dim is 'last'; it must be an integer")
        self.told(lambda x: ls.relu(ls.mean_loss(x)),
                  "it must be a Tensor: a Loss is a sum and a count: loss.sum is a tensor")
        self.told(lambda x: ls.stack(x.sum()), "it must be a list of tensors: a list of one tensor is [x]")
        self.told(lambda x: ls.stack(x, "first"), "dim is 'first'; it must be an integer")
        mute = type("Mute", (), {"__repr__": lambda self: 1 / 0})
        self.told(lambda x: ls.softmax(x, mute()), "dim is a Mute whose repr raises ZeroDivisionError; it must be")
        self.told(lambda x: ls.sdpa(x, x, x), "[sdpa] ", "causal is missing; it takes q, k, v, and by keyword causal",
                  "(causal: True or False)")
        self.told(lambda x: ls.gather(x, 1), "ids is missing; it takes x, dim, ids")
        self.told(lambda x: ls.tanh(x, x, 3), "[tanh] ",
                  "argument 2 in order is Tensor(f32[3,4,5]), and it takes 1 so; it takes x")
        self.told(lambda x: x.tanh(3), "[tanh] ", "argument 1 in order is 3, and it takes none so; it takes nothing")
        self.told(lambda x: x.to("f32"), "[to] ", "dtype is 'f32'; it must be a dtype, as ls.f32")
        self.told(lambda x: ls.pad(x, [0] * 3, [1] * 3, "mirror"), "[pad] ", "is 'mirror'; it must be")
        self.told(lambda x: ls.embedding_bag(x, x, mode="median"),
                  "mode is 'median'; it must be \"sum\", \"mean\" or \"max\"")
        self.told(lambda x: ls.stack([x, 2]), "[stack] ", "xs is [Tensor(f32[3,4,5]), 2]; it must be a list of tensors")
        self.told(lambda x: ls.convolution(x, x, filters=3), "there is no argument filters, which is 3")
        self.told(lambda x: ls.zeros(x, [2], device="cuda"), "there is no argument device, which is 'cuda' (the device "
                  "is the session's: --train.device); it takes")
        self.told(lambda x: x.to("cuda"), "dtype is 'cuda'; it must be a dtype, as ls.f32: the device is the "
                                          "session's: --train.device")
        self.told(lambda x: ls.grad(ls.mean_loss(x)), "[grad] ", "is missing; it takes ")
        weights = ls.State(session.mesh).root.parameter("p", 4, ls.init.ones())
        self.told(lambda x: ls.grad(x.mean(), [weights]),
                  "[grad] ", "loss is Tensor(f32[]); it must be a Loss: of values it is ls.mean_loss(values)")
        self.told(lambda x: ls.arrays(x=np.ones(3), seed=-1),
                  "[arrays] ", "seed is -1; it must be an integer from 0 to 2^64 - 1")
        self.told(lambda x: ls.Schedule(1, lambda step: None).at(7),
                  "[schedule] the function gives None for update 7; a rate is a number of at least 0")
        self.told(lambda x: ls.sdpa(x, x, x, is_causal=True),
                  "there is no argument is_causal, which is True; did you mean causal?")
        self.told(lambda x: x.split(0, dim=1), "[split] ", "parts of 0 are asked for; a part has at least 1")
        self.told(lambda x: x.split(2, dim=7), "[split] ", "dim")
        self.told(lambda x: x.argmax(1).clamp(min=1), "[clamp] ", "hi is missing")
        self.told(lambda x: ls.embedding(x[0].argmax(1), x[0]), "[embedding] ",
                  "the ids i32[4] are before the table f32[4,5]; the table comes first, embedding(table, ids)")
        self.told(lambda x: ls.metric("a", 3), "[metric] ", "is 3; it must be")

    def test_what_is_bound_by_hand(self):
        state = ls.State(session.mesh)
        step = lambda x: ls.mean_loss(x)
        fields = {"x": (ls.f32, [3])}
        for call, *parts in (
            (lambda: ls.compile(state, fields, step), "[compile] ",
             "global_batch is missing; it takes state, fields, function, global_batch, micro_batch"),
            (lambda: ls.compile(state, fields, step, batch_size=3, micro_batch=1),
             "there is no argument batch_size, which is 3; did you mean global_batch?"),
            (lambda: ls.forward(state, fields), "[forward] ", "function is missing"),
            (lambda: ls.forward(state, {"x": 3}, step), "[data] ",
             "field 'x' is 3; a field is a name with its dtype and shape, as in {\"x\": (ls.f32, [20])}"),
            (lambda: ls.forward(state, {"x": ("f32", [3])}, step), "field 'x' is ('f32', [3]); a field is a name"),
            (lambda: ls.forward(state, {3: (ls.f32, [3])}, step), "field 3 is "),
            (lambda: ls.forward(state, {"x": (ls.f32, [-1, 3])}, step), "[data] ",
             "field 'x' has the size -1 in [-1, 3]; give the sizes of the first call"),
            (lambda: state.set("p", None), '[data] field "p" is None; give an array of numbers'),
            (lambda: ls.load_weights(state, "runs/none", strict=False), "[load_weights] ",
             "there is no argument strict, which is False; did you mean partial?"),
            (lambda: ls.metrics("runs/none"),
             "[metrics] there is no runs/none/metrics.jsonl; name the folder of a run"),
            (lambda: ls.State(), "[State] ", "mesh is missing; it takes mesh, seed"),
            (lambda: state.freeze("up"), "[freeze] ", "weights is 'up'; it must be a list of texts"),
            (lambda: state.root.parameter("p"), "[parameter] ", "shape is missing"),
            (lambda: state.root.parameter("p", "8"), "shape is '8'; it must be an integer or several"),
            (lambda: ls.Checkpoint(run=3), "[Checkpoint] ", "run is 3; it must be a text"),
            (lambda: ls.SampleData({"x": (ls.f32, [2])}), "[SampleData] ",
             "sample is missing; it takes fields, sample"),
            (lambda: ls.PlacementRule("tp"), "[PlacementRule] ", "params is missing"),
            (lambda: ls.Tensor([1, 2]), "[Tensor] ", "a Tensor is a handle into a step that is traced"),
            (lambda: ls.init.normal("a"), "[normal] ", "is 'a'; it must be a number"),
            (lambda: ls.Schedule(-1.0), "[schedule] lr is -1; it must be a number of at least 0"),
            (lambda: ls.train(session, state, ([1], [2]), step), "[train] ",
             "data is ([1], [2]); it must be what ls.arrays(x=..., y=...) or ls.SampleData gives"),
            (lambda: ls.train(session, state, ls.arrays(x=A), step, epochs=3),
             "there is no argument epochs, which is 3; did you mean steps? (an epoch is rows / global_batch steps)"),
            (lambda: ls.train(session, state, ls.arrays(x=A), step, batch_size=3), "did you mean global_batch?"),
            (lambda: ls.train(state, session, ls.arrays(x=A), step), "[train] ",
             "session is State(empty); it must be a Session"),
            (lambda: ls.train(session, state, ls.arrays(x=A), step, validation={"x": A}), "validation is {'x': array(",
             "it must be ls.Validation(data, function, samples)"),
            (lambda: ls.Validation(samples=3), "[Validation] ",
             "data is missing; it takes data, function, samples, every, measured"),
            (lambda: session.report(1, loss="low"), "[report] ", "loss is 'low'; it must be a number"),
            (lambda: ls.build(state.root, "gpt", vocab=np.ones(2)), "[build] ", "vocab is an array of float64[2]",
             "an option of a model is a number"),
        ):
            with self.subTest(parts[-1]):
                with self.assertRaises(ls.UserError) as caught:
                    call()
                for part in parts:
                    self.assertIn(part, str(caught.exception))

    def test_a_setter(self):
        step = ls.forward(ls.State(session.mesh), {"x": (ls.f32, [3])}, lambda x: x)
        with self.assertRaisesRegex(ls.UserError, r"\[done\] .*: done is 'a'; it must be an integer"):
            step.done = "a"
        with self.assertRaisesRegex(ls.UserError, r"\[done\] calls_test.py:\d+: done is -1; it counts calls, and is 0 "
                                                  r"before the first"):
            step.done = -1

    def test_operands(self):
        state = ls.State(session.mesh)
        p = state.root.parameter("p", 5)
        self.told(lambda x: x + p, "[+] ", "Tensor(f32[3,4,5]) + Parameter(p f32[5]): its value in the step is p(x)")
        self.told(lambda x: p * x, "its value in the step is p(x)")
        self.told(lambda x: x + [1, 2, 3, 4, 5], "a few numbers are ls.constant(x, [1, 2])")
        for call in (lambda x: x + A[0], lambda x: A[0] * x, lambda x: x > A[0]):
            self.told(call, "has no values while a step is traced, and an array of float32[4,5] (numpy.ndarray) is no "
                            "tensor of the step: arrays come into a step as batch fields",
                      error=TypeError)
        self.told(lambda x: np.exp(x), "so NumPy cannot compute with it; lockstep has the function, as in ls.exp(x)",
                  error=TypeError)
        self.told(lambda x: np.concatenate([x, x]), "so NumPy cannot compute with it", error=TypeError)
        self.told(lambda x: np.asarray(x), "so NumPy cannot compute with it", error=TypeError)
        self.told(lambda x: x + "a", "unsupported operand", error=TypeError)
        self.told(lambda x: x.sum() - ls.mean_loss(x), "[loss] ",
                  "what is added to a loss is f32[] and differs from micro-batch to micro-batch: make a loss of it")
        for call in (int, float, "{:.3f}".format):
            self.told(call, "f32[3,4,5], has no value while a step is traced: a called step returns its metrics, "
                            "step(x)[\"loss\"]", error=TypeError)
        # Scalars of NumPy are numbers, float64 on either side.
        np.testing.assert_allclose(computed(lambda x: np.sqrt(4.0) * x / np.float64(2) - np.float64(1) ** x
                                            + (np.float64(1) > x).to(ls.f32), A), A - 1 + (A < 1), rtol=1e-5)
        ids = np.arange(6, dtype=np.int32)
        np.testing.assert_array_equal(computed(lambda i: np.uint8(4) | (np.int64(3) & i) ^ np.uint64(1), ids),
                                      4 | (3 & ids) ^ 1)
        np.testing.assert_array_equal(computed(lambda i: np.array(10) - i // np.int32(2), ids), 10 - ids // 2)
        np.testing.assert_allclose(computed(lambda x: np.float32(2) * x + np.sqrt(4.0) - np.int64(1), A), 2 * A + 1,
                                   rtol=1e-6)

    def test_index(self):
        here = "a tensor is indexed by numbers, slices, None and ...; "
        for index, *parts in (
            (np.array([0, 1]), "an index is an array of int64[2] (numpy.ndarray)", "index_select",
             "ls.constant(x, [0, 1], ls.i32)"),
            ([0, 1], "an index is [0, 1]", "index_select, take or gather"),
            (np.array([True, False, True]), "where(mask, x, other), masked_fill, or mean_loss(values, mask)"),
            (True, "where(mask, x, other)"),
            (1.0, "an index is 1.0", "index_select"),
            ("a", "an index is 'a'"),
            (2**70, "this one is outside of every tensor"),
            ((slice(None), np.array([0])), "an index is an array of int64[1]"),
            (slice("a", None), "the start of a slice is 'a'"),
        ):
            with self.subTest(str(index)):
                self.told(lambda x: x[index], "[index] calls_test.py:", here, *parts)
        self.told(lambda x: x[x > 0], "[index] ", "where(mask, x, other)")
        self.told(lambda x: x[x.to(ls.i32)], "[index] ", "index_select")
        self.told(lambda x: x.__setitem__(0, 1), "a tensor, f32[3,4,5], is never written in place", error=TypeError)
        self.told(lambda x: x[..., ...], "... occurs 2 times; write it once")
        self.told(lambda x: x[0, 0, 0, 0], "4 indices of f32[3,4,5]")
        self.told(lambda x: x[3], "index 3 of dim 0")
        np.testing.assert_array_equal(computed(lambda x: x[np.int64(1), np.array(2):, -2**70:2**70], A), A[1, 2:])

    def test_rows(self):
        np.testing.assert_array_equal(computed(lambda x: ls.stack([row * 2 for row in x]), A), A * 2)

        def three(x):
            a, b, c = x
            self.assertEqual(len(list(x)), 3)
            return a + b + c

        np.testing.assert_allclose(computed(three, A), A[0] + A[1] + A[2], rtol=1e-6)
        self.told(lambda x: len(x.sum()), "a tensor of no dims, f32[], has no length", error=TypeError)
        self.told(lambda x: list(x.sum()), "a tensor of no dims, f32[], has no rows", error=TypeError)

    def test_random_calls(self):
        """200 of any function, method and class with arguments at random: a value, or words; never a signature of C++,
        and never a crash."""
        seed = int.from_bytes(os.urandom(4), "little")
        print("seed", seed)
        made = random.Random(seed)
        # What starts another session, reads and writes files, or trains.
        left_out = {"Session", "Checkpoint", "convert_dcp", "load", "load_weights", "metrics", "tokens", "train",
                    "compile", "forward", "build", "TYPE_CHECKING"}
        functions = [getattr(ls, name) for name in dir(ls) if not name.startswith("_") and name not in left_out]
        functions = [f for f in functions if callable(f) and not (isinstance(f, type) and issubclass(f, Exception))
                     and f is not ls.DType]
        functions += [getattr(ls.init, name) for name in dir(ls.init) if not name.startswith("_")
                      and callable(getattr(ls.init, name))]
        methods = [name for name in dir(ls.Tensor) if not name.startswith("_") and callable(getattr(ls.Tensor, name))]

        def calls(x):
            state = ls.State(session.mesh)
            pool = [lambda: x, lambda: x, lambda: x[0], lambda: -1, lambda: 0, lambda: 2, lambda: 7, lambda: 2**40,
                    lambda: 0.5, lambda: float("nan"), lambda: "sum",
                    lambda: "", lambda: None, lambda: True, lambda: [1, 2], lambda: [], lambda: (2, 3),
                    lambda: {"a": 1}, lambda: A, lambda: np.array("text"),
                    lambda: np.float32(3), lambda: ls.f32, lambda: ls.i32, lambda: state, lambda: state / "a",
                    lambda: state.root, lambda: [x, x], lambda: [x, 1],
                    lambda: lambda *a: a[0], lambda: ls.init.zeros(), lambda: b"bytes", lambda: 1j, lambda: ls.State,
                    lambda: object()]
            keywords = ["dim", "dims", "keep", "keepdim", "at", "x", "a", "b", "dtype", "shape", "lr", "axis", "input",
                        "in_", "out", "bias", "weight", "nothing", "size", "mode"]
            said = []
            for _ in range(200):
                function = getattr(x, made.choice(methods)) if made.random() < 0.4 else made.choice(functions)
                args = [made.choice(pool)() for _ in range(made.randint(0, 3))]
                kwargs = {made.choice(keywords): made.choice(pool)() for _ in range(made.randint(0, 1))}
                try:
                    function(*args, **kwargs)
                except (ls.UserError, TypeError, AttributeError, ValueError) as error:
                    words_ = str(error)
                    what = (f"seed {seed}: {getattr(function, '__name__', function)}({args}, {kwargs}): "
                            f"{type(error).__name__}: {words_}")
                    for bad in ("incompatible function arguments", "bad_cast", "lockstep::", "std::"):
                        self.assertNotIn(bad, words_, what)
                    said.append(words_)
            self.assertGreater(len(said), 100)

        traced(calls)


class Taken(unittest.TestCase):
    """What is spelled as in PyTorch, where it means the same."""

    def same(self, function, want, *arrays):
        np.testing.assert_allclose(computed(function, *arrays), want, rtol=2e-5, atol=1e-6)

    def test_keywords(self):
        self.same(lambda x: x.sum(dim=1), A.sum(1), A)
        self.same(lambda x: x.mean(dim=(0, 2), keepdim=True), A.mean((0, 2), keepdims=True), A)
        self.same(lambda x: x.max(dim=-1, keepdim=True), A.max(-1, keepdims=True), A)
        self.same(lambda x: x.argmax(dim=1, keepdim=True).to(ls.f32), A.argmax(1)[:, None], A)
        self.same(lambda x: ls.sum(input=x, dim=0), A.sum(0), A)
        self.same(lambda x, i: ls.cross_entropy(input=x.reshape(12, 5), target=i).count.to(ls.f32), 12, A,
                  np.zeros(12, np.int32))
        self.same(lambda x, y: ls.maximum(x, other=y), np.maximum(A, B), A, B)
        self.same(lambda x: x.stddev(dim=0), A.std(0, ddof=1), A)

    def test_words_of_functions(self):
        """Those that PyTorch's functions have for our arguments, its order of them, and its defaults."""
        ids = np.array([[2, 0, 1], [1, 1, 0]], np.int32)
        self.same(lambda x: x.sum(axis=1, keepdims=True), A.sum(1, keepdims=True), A)
        for call, want in (
            (lambda x: ls.clamp(x, min=0, max=0.5), A.clip(0, 0.5)), (lambda x: x.clamp(min=0), A.clip(0)),
            (lambda x: x.clamp(0), A.clip(0)),
            (lambda x: x.clamp(max=0.5), A.clip(None, 0.5)), (lambda x: ls.clamp(x, None, 0.5), A.clip(None, 0.5)),
            (lambda x: ls.hardtanh(x, min_val=-0.5, max_val=0.5), A.clip(-0.5, 0.5)),
            (lambda x: ls.leaky_relu(x, negative_slope=0.2), np.where(A > 0, A, 0.2 * A)),
            (lambda x: x.flatten(start_dim=1), A.reshape(3, 20)),
            (lambda x: x.transpose(dim0=0, dim1=2), A.transpose(2, 1, 0)),
            (lambda x: x.permute(dims=(2, 0, 1)), A.transpose(2, 0, 1)),
            (lambda x: ls.roll(x, shifts=1, dims=0), np.roll(A, 1, 0)),
            (lambda x: ls.concat(tensors=[x, x]), np.concatenate([A, A])),
            (lambda x: x.norm(dim=1), np.linalg.norm(A, axis=1)),
            (lambda x: x.split(3, dim=1)[1], A[:, 3:]), (lambda x: ls.split(x, 2)[0], A[:2]),
            (lambda x: x.split([1, 3], 1)[1], A[:, 1:]),
            (lambda x: x.split(split_size=2, dim=-1)[2], A[:, :, 4:]), (lambda x: ls.split(x, 1, [1, 3])[1], A[:, 1:]),
            (lambda x: x.chunk(chunks=2, dim=1)[1], A[:, 2:]),
            (lambda x: ls.einsum("abc,abc->a", x, x), (A * A).sum((1, 2))),
            (lambda x: ls.full((2, 3), fill_value=1.5) + 0 * x[0, 0, 0], np.full((2, 3), 1.5)),
            (lambda x: round(2 * x), np.round(2 * A)),
            (lambda x: round(x, 1), np.round(A, 1)), (lambda x: ls.linspace(0, 1, steps=5) + 0 * x[0, 0],
                                                      np.linspace(0, 1, 5)),
        ):
            self.same(call, want, A)
        self.same(lambda i: ls.one_hot(i, num_classes=3).to(ls.f32), np.eye(3)[ids], ids)
        self.same(lambda x, i: x.gather(dim=1, index=i), np.take_along_axis(A[0, :2, :3], ids, 1), A[0, :2, :3], ids)
        self.same(lambda x, i: x.scatter(1, index=i[:, :1], src=x[:, 1:2]), [[0, 0, 1], [0, 1, 0]] * A[0, :2, 1:2]
                  + [[1, 1, 0], [1, 0, 1]] * A[0, :2, :3], A[0, :2, :3], ids)
        self.assertEqual(traced(lambda x: ls.randint(0, 10, (3, 2)).shape), (3, 2))
        self.assertEqual(traced(lambda x: ls.multinomial(ls.softmax(x[0]), num_samples=9, replacement=True).shape),
                         (4, 9))

    def test_sizes_one_by_one(self):
        self.same(lambda x: x.reshape(2, -1), A.reshape(2, -1), A)
        self.same(lambda x: x.permute(2, 0, 1), A.transpose(2, 0, 1), A)
        self.same(lambda x: ls.permute(x, 1, 0, 2), A.transpose(1, 0, 2), A)
        self.same(lambda x: x.repeat(2, 1, 1), np.tile(A, (2, 1, 1)), A)
        self.same(lambda x: x[:1].expand(3, -1, 5), np.broadcast_to(A[:1], A.shape), A)
        self.same(lambda x: x.flip(0, 2), A[::-1, :, ::-1], A)
        self.same(lambda x: ls.zeros(x, 2, 3), np.zeros((2, 3)), A)

    def test_tensors_from_nothing_belong_to_the_step_that_is_traced(self):
        self.same(lambda x: x + ls.ones(5), A + 1, A)
        self.same(lambda x: ls.arange(5).to(ls.f32) * x, A * np.arange(5), A)
        self.same(lambda x: ls.zeros(3, 4, 5) + x, A, A)
        self.same(lambda x: ls.full([4, 5], 2.0) * x, 2 * A, A)
        self.assertEqual(traced(lambda x: ls.uniform(2, 3).shape), (2, 3))
        self.assertEqual(traced(lambda x: x.size()), (3, 4, 5))
        self.same(lambda x: ls.arange(0, 5).to(ls.f32) + x, A + np.arange(5), A)
        self.assertEqual(traced(lambda x: ls.randn(3, 4).shape), (3, 4))
        with self.assertRaisesRegex(ls.UserError, r"\[zeros\] calls_test.py:\d+: no step is traced here"):
            ls.zeros(4)

    def test_numbers_beside_tensors(self):
        self.same(lambda x: ls.maximum(x, 0.0), np.maximum(A, 0), A)
        self.same(lambda x: ls.minimum(1, x), np.minimum(1, A), A)
        self.same(lambda x: x.maximum(0.5), np.maximum(A, 0.5), A)
        self.same(lambda x: ls.where(x > 0, x, 0.0), np.where(A > 0, A, 0), A)
        self.same(lambda x: ls.where(x > 0, 1.0, x), np.where(A > 0, 1, A), A)
        self.same(lambda x: ls.where(x > 0, 1.0, -0.5), np.where(A > 0, 1, -0.5), A)
        self.assertEqual(traced(lambda x: ls.where(x > 0, 1, 0).dtype), ls.i32)
        self.same(lambda x: x // 2, A // 2, A)
        self.same(lambda x: ls.remainder(x, 2), A % 2, A)


class Names(unittest.TestCase):
    def test_every_name_of_ours_exists(self):
        """What the tables say instead is there."""
        texts = list(words.ELSEWHERE.values()) + [text for table in words.ATTRIBUTES.values()
                                                  for text in table.values()]
        self.assertGreater(len(texts), 250)
        for text in texts:
            for name in re.findall(r"\bls\.(\w+)", text):
                self.assertTrue(hasattr(ls, name), f"{text}: ls.{name}")
            for name in re.findall(r"\bstate\.(\w+)", text):
                self.assertTrue(hasattr(ls.State, name), f"{text}: state.{name}")
            for name in re.findall(r"\bx\.(\w+)\(", text):
                self.assertTrue(hasattr(ls.Tensor, name), f"{text}: x.{name}")

    def test_no_name_stands_for_what_exists(self):
        for name in words.ELSEWHERE:
            self.assertNotIn(name, vars(ls), "an attribute that is there is not missing")

    def test_functions_of_pytorch(self):
        for name, ours in {"rand": "ls.uniform(x, [2, 3])", "mm": "a @ b, or ls.matmul",
                           "cat": "ls.concat([a, b], dim)", "view": "ls.reshape(x, [2, 3])", "std": "ls.stddev(x, dim)",
                           "clip": "ls.clamp(x, lo, hi)", "BCELoss": "ls.binary_cross_entropy(p, target)",
                           "float32": "ls.f32", "manual_seed": "ls.State(session.mesh, seed=1)",
                           "fmax": "ls.maximum(a, b)", "svd": "nothing: it is not there",
                           "LinearLR": "ls.warmup_linear(lr, warmup, steps)",
                           "random_split": "slices of the arrays: ls.arrays(x=x[:n])"}.items():
            with self.assertRaises(AttributeError) as caught:
                getattr(ls, name)
            self.assertEqual(str(caught.exception), f"module 'lockstep' has no attribute {name!r}; here that is {ours}")

    def test_near_names(self):
        """A function is answered with a function, a class with a class."""
        for name, ours in {"max_pool2d": "max_pool", "AvgPool2d": "AvgPool", "adaptive_avg_pool2d": "adaptive_avg_pool",
                           "RMSNorm": "RmsNorm", "CrossEntropyLoss": "cross_entropy"}.items():
            with self.assertRaisesRegex(AttributeError, f"did you mean {ours}\\?$"):
                getattr(ls, name)

    def test_attributes(self):
        state = ls.State(session.mesh)
        layer, optimizer = ls.Linear(state / "up", 4, 3), ls.AdamW(state / "optim", lr=0.25)

        def told(of, name, words_):
            with self.assertRaises(AttributeError) as caught:
                getattr(of, name)
            self.assertIn(words_, str(caught.exception))

        told(optimizer, "step", "'AdamW' object has no attribute 'step': write opt.update(ls.grad(loss, "
                                "state.parameters()))")
        told(optimizer, "lr", "a rate is said where it is made")
        with self.assertRaisesRegex(AttributeError, "has no attribute 'lr': a rate is said where it is made"):
            optimizer.lr = 0.2
        told(state, "cuda", "'State' object has no attribute 'cuda': the device is the session's")
        told(state, "nmaes", "did you mean names?")
        told(layer, "parameters", "state.parameters(\"up.**\")")
        told(layer, "wieght", "did you mean weight?")
        told(layer.weight, "data", "state.array(name) is a copy of its values")
        told(layer.weight, "reshape", "its value in the step is p(x), x any tensor of the step: p(x).reshape")
        traced(lambda x: told(x, "t", "here that is ls.transpose(x, 0, 1)"))
        traced(lambda x: told(x, "relu_", "nothing is written in place: x = x.relu(...)"))
        traced(lambda x: told(x, "take", "write ls.take(...)"))
        self.assertFalse(hasattr(layer, "__wrapped__"))


class Shown(unittest.TestCase):
    def test_what_prints(self):
        state = ls.State(session.mesh, seed=1)
        self.assertEqual(repr(state), "State(empty)")
        layer = ls.Linear(state / "up", 4, 3)
        state.root.frozen("table", [5, 2])
        optimizer = ls.AdamW(state / "optim", lr=0.25)
        self.assertEqual(repr(layer), "Linear(up: weight f32[3,4], bias f32[3])")
        self.assertEqual(repr(ls.Attention(ls.State(session.mesh).root / "a", 8, 2)), "Attention()")
        self.assertEqual(repr(optimizer), "AdamW(optim: lr 0.25 at step 1)")
        text = repr(state).split("\n")
        self.assertEqual(text[0], "State(15 numbers are trained, 30 are moments of them")
        self.assertEqual(len(text), 4)
        self.assertIn("  up.weight  f32[3,4]", text)
        self.assertIn("  table  f32[5,2]  not trained)", text)
        for i in range(40):
            ls.LayerNorm(state / "norm" / i, 4)
        self.assertEqual(len(repr(state).split("\n")), 26)
        for value in (ls.forward(state, {"x": (ls.f32, [2, 4])}, layer), ls.arrays(x=A), ls.Schedule(0.5), session,
                      ls.init.zeros()):
            self.assertNotIn(" object at 0x", repr(value))
        self.assertEqual(repr(ls.arrays(x=A)), "SampleData(x f32[4,5]; 3 rows)")


if __name__ == "__main__":
    unittest.main()
