"""Every block of docs/tutorial.md, in order, in one folder: what it says is what happens."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

BIN = os.environ["LOCKSTEP_BIN"]
PAGE = os.path.join(os.path.dirname(os.environ["LOCKSTEP_EXAMPLES"]), "docs", "tutorial.md")


class Tutorial(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lockstep-")
        self.addCleanup(self.folder.cleanup)
        self.environment = dict(os.environ, PATH=f"{BIN}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}")

    def run_block(self, words, text):
        done = subprocess.run(words, cwd=self.folder.name, env=self.environment, capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, f"{text}\n{done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr

    def test_every_block(self):
        with open(PAGE, encoding="utf-8") as file:
            blocks = re.findall(r'^```(\w+)(?: title="(\S+)")?\n(.*?)^```$', file.read(), re.M | re.S)
        self.assertGreaterEqual(len(blocks), 12)
        said = {}
        for number, (language, name, text) in enumerate(blocks):
            if name:
                with open(os.path.join(self.folder.name, name), "w", encoding="utf-8") as file:
                    file.write(text)
            elif language == "sh":
                said[number] = self.run_block(["bash", "-euo", "pipefail", "-c", text], text)
            else:
                self.assertEqual(language, "python")
                said[number] = self.run_block([sys.executable, "-c", text], text)
        whole = "\n".join(said.values())
        # The states that the page calls equal, and what it says is to be seen.
        states = dict(re.findall(r"^step 60: state ([0-9a-f]{32})$()", whole, re.M))
        self.assertEqual(len(states), 1, whole)
        self.assertEqual(len(re.findall(r"^step 60: state", whole, re.M)), 3, whole)
        self.assertEqual(len(set(re.findall(r"^step 100: state ([0-9a-f]{32})$", whole, re.M))), 1, whole)
        for word in (
            "is 776 even? yes, it is.\n",
            "is 777 even? no, it is odd.\n",
            "events.out.tfevents",
            "trace-",
            "model.safetensors",
            "config.json",
            "'up.weight'",
            "the square of",
        ):
            self.assertIn(word, whole)


if __name__ == "__main__":
    unittest.main()
