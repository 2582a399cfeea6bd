"""Every block of docs/tutorial.md, in order, in one folder, and README's program in Python: what they say is what
happens."""
import collections
import os
import re
import subprocess
import sys
import tempfile
import unittest

BIN = os.environ["LOCKSTEP_BIN"]
TREE = os.path.dirname(os.environ["LOCKSTEP_EXAMPLES"])
PAGE = os.path.join(TREE, "docs", "tutorial.md")


class Tutorial(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lockstep-")
        self.addCleanup(self.folder.cleanup)
        self.environment = dict(os.environ, PATH=f"{BIN}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}")

    def run_block(self, words, text):
        done = subprocess.run(words, cwd=self.folder.name, env=self.environment, capture_output=True, text=True,
                              timeout=200)
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
        states = collections.Counter(re.findall(r"^step 60: state ([0-9a-f]{32})$", whole, re.M))
        self.assertEqual(sorted(states.values()), [1, 3], whole)  # that of `base`, and those of first, sharded, moved
        self.assertEqual(len(set(re.findall(r"^step 100: state ([0-9a-f]{32})$", whole, re.M))), 1, whole)
        for word in (
            "is 776 even? yes, it is.\n",
            "is 777 even? no, it is odd.\n",
            "\nyes, it is.\n",  # of the chat
            "right: 1.0\n",
            "events.out.tfevents",
            "trace-",
            "model.safetensors",
            "config.json",
            "'up.weight'",
            "the square of",
        ):
            self.assertIn(word, whole)

    def test_program_of_the_readme(self):
        with open(os.path.join(TREE, "README.md"), encoding="utf-8") as file:
            program = re.search(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)[1]
        with open(os.path.join(self.folder.name, "train.py"), "w", encoding="utf-8") as file:
            file.write(program)
        alone = self.run_block([sys.executable, "train.py"], program)
        os.rename(os.path.join(self.folder.name, "runs"), os.path.join(self.folder.name, "alone"))
        ranks = self.run_block([f"{BIN}/trainrun", "--nproc", "2", "train.py"], program)
        state = re.findall(r"^step 300: state ([0-9a-f]{32})$", alone, re.M)
        self.assertEqual(len(state), 1, alone)
        self.assertIn(f"step 300: state {state[0]}", ranks)
        self.assertLess(float(re.findall(r"^step 300/300  loss ([0-9.e-]+)", ranks, re.M)[0]), 0.5)

    # The site's pages, of which the API is read from all public headers: without the generator, which is fetched.
    def test_pages_of_the_site(self):
        out = os.path.join(self.folder.name, "pages")
        self.run_block([sys.executable, os.path.join(TREE, "scripts", "site_pages.py"), TREE, out, f"{BIN}/trainrun"],
                       "site_pages.py")
        with open(os.path.join(TREE, "mkdocs.yml"), encoding="utf-8") as file:
            pages = re.findall(r"^ +- .*: ([\w/]+\.md)$", file.read(), re.M)
        self.assertGreaterEqual(len(pages), 28)
        for page in pages:
            with open(os.path.join(out, page), encoding="utf-8") as file:
                text = file.read()
            self.assertGreater(len(text), 500, page)
            # comments of headers have lambdas
            prose = "" if page == "api.md" else re.sub(r"(?ms)^```.*?^```|`[^`]*`", "", text)
            for target in re.findall(r"\]\(([^)#\s]+)", prose):  # pictures and pages that the site has
                if not re.match(r"[a-z]+:", target):
                    self.assertTrue(os.path.exists(os.path.normpath(os.path.join(out, os.path.dirname(page), target))),
                                    f"{page}: {target}")


if __name__ == "__main__":
    unittest.main()
