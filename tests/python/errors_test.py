"""What goes wrong in a Python program is told with the user's line, and leaves with the exit code of its kind."""
import unittest

import lockstep as ls
import numpy as np

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
        self.told("def broken(x, y):\n    raise ValueError('no such column')\nls.compile(state, fields, broken, "
                  "global_batch=8, micro_batch=4)\n",
                  "ValueError: no such column", code=1)

    def test_names_as_pytorch_spells_them(self):
        for name, here in {"SGD": "Sgd", "LSTM": "Lstm", "RMSNorm": "RmsNorm", "ReLU": "relu", "MSELoss": "mse_loss",
                           "CrossEntropyLoss": "cross_entropy", "crossentropy": "cross_entropy",
                           "AdamWW": "AdamW"}.items():
            with self.assertRaisesRegex(AttributeError, f"module 'lockstep' has no attribute '{name}'; did you mean "
                                                        f"{here}\\?"):
                getattr(ls, name)
        with self.assertRaisesRegex(AttributeError, "'Adam'; here that is AdamW"):
            ls.Adam
        with self.assertRaisesRegex(AttributeError, "'quaternion'; docs/pytorch.md lists PyTorch's words"):
            ls.quaternion
        self.assertFalse(hasattr(ls, "__wrapped__"))

    def test_truth_of_a_tensor(self):
        self.told("def broken(x, y):\n    if x > 0:\n        return 1\nls.compile(state, fields, broken, "
                  "global_batch=8, micro_batch=4)\n",
                  "TypeError: a tensor, bool[4,8], is neither true nor false while a step is traced",
                  "where(condition, a, b)", code=1)

    def test_arguments_of_layers_and_optimizers(self):
        """Which argument is wrong, its value, and what is taken."""
        for line, words in (
            ('ls.Sgd(state / "o", lr=-0.5)', "[Sgd] program.py:LINE: [schedule] lr is -0.5; it must be a number of at "
                                             "least 0"),
            ('ls.Sgd(state / "o", learning_rate=0.5)',
             "there is no argument learning_rate, which is 0.5; did you mean lr?; it takes at, and by keyword lr, "
             "momentum"),
            ('ls.AdamW(state / "o", weight_decy=0.5)',
             "there is no argument weight_decy, which is 0.5; did you mean weight_decay?"),
            ('ls.AdamW(state / "o", lr="fast")', "[AdamW] program.py:LINE: lr is 'fast'; it must be a number or a "
                                                 "Schedule"),
            ('ls.AdamW(state / "o", betas=0.9)', "betas is 0.9; it must be 2 numbers"),
            ('ls.AdamW(state / "o", 0.1)', "argument 2 in order is 0.1, and it takes 1 so; it takes at, and by keyword "
                                           "lr"),
            ("ls.Linear(8, 4)", "[Linear] program.py:LINE: at is 8; it must be a Scope, as state / \"name\""),
            ('ls.Linear(state / "b", 8)',
             "[Linear] program.py:LINE: out is missing; it takes at, in_, out, bias, start"),
            ('ls.Linear(state / "b", 8, 4, out=4)', "out is given twice: in order, 4, and by its name, 4"),
            ('ls.Linear(state / "b", in_features=8, out=4)',
             "there is no argument in_features, which is 8; did you mean in_?"),
            ('ls.Conv2d(state / "c", 3, 8, 3, stridee=2)',
             "[Conv2d] program.py:LINE: there is no argument stridee, which is 2; did you mean stride?"),
            ('ls.Conv2d(state / "c", 3, 8, 3, padding_mode="zero")',
             "padding_mode is 'zero'; it must be \"reflect\", \"replicate\""),
            ('state.compute_dtype(ls.bf16); state.float8(recipe="blockwise")',
             '[float8] program.py:LINE: recipe is "blockwise"; choose tensorwise | rowwise | delayed'),
            ('ls.AdamW(state / "o", groups=[ls.AdamWOptions(lrr=1)])',
             "[AdamWOptions] program.py:LINE: there is no argument lrr, which is 1; did you mean lr?"),
        ):
            with self.subTest(line):
                file = self.write("program.py", STEP + line + "\n")
                number = len(open(file, encoding="utf-8").read().rstrip("\n").split("\n"))
                self.assertIn(words.replace("LINE", str(number)), self.alone(file, code=2))
        # What converts does as before, and a signature has no word of it.
        file = self.write("program.py", STEP + "ls.AdamW(state / 'o', lr=1)\nls.Linear(state / 'l', np.int64(8), 4)\n"
                          "print('args' in ls._core.__doc__ if ls._core.__doc__ else 'made')\n")
        self.assertNotIn("Error", self.alone(file))

    def test_first_reflexes_of_pytorch(self):
        compile_ = "\nls.compile(state, fields, broken, global_batch=8, micro_batch=4)\n"
        for line, kind, words in (
            (
                "x.item()",
                "AttributeError",
                "'Tensor' object has no attribute 'item' (f32[4,8]): it has no value while a step is traced",
            ),
            ("x.view(2, 16)", "AttributeError", "write x.reshape(...)"),
            ("x.max(1).values", "AttributeError", "values, indices = ls.max_with_index(x, dim), or min_with_index"),
            ("x.nothing", "AttributeError", "'Tensor' object has no attribute 'nothing'"),
            (
                "np.exp(x)",
                "TypeError",
                "a tensor, f32[4,8], has no values while a step is traced, so NumPy cannot compute with it",
            ),
            (
                "step(x, y).backward()",
                "AttributeError",
                "gradients are asked for: ls.grad(loss, state.parameters())",
            ),
            (
                "step(x, y) > 0",
                "TypeError",
                "has no value while a step is traced; a called step returns it as step(x)[\"loss\"]",
            ),
        ):
            with self.subTest(line):
                said = self.alone(
                    self.write("program.py", STEP + f"def broken(x, y):\n    return {line}" + compile_), code=1
                )
                self.assertIn(f"{kind}: ", said)
                self.assertIn(words, said)

    def test_metric_of_values(self):
        said = self.alone(
            self.write(
                "program.py",
                STEP
                + "def broken(x, y):\n    ls.metric('near', (w(x) - y).abs().mean())\n    return step(x, y)\n"
                "ls.compile(state, fields, broken, global_batch=8, micro_batch=4)\n",
            ),
            code=2,
        )
        self.assertIn('metric "near" is of one micro-batch (PerLane on dp_replicate), and a metric is of the whole '
                      'step: '
                      "give a sum and a count of each micro-batch, as in metric(name, mean_loss(values))", said)

    def test_forward_of_a_state_without_values(self):
        said = self.alone(
            self.write(
                "program.py",
                STEP + "ls.forward(state, {'x': (ls.f32, [4, 8])}, w)(np.zeros((4, 8), np.float32))\n",
            ),
            code=2,
        )
        self.assertIn("the state has no values yet: materialize() draws initial ones, and takes what load_weights() or "
                      "set() gave; call it first, or Checkpoint.resume(), or train", said)
        said = self.alone(
            self.write("program.py", STEP + "print(ls.forward(ls.State(session.mesh), {'x': (ls.f32, [2])}, lambda x: "
                                            "2 * x)(np.ones(2, np.float32)))\n")
        )
        self.assertIn("[2. 2.]", said)

    def test_keys_of_a_config(self):
        program = self.write("program.py", "session = ls.Session()\nprint(session.arguments)\n")
        self.assertIn("did you mean --train.precision=?", self.alone(program, "--train.precison=bf16", code=2))
        self.assertIn(
            "--optim.lr=1: a program sets this itself, and the argument would do nothing; of a config's keys a "
            "program reads "
            "--mesh.shape, --mesh.dim_names, --train.device, --train.precision",
            self.alone(program, "--optim.lr=1", code=2),
        )
        self.assertIn("train.device", self.alone(program, "--train.device=tpu", code=2))
        self.assertIn("['--lr=3', 'more']", self.alone(program, "--lr=3", "more", "--train.precision=bf16"))

    def test_shapes_that_do_not_fit(self):
        self.told("def broken(x, y):\n    return ls.mse_loss(x @ w.weight(x), y)\nls.compile(state, fields, broken, "
                  "global_batch=8, micro_batch=4)\n",
                  "UserError: [matmul] ", "program.py:14", "f32[4,8]", code=2)

    def test_no_loss(self):
        self.told("ls.compile(state, fields, lambda x, y: x, global_batch=8, micro_batch=4)\n",
                  "UserError: the step function gave Tensor(f32[4,8]); it must return the Loss", code=2)

    def test_option_out_of_range(self):
        self.told("ls.AdamW(state / 'other', lr=0.1, betas=[0.9, 1.5])\n", "UserError: [adamw] ", "program.py:13",
                  "a beta is 1.5", code=2)

    def test_name_taken(self):
        self.told("ls.Linear(state / 'w', 8, 4)\n", "w.weight", "program.py:6", "program.py:13", code=2)

    def test_array_of_another_shape(self):
        self.told("step = ls.compile(state, fields, step, global_batch=8, "
                  "micro_batch=4)\nstate.materialize()\nstep(np.zeros((8, 7), np.float32), np.zeros((8, 4)))\n",
                  "UserError: [linear] ", "program.py:9", "f32[4,7]", code=2)

    def test_one_shape_too_many(self):
        call = ("step = ls.compile(state, fields, step, global_batch=8, micro_batch=4, "
                "max_shapes=2)\nstate.materialize()\nfor n in (8, 6, 8, 4):\n    step(np.zeros((n, 8)), np.zeros((n, "
                "4)))\n")
        self.told(call, "UserError: [step] ", "program.py:16",
                  "a batch of x f32[4,8], y f32[4,4] is shape 3 of this step, and at most 2 are kept",
                  "the first is x f32[8,8], y f32[8,4]", "pad batches to fewer shapes, or raise max_shapes", code=2)

    def test_samples_that_do_not_fit_together(self):
        call = "step = ls.compile(state, fields, step, global_batch=8, micro_batch=4)\nstate.materialize()\n"
        self.told(call + "step(np.zeros((8, 8)), np.zeros((6, 4)))\n", 'field "y" has 6 samples, and "x" 8', code=2)
        self.told(call + "step(np.zeros((8, 8, 1)), np.zeros((8, 4)))\n",
                  'a sample of field "x" is f32[8,1], and the step was written for f32[8]', "not the number of dims",
                  code=2)

    def test_array_of_another_kind(self):
        self.told("step = ls.compile(state, fields, step, global_batch=8, "
                  "micro_batch=4)\nstate.materialize()\nstep(np.zeros((8, 8), int), np.zeros((8, 4)))\n",
                  'UserError: [data] field "x" is i64[8,8]; the step reads f32[8,8]: give floats, as '
                  'array.astype("float32")', code=2)
        of_lists = "ls.SampleData(fields, lambda i: ([1] * 8, np.ones(4)))"
        said = self.alone(self.write("program.py", STEP
                                     + f"ls.train(session, state, {of_lists}, step, run='runs/r')\n"),
                          code=2)
        self.assertIn('[data] field "x" is i64[8]; the step reads f32[8]: give floats, as array.astype("float32") '
                      "(sample 0)", said)
        with self.assertRaisesRegex(
                ls.UserError, r'field "x" is one number, f64\[\]; give an array with a row for each sample'):
            ls.arrays(x=np.array(2.0))

    def test_field_missing(self):
        self.told("step = ls.compile(state, fields, step, global_batch=8, "
                  "micro_batch=4)\nstate.materialize()\nstep(x=np.zeros((8, 8)))\n",
                  'UserError: [step] ', 'field "y" is missing', code=2)

    def test_sample_that_fails(self):
        self.told("def sample(i):\n    raise KeyError('row')\nls.train(session, state, ls.SampleData(fields, sample), "
                  "step, run='runs/r')\n",
                  "KeyError: 'row'", code=1)

    def test_no_folder(self):
        """'' would be the root of the file system."""
        data = "ls.arrays(x=np.zeros((8, 8)), y=np.zeros((8, 4)))"
        for run, why in (("a\\nb", "a path of a run has no line end"), ("~/a", "~ is your home in a shell alone"),
                         ("gs://b/a", "an object store is s3://BUCKET/PREFIX")):
            self.told(f"ls.train(session, state, {data}, step, run='{run}')\n",
                      f'UserError: [train] run is "{run}"; {why}', code=2)
            self.told(f"ls.Checkpoint('{run}')\n", f'UserError: [checkpoint] dir is "{run}"; {why}', code=2)
        for run in ("", "/", "//"):
            self.told(f"ls.train(session, state, {data}, step, run='{run}')\n", 'UserError: [train] run is "',
                      '"; it is the folder of the run, as in "runs/mine"', code=2)
        self.told("ls.Checkpoint('')\n", 'UserError: [checkpoint] dir is ""; it is the folder of the run', code=2)

    def test_unknown_word(self):
        self.told("ls.train(session, state, ls.arrays(x=np.zeros((8, 8)), y=np.zeros((7, 4))), step)\n",
                  'UserError: [data] field "y" has 7 rows, and "x" has 8', code=2)

    def test_one_rank_alone_outside_of_a_step(self):
        """What one rank raises is what trainrun names, while the others wait: before, between and behind steps."""
        rank = "import os\nrank = int(os.environ.get('RANK', 0))\n"
        before = self.write(
            "program.py",
            rank + "if rank == 1:\n    raise RuntimeError('no such file here')\nsession = ls.Session()\n",
        )
        said = self.ranks(2, before, code=1)
        self.assertIn(
            "root cause: rank 1 exited with code 1 and left no error record; "
            "its last line: RuntimeError: no such file here",
            said,
        )
        calls = "step = ls.compile(state, fields, step, global_batch=8, micro_batch=4)\nstate.materialize()\n" \
                "x, y = np.zeros((8, 8), np.float32), np.zeros((8, 4), np.float32)\n"
        for text in (
            "step(x, y)\nif rank == 1:\n    raise KeyError('column')\nstep(x, y)\n",
            "if rank == 1:\n    {}['column']\nstep(x, y)\n",
        ):
            said = self.ranks(3, self.write("program.py", rank + STEP + calls + text), code=1)
            self.assertIn("root cause: rank 1: ProgramError", said)
            self.assertIn("KeyError: 'column' (raised at program.py:", said)
        # A rank that is not there any more, and left without a word.
        said = self.ranks(
            2,
            self.write("program.py", rank + STEP + calls + "if rank == 1:\n    os._exit(3)\nstep(x, y)\n"),
            code=1,
        )
        self.assertIn("root cause: rank 1 exited with code 3 and left no error record", said)

    def test_integers_of_numpy(self):
        """int64, as NumPy makes them, are labels and ids where all of them fit; another is named."""
        program = """
session = ls.Session()
state = ls.State(session.mesh, seed=1)
table = ls.Embedding(state / "table", 5, 4)
sgd = ls.Sgd(state / "optim", lr=0.1)
def pick(ids, y):
    loss = ls.mse_loss(table(ids), y)
    sgd.update(ls.grad(loss, state.parameters()))
    return loss
"""
        train = (
            "ls.train(session, state, ls.arrays(ids={}, y=np.zeros((8, 4), np.float32)), pick, "
            "steps=2, global_batch=4)\n"
        )
        said = self.alone(self.write("program.py", program + train.format("np.arange(8) % 5")))
        self.state_of(said)
        compiled = (
            "one = ls.compile(state, {'ids': (ls.i32, []), 'y': (ls.f32, [4])}, pick, "
            "global_batch=8, micro_batch=4)\nstate.materialize()\n"
        )
        self.alone(
            self.write(
                "program.py", program + compiled + "one(np.arange(8) % 5, np.zeros((8, 4), np.float32))\n"
            )
        )
        said = self.alone(
            self.write(
                "program.py", program + compiled + "one(np.arange(8) + 2**31, np.zeros((8, 4), np.float32))\n"
            ),
            code=2,
        )
        many = train.format("np.arange(8) + np.array([0, 0, 0, 2**31] + [0] * 4)")
        self.assertIn(
            '[data] field "ids" has 2147483651 in row 3, and integers are i32 here, -2147483648 to 2147483647; '
            "mend the value, or give the field as float32",
            self.alone(self.write("program.py", program + many), code=2),
        )
        self.assertIn(
            '[data] field "ids" has 2147483648 (i64) in row 0, and the step reads i32, -2147483648 to 2147483647', said
        )

    def test_arrays_that_are_no_numbers(self):
        """Each by its field, its dtype and the way out."""
        session = ls.Session([])
        x = np.ones((4, 3))
        for value, *parts in (
            (x.astype(object), "is objects [4,3]",
             "its elements are Python objects (the first is 1.0): make numbers of them, as in x.astype(numpy.float32)"),
            (np.array([["a"] * 3] * 4), "is text [4,3]", "texts are numbered: numpy.unique(x, return_inverse=True)[1]"),
            (np.array([b"a"] * 4), "is bytes [4]", "texts are numbered"),
            (None, "is None", "give an array of numbers"),
            (x.astype(">f4"), "is float32 in the other byte order (>f4) [4,3]", "x.astype(x.dtype.newbyteorder('='))"),
            (np.zeros((4, 3), "datetime64[s]"), "is datetime64[s] [4,3]", "dates are counted"),
            (np.zeros(4, "timedelta64[s]"), "is timedelta64[s] [4]", "times are counted"),
            (x.astype(np.int8), "is int8 [4,3]", "write x.astype(numpy.int32)"),
            (x.astype(np.int16), "is int16 [4,3]", "write x.astype(numpy.int32)"),
            (x.astype(np.complex64), "is complex64 [4,3]", "take its parts: numpy.stack([x.real, x.imag], -1)"),
            (x.astype(np.complex128), "is complex128 [4,3]", "take its parts"),
            (x.astype(np.longdouble), f"is {np.dtype(np.longdouble).name} [4,3]", "write x.astype(numpy.float32)"),
            (np.zeros(4, [("a", "f4"), ("b", "i4")]), "is void64 [4]", "give each of its fields by itself: x['a']"),
            ([[1, 2], [3]], "has rows of several lengths", "pad them to one"),
            (np.array([[1, 2], [3]], object), "its rows have several lengths: pad them to one"),
            ({"a": 1}, "is {'a': 1}, a dict", "give an array of numbers"),
            ((i for i in range(4)), "a generator", "give an array of numbers"),
            ("text", "is text []", "texts are numbered"),
        ):
            with self.subTest(parts[0]):
                said = []
                for call in (lambda: ls.arrays(ok=np.ones(4), x=value),
                             lambda: ls.forward(ls.State(session.mesh), {"x": (ls.f32, [4, 3])}, lambda x: x)(value)):
                    with self.assertRaises(ls.UserError) as caught:
                        call()
                    said.append(str(caught.exception))
                self.assertEqual(said[0], said[1])
                for part in ('[data] field "x" ', *parts):
                    self.assertIn(part, said[0])

    def test_floats_of_numpy(self):
        """float64, as NumPy makes them, are f32 where f32 holds them; another is named."""
        self.assertEqual(ls.arrays(x=np.ones((4, 3)), y=[1.5] * 4).fields, {"x": (ls.f32, (3,)), "y": (ls.f32, ())})
        train = "ls.train(session, state, ls.arrays(x={}, y=np.zeros((8, 4))), step, steps=2, global_batch=4)\n"
        plain = self.alone(self.write("program.py", STEP
                                      + train.format("np.ones((8, 8), np.float32) / 3").replace("'r'", "'a'")))
        wider = train.format("(np.ones((8, 8), np.float32) / 3).astype(float)")
        wider = wider.replace("steps=2", "run='runs/b', steps=2")
        wide = self.alone(self.write("program.py", STEP + wider))
        self.assertEqual(self.state_of(plain), self.state_of(wide))
        x = np.ones((8, 8))
        x[3, 2], x[5, 1] = np.inf, -1e300
        with self.assertRaises(ls.UserError) as caught:
            ls.arrays(x=x)
        self.assertEqual(str(caught.exception), '[data] field "x" has -1e+300 in row 5, and floats are f32 here, up to '
                                                '3.4e38; scale the values, or clip them')
        largest = np.finfo(np.float32).max
        for taken in (np.float64(largest), np.nextafter(largest * (1 + 2.0 ** -25), 0), np.nan, -np.inf):
            ls.arrays(x=np.array([taken]))
        with self.assertRaisesRegex(ls.UserError, "in row 0, and floats are f32 here"):
            ls.arrays(x=np.array([2.0 ** 128 - 2.0 ** 103]))

    def test_what_a_data_function_gives(self):
        cases = {
            "{'x': np.ones(8)}": 'gave a dict without the field "y"; it has x, and the fields are x, y',
            "None": "gave None; it must return the fields x, y: a dict, or a tuple in this order",
            "(np.ones(8),)": "gave 1 value, ",
            "(1, 2, 3)": "gave 3 values, (1, 2, 3), and the fields are 2: x, y",
            "7": "gave 1 value, 7, and the fields are 2: x, y",
        }
        text = f"""
for number, given in enumerate(({', '.join(cases)})):
    def sample(i):
        return given
    try:
        ls.train(session, state, ls.SampleData(fields, sample), step, run='runs/' + str(number), steps=1)
    except ls.UserError as error:
        print(error)
"""
        said = self.alone(self.write("program.py", STEP + text))
        for words in cases.values():
            self.assertIn(f"[data] sample 0: the data's function, sample() at program.py:15, {words}", said)

    def test_a_rate_below_zero_is_told_once(self):
        said = self.alone(self.write("program.py", STEP + "ls.AdamW(state / 'o', lr=-1.0)\n"), code=2)
        self.assertNotIn("nanobind", said)
        self.assertEqual(said.count("lr is -1; it must be a number of at least 0"), 1)

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
