"""The stubs that type checkers read. A build with sanitizers has none: no such module loads without its runtime."""
import os
import unittest

import lockstep as ls


class Stubs(unittest.TestCase):
    def test_words(self):
        with open(os.path.join(os.path.dirname(ls.__file__), "_core.pyi"), encoding="utf-8") as file:
            stubs = file.read()
        for words in ("def softmax(x: Tensor", "class AdamW(Optimizer)", "def compile(state: State", "mode: Literal["):
            self.assertIn(words, stubs)
        self.assertNotIn("lockstep::", stubs)
        compile(stubs, "_core.pyi", "exec")


if __name__ == "__main__":
    unittest.main()
