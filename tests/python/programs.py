"""Python programs under trainrun, each in a folder of its own."""
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

BIN, EXAMPLES = os.environ["LOCKSTEP_BIN"], os.environ["LOCKSTEP_EXAMPLES"]
BEGIN = """
import numpy as np
import lockstep as ls
"""


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lockstep-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(BEGIN.lstrip() + textwrap.dedent(text))
        return self.path(name)

    def run_words(self, words, code=0):
        """Standard output and error of a command, which ends with `code`."""
        done = subprocess.run(words, cwd=self.folder.name, capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr

    def alone(self, program, *arguments, code=0):
        return self.run_words([sys.executable, program, *map(str, arguments)], code)

    def ranks(self, nproc, program, *arguments, code=0):
        return self.run_words([f"{BIN}/trainrun", "--nproc", str(nproc), program, *map(str, arguments)], code)

    def state_of(self, output):
        """The hash that the last line of a training run tells."""
        found = re.findall(r"^step \d+: state ([0-9a-f]{32})$", output, re.M)
        self.assertTrue(found, output)
        return found[-1]
