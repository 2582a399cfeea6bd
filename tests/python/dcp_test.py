"""Folders of torch.distributed.checkpoint: what convert_dcp writes of tests/golden/dcp, and what it refuses."""
import json
import os
import pickle
import shutil
import unittest

import lockstep as ls
import numpy as np

from programs import EXAMPLES, Programs

KEPT = os.path.join(EXAMPLES, "..", "tests", "golden", "dcp", "kept")


def counted(*shape):
    return (np.arange(np.prod(shape), dtype=np.float32) / 8 - 2).reshape(shape)


def tensors(path):
    """dtype, shape and bytes of each tensor of a safetensors file."""
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    return {name: (t["dtype"], t["shape"], body[slice(*t["data_offsets"])]) for name, t in header.items()}


class Malice:
    def __reduce__(self):
        return os.system, ("touch stolen",)


class Dcp(Programs):
    def refused(self, words, folder=KEPT, **options):
        with self.assertRaises(ls.UserError) as caught:
            ls.convert_dcp(folder, self.path("out.safetensors"), **options)
        self.assertIn(words, str(caught.exception))
        self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith("out.")], [])

    def copied(self):
        shutil.copytree(KEPT, self.path("copy"))
        return self.path("copy")

    def test_pieces_become_tensors(self):
        out = self.path("model.safetensors")
        self.assertEqual(sorted(ls.convert_dcp(KEPT, out, prefix="model.")), ["count", "down.weight", "up.bias", "up.weight"])
        made = tensors(out)
        self.assertEqual(made["up.weight"], ("F32", [5, 3], counted(5, 3).tobytes()))
        self.assertEqual(made["down.weight"], ("F32", [2, 6], counted(2, 6).tobytes()))
        self.assertEqual(made["up.bias"], ("BF16", [3], (counted(3).view(np.uint32) >> 16).astype(np.uint16).tobytes()))
        self.assertEqual(made["count"], ("I64", [], np.int64(7).tobytes()))
        self.assertFalse(os.path.exists(out + ".part"))

    def test_names_are_chosen(self):
        out = self.path("model.safetensors")
        made = ls.convert_dcp(KEPT, out, names=lambda name: name.replace("model.up", "layer") if "up." in name else None)
        self.assertEqual(sorted(made), ["layer.bias", "layer.weight"])
        self.assertEqual(tensors(out)["layer.weight"][1], [5, 3])
        self.refused("would both be x", names=lambda name: "x")

    def test_what_is_not_one(self):
        self.refused("has no .metadata, so it is no folder of torch.distributed.checkpoint", folder=self.folder.name)
        self.refused("no tensor's name begins with 'modle.'; it has model.", prefix="modle.")
        folder = self.copied()
        with open(os.path.join(folder, "__1_0.distcp"), "r+b") as file:
            file.truncate(900)
        self.refused("__1_0.distcp at ", folder=folder)
        os.remove(os.path.join(folder, "__1_0.distcp"))
        self.refused("No such file", folder=folder)
        with open(os.path.join(folder, ".metadata"), "wb") as file:
            file.write(b"not a pickle")
        self.refused("cannot be read as a checkpoint of torch.distributed.checkpoint", folder=folder)

    def test_nothing_of_a_pickle_is_run(self):
        folder = self.copied()
        with open(os.path.join(folder, ".metadata"), "wb") as file:
            pickle.dump({"state_dict_metadata": Malice()}, file)
        before = os.getcwd()
        os.chdir(self.folder.name)
        self.addCleanup(os.chdir, before)
        self.refused(f"holds {os.system.__module__}.system, which is no part of a checkpoint's tensors; it is not read", folder=folder)
        self.assertFalse(os.path.exists("stolen"))


if __name__ == "__main__":
    unittest.main()
