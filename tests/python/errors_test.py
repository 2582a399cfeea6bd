"""What goes wrong in a Python program is told with the user's line, and leaves with the exit code of its kind."""
import unittest

from programs import Programs

STEP = """
session = ls.Session()
state = ls.State(session.mesh, seed=1)
w = ls.Linear(state / "w", 8, 4)
sgd = ls.Sgd(state / "optim", lr=0.1)
def step(x, y):
    loss = ls.mse_loss(w(x), y)
    sgd.update(ls.grad(loss, state.parameters()))
    return loss
fields = {"x": (ls.f32, [8]), "y": (ls.f32, [4])}
"""


class Errors(Programs):
    def told(self, text, *words, code, program=True):
        """The words stand in what a lone program says, and in trainrun's root cause on two ranks."""
        file = self.write("program.py", STEP + text)
        alone, two = self.alone(file, code=code), self.ranks(2, file, code=code)
        self.assertIn("Traceback (most recent call last):", alone)
        self.assertNotIn("training.py", alone, "frames of the package are not the user's")
        self.assertIn("trainrun: root cause", two)
        cause = two[two.index("trainrun: root cause"):]
        for word in words:
            self.assertIn(word, alone)
            self.assertIn(word, cause)

    def test_own_exception(self):
        self.told("def broken(x, y):\n    raise ValueError('no such column')\nls.compile(state, fields, broken, global_batch=8, micro_batch=4)\n",
                  "ValueError: no such column", code=1)

    def test_truth_of_a_tensor(self):
        self.told("def broken(x, y):\n    if x > 0:\n        return 1\nls.compile(state, fields, broken, global_batch=8, micro_batch=4)\n",
                  "TypeError: a tensor, bool[4,8], is neither true nor false while a step is traced", "where(condition, a, b)", code=1)

    def test_shapes_that_do_not_fit(self):
        self.told("def broken(x, y):\n    return ls.mse_loss(x @ w.weight(x), y)\nls.compile(state, fields, broken, global_batch=8, micro_batch=4)\n",
                  "UserError: [matmul] ", "program.py:14", "f32[4,8]", code=2)

    def test_no_loss(self):
        self.told("ls.compile(state, fields, lambda x, y: x, global_batch=8, micro_batch=4)\n",
                  "UserError: the step function gave Tensor(f32[4,8]); it must return the Loss", code=2)

    def test_option_out_of_range(self):
        self.told("ls.AdamW(state / 'other', lr=0.1, betas=[0.9, 1.5])\n", "UserError: [adamw] ", "program.py:13", "a beta is 1.5", code=2)

    def test_name_taken(self):
        self.told("ls.Linear(state / 'w', 8, 4)\n", "w.weight", "program.py:6", "program.py:13", code=2)

    def test_array_of_another_shape(self):
        self.told("step = ls.compile(state, fields, step, global_batch=8, micro_batch=4)\nstate.materialize()\nstep(np.zeros((8, 7), np.float32), np.zeros((8, 4)))\n",
                  'UserError: [data] field "x" is f32[8,7]; the step reads f32[8,8]', code=2)

    def test_array_of_another_kind(self):
        self.told("step = ls.compile(state, fields, step, global_batch=8, micro_batch=4)\nstate.materialize()\nstep(np.zeros((8, 8), int), np.zeros((8, 4)))\n",
                  'UserError: [data] field "x" is i64[8,8]; the step reads f32[8,8]', code=2)

    def test_field_missing(self):
        self.told("step = ls.compile(state, fields, step, global_batch=8, micro_batch=4)\nstate.materialize()\nstep(x=np.zeros((8, 8)))\n",
                  'UserError: [step] ', 'field "y" is missing', code=2)

    def test_sample_that_fails(self):
        self.told("def sample(i):\n    raise KeyError('row')\nls.train(session, state, ls.SampleData(fields, sample), step, run='runs/r')\n",
                  "KeyError: 'row'", code=1)

    def test_unknown_word(self):
        self.told("ls.train(session, state, ls.arrays(x=np.zeros((8, 8)), y=np.zeros((7, 4))), step)\n",
                  'UserError: [data] field "y" has 7 rows, and "x" has 8', code=2)

    def test_sys_exit_keeps_its_code(self):
        file = self.write("program.py", STEP + "import sys\nsys.exit(3)\n")
        self.alone(file, code=3)

    def test_no_such_program(self):
        self.assertIn("nowhere.py", self.run_words([*self.trainrun(), "nowhere.py"], 2))

    def trainrun(self):
        import programs
        return [f"{programs.BIN}/trainrun", "--nproc", "1"]

    def test_loading_what_is_not_there(self):
        file = self.write("program.py", "ls.load('runs/none')\n")
        self.assertIn("[load] runs/none has no whole checkpoint; steps that are there: none", self.alone(file, code=1))


if __name__ == "__main__":
    unittest.main()
