"""scripts/make_data.py on small packages that the test makes: what is read, what is written, what is told."""
import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

import numpy as np

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "make_data.py")
TOKENIZERS = """
class Tokenizer:
    def __init__(self, model): pass
    def train_from_iterator(self, texts, trainer): self.texts = list(texts)
    def save(self, path): open(path, "w").write(repr(self.texts))
    @staticmethod
    def from_file(path): return Tokenizer(None)
    def token_to_id(self, token): return 999
    def encode_batch_fast(self, texts, add_special_tokens):  # a text's first two bytes
        assert add_special_tokens is False
        return [type("Encoding", (), {"ids": list(text.encode()[:2])}) for text in texts]
"""


class MakeData(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lockstep-data-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.packages = os.path.join(self.folder, "packages")
        os.makedirs(self.packages)

    def make(self, name, *options, code=0, **environment):
        done = subprocess.run(
            [sys.executable, SCRIPT, name, "--out", os.path.join(self.folder, "data"), "--packages", self.packages,
             *options],
            capture_output=True, text=True, env={**os.environ, **environment}, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def made(self, name):
        return os.path.join(self.folder, "data", name)

    def deb(self, name, files):
        """A package with `files`, {path: bytes}."""
        root = os.path.join(self.folder, name)
        for path, data in {"DEBIAN/control": f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: a "
                                             f"<a@b>\nDescription: a\n".encode(), **files}.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "wb") as file:
                file.write(data)
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root,
                        os.path.join(self.packages, f"{name}_1_all.deb")],
                       check=True, capture_output=True)

    def wheel(self, files):
        with zipfile.ZipFile(os.path.join(self.packages, "scikit_learn-1-cp311.whl"), "w") as archive:
            for name, data in files.items():
                archive.writestr(f"sklearn/datasets/data/{name}", data)

    def test_pictures_of_a_wheel(self):
        rows = [[i % 17 for i in range(64)] + [7], [16] * 64 + [0]]
        self.wheel({"digits.csv.gz": gzip.compress("\n".join(",".join(map(str, row)) for row in rows).encode())})
        self.assertIn("digits.npz: images f32[2, 1, 8, 8], labels i32[2] of 2 classes", self.make("digits"))
        made = np.load(self.made("digits.npz"))
        np.testing.assert_array_equal(made["images"].reshape(2, 64), np.array(rows, np.float32)[:, :64] / 16)
        np.testing.assert_array_equal(made["labels"], np.array([7, 0], np.int32))
        with open(self.made("digits.licence")) as file:
            self.assertEqual(file.read(), "scikit_learn-1-cp311.whl: BSD-3-Clause\n")

    def test_a_table(self):
        self.wheel({"breast_cancer.csv": "2,30,a,b\n" + ",".join(["1"] * 30 + ["0"]) + "\n"
                    + ",".join(["3"] * 30 + ["1"]) + "\n"})
        self.make("cancer")
        np.testing.assert_array_equal(np.load(self.made("cancer.npz"))["features"],
                                      np.array([[0] * 30, [1] * 30], np.float32))

    def test_pictures_of_a_package(self):
        def ubyte(header, values):
            return gzip.compress(b"\0" * header + bytes(values))

        at = "usr/share/datasets/fashion-mnist/"
        self.deb("dataset-fashion-mnist", {
            at + "train-images-idx3-ubyte.gz": ubyte(16, [255] * 784),
            at + "t10k-images-idx3-ubyte.gz": ubyte(16, [51] * 784),
            at + "train-labels-idx1-ubyte.gz": ubyte(8, [3]), at + "t10k-labels-idx1-ubyte.gz": ubyte(8, [9])})
        self.make("fashion")
        made = np.load(self.made("fashion.npz"))
        np.testing.assert_array_equal(made["images"][:, 0, 5, 5], np.array([1, 0.2], np.float32))
        np.testing.assert_array_equal(made["labels"], [3, 9])

    def texts(self):
        """Packages of `docs`, one with an archive of sources, and a module `tokenizers` that writes down what it is
        given."""
        inner = io.BytesIO()
        with tarfile.open(fileobj=inner, mode="w:xz") as sources:
            for name, data in (("Documentation/a.rst", b"alpha \xc3\xa9 " * 20), ("Documentation/b.rst", b"\xff" * 100),
                               ("Documentation/c.rst", b"zero\0" * 30), ("Documentation/short.rst", b"short"),
                               ("main.c", b"int x;" * 30)):
                member = tarfile.TarInfo("linux-source-6.1/" + name)
                member.size = len(data)
                sources.addfile(member, io.BytesIO(data))
        self.deb("linux-source-6.1", {"usr/src/linux-source-6.1.tar.xz": inner.getvalue()})
        self.deb("python3.11-doc", {"usr/share/doc/python3.11/html/_sources/x.rst.txt": b"alpha \xc3\xa9 " * 20})
        self.deb("git-doc", {"usr/share/doc/git-doc/git.txt": b"git " * 30,
                             "usr/share/doc/git-doc/git.html": b"html" * 30})
        module = os.path.join(self.folder, "module", "tokenizers")
        os.makedirs(module)
        with open(os.path.join(module, "__init__.py"), "w") as file:
            file.write(TOKENIZERS)
            file.write("class _Any:\n    def __getattr__(self, name): return lambda *a, **k: None\n"
                       "decoders = models = pre_tokenizers = trainers = _Any()\n"
                       "pre_tokenizers.__dict__['ByteLevel'] = type('ByteLevel', (), {'__init__': lambda self, **k: "
                       "None, 'alphabet': staticmethod(list)})\n")
        return os.path.dirname(module)

    def test_text(self):
        modules = self.texts()
        said = self.make("docs", PYTHONPATH=modules)
        self.assertIn("docs: 2 files in 1 of JSON lines, and tokenizer.json", said)
        with open(self.made("docs/000.jsonl"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(sorted(line.split('"source": ')[1] for line in lines),
                         ['"git-doc:usr/share/doc/git-doc/git.txt"}',
                          '"linux-source-6.1:linux-source-6.1/Documentation/a.rst"}'])
        self.assertTrue(any('"alpha é alpha é' in line for line in lines), lines)

    def test_tokens(self):
        modules = self.texts()
        self.assertIn("docs.bin: 6 tokens", self.make("docs", "--tokens", PYTHONPATH=modules))
        made = np.fromfile(self.made("docs.bin"), np.uint16).reshape(2, 3)
        with open(self.made("docs/000.jsonl"), encoding="utf-8") as file:
            starts = [json.loads(line)["text"][:2] for line in file]
        np.testing.assert_array_equal(made, [[*start.encode(), 999] for start in starts])
        self.assertIn("digits has no tokens; --tokens is for docs, code", self.make("digits", "--tokens", code=1))

    def test_what_is_missing(self):
        hidden = os.path.join(self.folder, "hidden", "tokenizers.py")
        os.makedirs(os.path.dirname(hidden))
        with open(hidden, "w") as file:
            file.write("raise ImportError\n")
        self.assertIn("make_data: docs wants the package tokenizers: pip install tokenizers",
                      self.make("docs", code=1, PYTHONPATH=os.path.dirname(hidden)))
        said = self.make("fashion", code=1, PATH="/nowhere")
        self.assertIn("make_data: apt-get: No such file or directory; put dataset-fashion-mnist into a folder "
                      "yourself, and name that by "
                      "--packages", said)


if __name__ == "__main__":
    unittest.main()
