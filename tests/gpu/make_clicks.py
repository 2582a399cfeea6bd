"""Arrays of clicks and the config of a model with four sparse tables, without NumPy: make_clicks.py FOLDER [DEVICE]"""
import array
import json
import pathlib
import random
import sys

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
draw = random.Random(3)
rows, samples, dense = [1000, 50000, 7, 300], 24576, 13


def npy(name, kind, code, shape, values):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (kind, tuple(shape))
    head += " " * (-(len(head) + 11) % 64) + "\n"
    (folder / name).write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode()
                                + array.array(code, values).tobytes())


numbers = [draw.gauss(0, 1) for _ in range(samples * dense)]
ids = [min(n - 1, int(n ** draw.random()) - 1 if n > 100 else draw.randrange(n)) for _ in range(samples) for n in rows]
clicks = [1 if numbers[i * dense] + numbers[i * dense + 1] + 0.3 * (ids[i * 4 + 2] - 3) + draw.gauss(0, 1) > 0 else 0
          for i in range(samples)]
npy("dense.npy", "<f4", "f", [samples, dense], numbers)
npy("categories.npy", "<i4", "i", [samples, len(rows)], ids)
npy("targets.npy", "<f4", "f", [samples, 1], clicks)
config = {"name": "clicks", "model": {"kind": "dlrm", "dense": dense, "rows": rows, "width": 16, "sparse": True},
          "data": {"kind": "arrays", "paths": [str(folder / n) for n in ("dense.npy", "categories.npy",
                                                                         "targets.npy")]},
          "batch": {"global": 2048, "micro": 128},
          "train": {"steps": 30, "seed": 7, "eval_every": 0, "device": sys.argv[2] if len(sys.argv) > 2 else "cuda"},
          "optim": {"kind": "sparse_adam", "lr": 1e-3, "clip": 1.0, "schedule": {"kind": "constant", "warmup": 2}},
          "checkpoint": {"every": 15, "keep": 3}, "log": {"every": 1, "hash_every": 10}}
(folder / "clicks.json").write_text(json.dumps(config, indent=1))
