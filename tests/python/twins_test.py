"""A program in Python and its twin in C++ end with the same state, on any number of ranks."""
import unittest

import lockstep as ls
import numpy as np

from programs import BIN, EXAMPLES, Programs


class Twins(Programs):
    def test_mlp(self):
        want = self.state_of(self.run_words([f"{BIN}/example-mlp", "runs/cpp", "30"]))
        for nproc in (1, 2, 3):
            self.assertEqual(self.state_of(self.ranks(nproc, f"{EXAMPLES}/mlp.py", f"runs/{nproc}", 30)), want)
        half = self.state_of(self.run_words([f"{BIN}/example-mlp", "runs/cpp-bf16", "30", "--train.precision=bf16"]))
        self.assertNotEqual(half, want)
        self.assertEqual(self.state_of(self.ranks(2, f"{EXAMPLES}/mlp.py", "runs/bf16", 30, "--train.precision=bf16")),
                         half)

    def test_gpt(self):
        np.random.default_rng(5).integers(0, 256, 20000).astype(np.uint16).tofile(self.path("tokens.bin"))
        self.run_words([f"{BIN}/example-gpt", "tokens.bin", "runs/cpp", "20"])
        want = ls._core._saved(self.path("runs/cpp/ckpt/step-20"))
        self.assertEqual(want[0], 20)
        for nproc in (1, 2, 3):
            self.ranks(nproc, f"{EXAMPLES}/gpt.py", "tokens.bin", f"runs/{nproc}", 20)
            self.assertEqual(ls._core._saved(self.path(f"runs/{nproc}/ckpt/step-20")), want)


if __name__ == "__main__":
    unittest.main()
