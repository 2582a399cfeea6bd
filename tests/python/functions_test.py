"""Functions, layers and losses by their Python arguments, beside NumPy: names, defaults, keywords, several results."""
import threading
import unittest

import lockstep as ls
import numpy as np

from tracing_test import A, B, computed, session

IDS = np.array([[3, 0, 2, 2], [1, 1, 4, 0], [2, 3, 3, 1]], np.int32)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


class Functions(unittest.TestCase):
    def same(self, function, want, *arrays, rtol=2e-5):
        np.testing.assert_allclose(computed(function, *arrays), want, rtol=rtol, atol=1e-6)

    def test_shapes(self):
        self.same(lambda x, y: ls.concat([x, y], dim=1), np.concatenate([A, B], 1), A, B)
        self.same(lambda x, y: ls.stack([x, y]), np.stack([A, B]), A, B)
        self.same(lambda x: ls.permute(x, [2, 0, 1]), A.transpose(2, 0, 1), A)
        self.same(lambda x: ls.pad(x, [0, 1, 2], [1, 0, 0], 3), np.pad(A, [(0, 1), (1, 0), (2, 0)], constant_values=3),
                  A)
        self.same(lambda x: ls.pad(x, [0, 1, 2], [1, 0, 0], "reflect"),
                  np.pad(A, [(0, 1), (1, 0), (2, 0)], mode="reflect"), A)
        self.same(lambda x: ls.split(x, 2, [2, 3])[1], A[..., 2:], A)
        self.same(lambda x: ls.roll(x, shift=2, dim=-1), np.roll(A, 2, -1), A)
        self.same(lambda x: x.unsqueeze(1).squeeze(1).flatten(1), A.reshape(3, 20), A)
        self.same(lambda x: ls.rot90(x, 3, 0, 2), np.rot90(A, 3, (0, 2)), A)
        self.same(lambda x: ls.flip(x, 1), A[:, ::-1], A)  # one dim as a number

    def test_order_of_large_u32(self):
        x = np.array([3000000000, 1, 2**31, 2**31 - 1], np.uint32)
        for got, want in ((lambda x: ls.sort(x, 0).values, np.sort(x)),
                          (lambda x: ls.topk(x, 2).values, np.sort(x)[:1:-1]),
                          (lambda x: ls.argsort(x, 0, descending=True), np.argsort(x)[::-1]),
                          (lambda x: ls.median(x, 0).values, np.uint32(2**31 - 1))):
            np.testing.assert_array_equal(computed(got, x), want)

    def test_hyperbolic_functions_of_large_numbers(self):
        x = np.float32([0.5, 3, 88.9, -88.9, 89.5, np.inf, np.nan])
        with np.errstate(over="ignore"):
            for function in ("sinh", "cosh"):
                want = getattr(np, function)(x.astype(np.float64)).astype(np.float32)
                self.same(getattr(ls, function), want, x)
        x = np.float32([0.5, 3, 3e8, 1e20, 3e38, np.inf, np.nan])
        self.same(ls.asinh, np.arcsinh(x), x)
        self.same(ls.asinh, -np.arcsinh(x), -x)
        self.same(ls.acosh, np.arccosh(x[1:]), x[1:])
        slope = lambda function: lambda x: ls.grad(function(x).sum(), [x])[0]
        y = np.float32([0.5, 1e10, 1e20])
        np.testing.assert_allclose(computed(slope(ls.asinh), y), 1 / np.hypot(1, y.astype(float)), rtol=1e-5)
        np.testing.assert_allclose(computed(slope(ls.acosh), y[1:]), 1 / y[1:].astype(float), rtol=1e-5)
        z = np.float32([0.5, -88.5, 88.75, -89.4, 89.4, np.inf])
        np.testing.assert_allclose(computed(slope(ls.sinh), z), np.cosh(z.astype(float)), rtol=1e-5)
        np.testing.assert_allclose(computed(slope(ls.cosh), z), np.sinh(z.astype(float)), rtol=1e-5)
        np.testing.assert_allclose(computed(slope(slope(ls.sinh)), z), np.sinh(z.astype(float)), rtol=1e-5)

    def test_a_tensor_is_no_list_of_its_rows(self):
        """Where tensors are wanted, one stands for itself, as in PyTorch, or is refused."""
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        self.same(lambda x: ls.grad((x * x).sum(), x)[0], 2 * x, x)
        self.same(lambda x: ls.grad((x * x).sum(), [x])[0], 2 * x, x)
        self.same(lambda x: ls.einsum("ij->ji", x), x.T, x)
        self.same(lambda x: ls.einsum("ij->i", x), x.sum(1), x)
        twice = lambda x: ls.custom_gradient(lambda x: x * 2, lambda saved, g: g[0] * 2, x)[0]
        self.same(twice, 2 * x, x)
        for name in ("concat", "stack"):
            with self.assertRaisesRegex(ls.UserError, rf"^\[{name}\] functions_test.py:\d+: "):
                computed(lambda x: getattr(ls, name)(x, 0), x)

    def test_the_sum_of_a_row_that_no_stack_holds(self):
        """The sums of its blocks are 1 MiB, the stack of the thread is half of that."""
        state, found = ls.State(session.mesh), []
        state.materialize()
        x = np.ones((1,), np.float32)
        total = ls.forward(state, {"x": (ls.f32, [1])}, lambda x: ls.ones(x, [2**31]).sum())
        before = threading.stack_size(2**19)
        try:
            thread = threading.Thread(target=lambda: found.append(total(x)))
            thread.start()
        finally:
            threading.stack_size(before)
        thread.join()
        self.assertEqual(found, [2**31])

    def test_nan_stays(self):
        x = np.float32([np.nan, 0.3, -0.7, 2])
        self.same(lambda x: ls.softshrink(x, 0.5), np.float32([np.nan, 0, -0.2, 1.5]), x)

    def test_nothing(self):
        for shape in ((2, 0), (0, 3)):
            x = np.ones(shape, np.float32)
            for function in (ls.softmax, ls.log_softmax, lambda x: ls.softmax(x, 0), lambda x: x + 1):
                self.assertEqual(computed(function, x).shape, shape)
            self.same(lambda x: ls.logsumexp(x, [1]), np.full(shape[0], -np.inf), x)
        x = np.ones((2, 0), np.float32)
        self.assertEqual(computed(lambda x: ls.grad(ls.softmax(x).sum(), [x])[0], x).shape, (2, 0))

    def test_shapes_that_cannot_be_counted(self):
        x = np.ones((1, 3), np.float32)
        square = r"\[full\] functions_test.py:\d+: gives f32\[4294967296,4294967296\]"
        for function, words in ((lambda x: ls.zeros(x, [2**32, 2**32]), square),
                                (lambda x: ls.broadcast_to(x, [2**62, 4, 3]), r"gives f32\[4611686018427387904,4,3\]")):
            with self.assertRaisesRegex(ls.UserError, words + ", which has more bytes than 64 bits can count"):
                computed(lambda x: function(x).sum(), x)
        self.assertEqual(computed(lambda x: ls.zeros(x, [2**40, 0]), x).size, 0)

    def test_the_gradient_of_a_remainder(self):
        a, b = np.float32([1, 1, 6, 0.7, -3.5, 1e7, 8388609]), np.float32([0.1, 0.2, 0.1, 0.1, np.inf, 0.3, 0.1])
        whole = computed(lambda a, b: a // b, a, b)
        self.assertEqual((whole[0], np.floor(a[0] / b[0])), (9, 10))
        for at, want in ((0, np.ones_like(a)), (1, -whole)):
            got = computed(lambda a, b: ls.grad((a % b).sum(), [(a, b)[at]])[0], a, b)
            np.testing.assert_array_equal(got, want)

    def test_reductions_and_order(self):
        self.same(lambda x: x.sum([0, 2], keep=True), A.sum((0, 2), keepdims=True), A)
        self.same(lambda x: x.mean(), A.mean(), A)
        self.same(lambda x: ls.var(x, -1, correction=0), A.var(-1), A)
        self.same(lambda x: ls.norm(x, 2, [1]), np.linalg.norm(A, axis=1), A)
        self.same(lambda x: ls.softmax(x, 1), softmax(A, 1), A)
        self.same(lambda x: ls.cumsum(x, 1), A.cumsum(1), A)
        self.same(lambda x: ls.argmax(x, 1), A.argmax(1), A)
        self.same(lambda x: ls.softmin(x), softmax(-A, -1), A)
        self.same(lambda i: ls.bincount(i, 5), np.bincount(IDS.reshape(-1), minlength=5), IDS)
        self.same(lambda x: ls.histogram(x, 4, lo=-1, hi=1), np.histogram(A, 4, (-1, 1))[0], A)
        edges = np.float32([-1, 0, 0.5])
        self.same(lambda e, x: ls.searchsorted(e, x, right=True), np.searchsorted(edges, A, "right"), edges, A)

        def top(x):
            values, indices = ls.topk(x, 2)
            self.assertEqual(indices.dtype, ls.i32)
            return values

        self.same(top, np.sort(A, -1)[..., ::-1][..., :2], A)
        self.same(lambda x: ls.sort(x)[0], np.sort(A, -1), A)
        self.same(lambda x: x.topk(1, 1)[-1], A.argmax(1)[:, None], A)
        self.same(lambda x: ls.slogdet(x)[1], np.zeros(3, np.float32), np.stack([np.eye(4, dtype=np.float32)] * 3))

        def beyond(x):
            pair = ls.median(x, 1)
            self.assertEqual(len(pair), 2)
            for i in (2, -3):
                with self.assertRaisesRegex(IndexError, "there are 2 results"):
                    pair[i]
            return pair[-2]

        self.same(beyond, np.sort(A, 1)[:, 1], A)
        self.same(lambda x: ls.sort(x, descending=True).values, np.sort(A, -1)[..., ::-1], A)

    def test_choices(self):
        self.same(lambda x, y: ls.where(x > y, x, y), np.maximum(A, B), A, B)
        self.same(lambda x: ls.clamp(x, lo=-0.5, hi=0.5), A.clip(-0.5, 0.5), A)
        self.same(lambda i: ls.one_hot(i, 5).to(ls.f32), np.eye(5, dtype=np.float32)[IDS], IDS)
        table = A.reshape(12, 5)[:5]
        self.same(lambda t, i: ls.embedding(t, i), table[IDS], table, IDS)
        self.same(lambda t, i: ls.embedding_bag(t, i, mode="sum"), table[IDS].sum(1), table, IDS)
        self.same(lambda t, i: ls.embedding_bag(t, i, mode="max"), table[IDS].max(1), table, IDS)
        self.same(lambda x: ls.tril(x), np.tril(A), A)

    def test_computed_ids_outside(self):
        """No check follows them: what index.h says is read."""
        x = np.arange(9, dtype=np.float32).reshape(3, 3)

        def ids(x, *given):
            return (x[0, :len(given)] * 0 + ls.constant(x, given)).to(ls.i32)

        self.same(lambda x: ls.take(x, ids(x, 4, -1, 99)), x[[2, 0, 2]], x)
        self.same(lambda x: ls.embedding(x, ids(x, -5, 3)), x[[0, 2]], x)
        self.same(lambda x: x.index_select(1, ids(x, 4, -1)), x[:, [2, 0]], x)
        self.same(lambda x: ls.gather(x, 1, ids(x, 4, -1, 99).reshape(3, 1)), np.float32([[4], [2], [8]]), x)
        want = x.copy()
        want[1, 1] += 7
        self.same(lambda x: ls.scatter_add(x, 1, ids(x, 4).reshape(1, 1), ls.full(x, [1, 1], 7.0, ls.f32)), want, x)
        for function in (lambda x: ls.grad(ls.take(x, ids(x, 1, 4)).sum(), [x])[0],
                         lambda x: ls.index_add(ids(x, 1, 4), x[:2], 3), lambda x: ls.bincount(ids(x, 1, 4), 3)):
            with self.assertRaisesRegex(ls.UserError, "index 4 at position 1 is outside the table of 3 rows"):
                computed(function, x)

    def test_contractions(self):
        self.same(lambda x, y: ls.einsum("bij,bkj->bik", [x, y]), np.einsum("bij,bkj->bik", A, B), A, B)
        weight = B.reshape(12, 5)
        self.same(lambda x, w: ls.linear(x, w), A @ weight.T, A, weight)
        self.same(lambda x, w, b: ls.linear(x, w, bias=b), A @ weight.T + weight[:, 0], A, weight, weight[:, 0].copy())
        x = A.reshape(1, 3, 4, 5)
        kernel = B[:2, :3, :3].reshape(1, 2, 3, 3)[:, :1].repeat(3, 1)
        want = np.zeros((1, 1, 2, 3), np.float32)
        for i in range(2):
            for j in range(3):
                want[0, 0, i, j] = (x[0, :, i:i + 3, j:j + 3] * kernel[0]).sum()
        self.same(lambda x, w: ls.convolution(x, w), want, x, kernel)
        self.same(lambda x: ls.max_pool(x, 2), x[:, :, :, :4].reshape(1, 3, 2, 2, 2, 2).max((3, 5)), x)
        q = A.reshape(1, 4, 3, 5)
        scores = np.einsum("bthd,bshd->bhts", q, q) / 5**0.5
        self.same(lambda q: ls.sdpa(q, q, q, causal=False), np.einsum("bhts,bshd->bthd", softmax(scores, -1), q), q)
        seen = np.tril(np.ones((4, 4), bool))
        causal = np.einsum("bhts,bshd->bthd", softmax(np.where(seen, scores, -np.inf), -1), q)
        self.same(lambda q: ls.sdpa(q, q, q, causal=True), causal, q)
        self.same(lambda q, m: ls.sdpa(q, q, q, causal=False, mask=m), causal, q, seen)
        with self.assertRaisesRegex(ls.UserError, "causal is missing"):  # C++ and PyTorch differ: it is said
            computed(lambda q: ls.sdpa(q, q, q), q)

    def test_losses(self):
        flat, targets = A.reshape(12, 5), IDS.reshape(12)
        log = np.log(softmax(flat, -1))

        def mean(loss):
            return loss.sum / loss.count.to(ls.f32)

        self.same(lambda x, t: mean(ls.cross_entropy(x, t)), -log[np.arange(12), targets].mean(), flat, targets)
        smooth = -(0.9 * log[np.arange(12), targets] + 0.1 * log.mean(-1)).mean()
        self.same(lambda x, t: mean(ls.cross_entropy(x, t, smoothing=0.1)), smooth, flat, targets)
        self.same(lambda x, y: mean(ls.mse_loss(x, y)), ((A - B) ** 2).mean(), A, B)
        self.same(lambda x, y: mean(ls.huber_loss(x, y, delta=0.5)),
                  np.where(abs(A - B) < 0.5, (A - B) ** 2 / 2, 0.5 * (abs(A - B) - 0.25)).mean(), A, B)

    def test_layers(self):
        state = ls.State(session.mesh, seed=2)
        layers = [ls.Linear(state / "a", 5, 8), ls.LayerNorm(state / "b", 8),
                  ls.Linear(state / "c", 8, 5, bias=False, start=ls.init.eye())]
        conv = ls.Conv2d(state / "d", 3, 6, 3, padding=1, groups=3, bias=False)
        attention = ls.Attention(state / "e", 5, 5, causal=False, dropout=0.5)
        state.materialize()

        def function(x):
            with ls.Evaluation():
                y = layers[2](ls.gelu(layers[1](layers[0](x))))
                return attention(y) + conv(x.unsqueeze(0))[0, :3, :, :] * 0

        self.assertEqual(ls.forward(state, {"x": (ls.f32, A.shape)}, function)(A).shape, A.shape)
        np.testing.assert_array_equal(state.array("c.weight"), np.eye(5, 8))

    def test_schedules(self):
        self.assertEqual(ls.warmup_cosine(1.0, 10, 100).at(5), 0.5)
        self.assertEqual(ls.Schedule(2.0, lambda step: 1 / step).at(4), 0.5)
        self.assertEqual(ls.warmup_stable_decay(1, 0, steps=100, decay=10).at(100), 0)


class Draws(unittest.TestCase):
    """Random numbers of a step of 8 samples with 3 rows each, as gradients of the rows: each is multiplied once."""

    def drawn(self, micro, function):
        state = ls.State(session.mesh, seed=3)
        rows = state.root.parameter("rows", [24, 4], ls.init.zeros())
        sgd = ls.Sgd(state / "optim", lr=1)

        def step(ids):
            y = function(ls.embedding(rows(ids), ids))  # [micro, 3, 4]
            loss = ls.Loss(y.sum(), ls.full(y, [], micro, ls.i64))
            sgd.update(ls.grad(loss, state.parameters()))
            return loss

        one = ls.compile(state, {"ids": (ls.i32, [3])}, step, global_batch=8, micro_batch=micro)
        state.materialize()
        one(np.arange(24, dtype=np.int32).reshape(8, 3))
        return state.array("rows")

    def test_rows_of_samples_have_their_own_numbers(self):
        """Batch and rows merged, too: those of [B, 3, 4], on micro-batches of any size."""
        merged = lambda x: x.reshape([x.shape[0] * 3, 4])
        for draw in (lambda x: ls.dropout(x, 0.5), lambda x: x * ls.uniform(x, x.shape)):
            want = self.drawn(8, draw)
            self.assertGreater(len(np.unique(want)), 1)
            for micro in (1, 2, 4, 8):
                np.testing.assert_array_equal(self.drawn(micro, draw), want, f"{micro}")
                np.testing.assert_array_equal(self.drawn(micro, lambda x: draw(merged(x))), want, f"{micro} merged")

    def test_attention_of_merged_windows(self):
        def windows(x):
            v = x.reshape([x.shape[0] * 3, 4, 1, 1])
            return ls.sdpa(v * 0, v * 0, v, causal=False, dropout=0.5)

        want = self.drawn(8, windows)
        self.assertGreater(len(np.unique(want)), 1)
        for micro in (1, 2, 4):
            np.testing.assert_array_equal(self.drawn(micro, windows), want, f"{micro}")

    def test_no_two_micro_batches_share_numbers(self):
        """Of a tensor whose rows are not so many for each sample."""
        first = self.drawn(2, lambda x: x[0] * ls.uniform(x, [3, 4]))[[0, 1, 2, 6, 7, 8, 12, 13, 14, 18, 19, 20]]
        self.assertEqual(len(np.unique(first)), first.size)


if __name__ == "__main__":
    unittest.main()
