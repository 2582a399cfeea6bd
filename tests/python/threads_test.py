"""Threads of Python that call what is compiled: each gets its own results."""
import os
import sys
import threading
import time
import unittest

import lockstep as ls
import numpy as np

session = ls.Session([])
CALLS, THREADS = 400, 4


class Threads(unittest.TestCase):
    def each(self, function):
        """function(i) in a thread of its own for each i; their errors are the test's."""
        errors = []

        def run(i):
            try:
                function(i)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive())
        self.assertEqual(errors, [])

    def model(self):
        state = ls.State(session.mesh, seed=1)
        layer = ls.Linear(state / "l", 64, 64)
        sgd = ls.Sgd(state / "o", lr=0.0)

        def step(x, y):
            loss = ls.mse_loss(layer(x), y)
            sgd.update(ls.grad(loss, state.parameters()))
            return loss

        return state, layer, step

    def own_results(self, call):
        want = [call(v) for v in range(THREADS)]
        self.assertEqual(len(set(want)), THREADS)
        wrong = [0] * THREADS

        def many(v):
            for _ in range(CALLS):
                wrong[v] += call(v) != want[v]

        self.each(many)
        self.assertEqual(wrong, [0] * THREADS)

    def test_a_forward(self):
        state, layer, _ = self.model()
        state.materialize()
        run = ls.forward(state, {"x": (ls.f32, [4, 64])}, lambda x: ls.tanh(layer(x)).sum(1))
        self.own_results(lambda v: run(np.full((4, 64), v, np.float32))[0])

    def test_a_step(self):
        state, _, step = self.model()
        run = ls.compile(state, {"x": (ls.f32, [64]), "y": (ls.f32, [64])}, step, global_batch=4, micro_batch=2)
        state.materialize()
        zeros = np.zeros((4, 64), np.float32)
        self.own_results(lambda v: run(np.full((4, 64), v, np.float32), zeros)["loss"])
        self.assertEqual(run.done, THREADS * (CALLS + 1))

    def test_shapes_that_come_in_several_threads(self):
        state, layer, _ = self.model()
        state.materialize()
        run = ls.forward(state, {"x": (ls.f32, [4, 64])}, lambda x: layer(x).sum(1))
        want = {n: run(np.ones((n, 64), np.float32)) for n in (1, 2, 3, 5)}
        again = ls.forward(state, {"x": (ls.f32, [4, 64])}, lambda x: layer(x).sum(1))

        def shapes(i):
            for n in (1, 2, 3, 5):
                np.testing.assert_array_equal(again(np.ones((n, 64), np.float32)), want[n])

        self.each(shapes)

    def test_a_forward_is_compiled_beside_other_threads(self):
        """They run between the end of the trace and that of the compilation, where none is made to give way."""
        state, layer, _ = self.model()
        scale = 1 + int.from_bytes(os.urandom(3), "little") / 2**24  # a kernel that no cache has
        traced, done, beside = [], [], []

        def function(x):
            y = layer(x) * scale
            traced.append(True)
            return y

        def watch():
            while not done:
                if traced:
                    beside.append(True)
                time.sleep(1e-4)

        thread, interval = threading.Thread(target=watch), sys.getswitchinterval()
        sys.setswitchinterval(1000)
        try:
            thread.start()
            ls.forward(state, {"x": (ls.f32, [4, 64])}, function)
            done.append(True)
        finally:
            sys.setswitchinterval(interval)
        thread.join()
        self.assertGreater(len(beside), 0)

    def test_what_is_read_is_whole(self):
        """Beside a step that adds 1 to every element, a copy of the state has one number everywhere."""
        state = ls.State(session.mesh)
        p = state.root.parameter("p", [1 << 16])

        def step(x):
            ls.assign(p, p(x) + 1)
            return ls.mean_loss(x)

        run = ls.compile(state, {"x": (ls.f32, [1])}, step, global_batch=1, micro_batch=1)
        state.materialize()
        torn = []

        def use(i):
            for _ in range(100):
                if i % 2:
                    run(np.ones((1, 1), np.float32))
                else:
                    values = state.array("p")
                    torn.append(values.min() != values.max())

        self.each(use)
        self.assertFalse(any(torn))
        self.assertEqual(state.array("p")[0], 200)

    def test_functions_that_are_compiled_at_once(self):
        def own(i):
            state, layer, step = self.model()
            run = ls.compile(state, {"x": (ls.f32, [64]), "y": (ls.f32, [64])}, step, global_batch=4, micro_batch=2)
            state.materialize()
            self.assertGreater(run(np.ones((4, 64)), np.zeros((4, 64)))["loss"], 0)

        self.each(own)


if __name__ == "__main__":
    unittest.main()
