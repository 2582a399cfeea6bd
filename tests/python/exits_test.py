"""How a rank's program ends: with a code, at a prompt, before the others."""
import subprocess
import sys
import unittest

from errors_test import STEP
from programs import Programs


class Exits(Programs):
    def test_sys_exit_keeps_its_code(self):
        file = self.write("program.py", STEP + "import sys\nsys.exit(3)\n")
        self.alone(file, code=3)
        said = self.ranks(2, file, code=1)
        self.assertIn("ProgramError: SystemExit: 3 (raised at program.py:14)", said)

    def test_one_rank_that_leaves(self):
        """By its code, with its line, and never restarted: it joins no barrier of the others."""
        rank = "import os, sys\nrank = int(os.environ.get('RANK', 0))\n"
        sample = ("def sample(i):\n    if i == 30:\n        {}\n    return np.ones(8, np.float32), np.ones(4, "
                  "np.float32)\n")
        train = ("ls.train(session, state, ls.SampleData(fields, sample), step, run='runs/r', steps=12, "
                 "global_batch=8, micro_batch=2)\n")
        for text, cause in (
            (sample.format("sys.exit(7)") + train, "ProgramError at step 4: SystemExit: 7 (raised at program.py:17)"),
            (sample.format("raise SystemExit(7)") + train,
             "ProgramError at step 4: SystemExit: 7 (raised at program.py:17)"),
            ("if rank == 1:\n    sys.exit('no such file')\n" + sample.format("pass") + train,
             "ProgramError: SystemExit: no such file (raised at program.py:16)"),
            ("if rank == 1:\n    sys.exit(-1)\n" + sample.format("pass") + train,
             "ProgramError: SystemExit: -1 (raised at program.py:16)"),
            ("if rank == 1:\n    raise SystemExit(7)\n" + sample.format("pass") + train,
             "ProgramError: the program ended with exit code 7"),
            ("if rank == 1:\n    raise KeyboardInterrupt\n" + sample.format("pass") + train,
             "ProgramError: KeyboardInterrupt (raised at program.py:16)"),
        ):
            with self.subTest(cause):
                said = self.ranks(2, self.write("program.py", rank + STEP + text), code=1)
                self.assertIn(f"root cause: rank 1: {cause}", said)
                self.assertNotIn("max-restarts", said)
        # One that comes to its end while the others go on.
        said = self.ranks(2, self.write("program.py", rank + STEP + "if rank == 1:\n    sys.exit()\n"
                                        + sample.format("pass") + train), code=75)
        self.assertIn("rank 1 left early: its program came to an end, and rank 0 started ", said)
        # A child of a rank is none.
        fork = "if os.fork() == 0:\n    sys.exit(5)\nos.wait()\n"
        self.state_of(self.ranks(2, self.write("program.py", rank + STEP + fork + sample.format("pass") + train)))

    def test_an_error_at_a_prompt_leaves_the_interpreter(self):
        lines = ("import lockstep as ls\nsession = ls.Session()\n1/0\nls.nothing\nraise "
                 "KeyboardInterrupt\nprint('still', 'here')\n")
        for words in ([sys.executable, "-i", "-q"], [sys.executable, "-c", "import code; code.interact()"]):
            done = subprocess.run(words, input=lines, cwd=self.folder.name, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, "still here" in done.stdout), (0, True), done.stdout + done.stderr)
            self.assertIn("ZeroDivisionError", done.stderr)


if __name__ == "__main__":
    unittest.main()
