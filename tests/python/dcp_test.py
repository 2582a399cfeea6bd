"""Folders of torch.distributed.checkpoint: what convert_dcp writes of tests/golden/dcp, and what it refuses."""
import json
import os
import pickle
import shutil
import unittest

import lockstep as ls
import numpy as np

from programs import EXAMPLES, Programs

GOLDEN = os.path.join(EXAMPLES, "..", "tests", "golden", "dcp")
KEPT, VIEWS = os.path.join(GOLDEN, "kept"), os.path.join(GOLDEN, "views")


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
        self.assertEqual(sorted(ls.convert_dcp(KEPT, out, prefix="model.")),
                         ["count", "down.weight", "up.bias", "up.weight"])
        made = tensors(out)
        self.assertEqual(made["up.weight"], ("F32", [5, 3], counted(5, 3).tobytes()))
        self.assertEqual(made["down.weight"], ("F32", [2, 6], counted(2, 6).tobytes()))
        self.assertEqual(made["up.bias"], ("BF16", [3], (counted(3).view(np.uint32) >> 16).astype(np.uint16).tobytes()))
        self.assertEqual(made["count"], ("I64", [], np.int64(7).tobytes()))
        self.assertFalse(os.path.exists(out + ".part"))

    def test_views_are_written_as_what_they_show(self):
        out, x = self.path("views.safetensors"), counted(12)
        with self.assertWarns(UserWarning) as warned:
            ls.convert_dcp(VIEWS, out)
        self.assertIn("holds tensors of int8, int16 or complex64, which other tools read and Lockstep leaves: ",
                      str(warned.warning))
        for name in ("int8", "int16", "complex64"):
            self.assertIn(name, str(warned.warning))
        made = tensors(out)
        strided = np.lib.stride_tricks.as_strided(x[1:], (4, 3), (8, 4))
        for name, want in {
            "transposed": counted(3, 4).T,
            "channels_last": counted(2, 3, 2, 2),
            "expanded": np.broadcast_to(counted(3, 1), (3, 4)),
            "scalar_expanded": np.full((2, 2), 1.5, np.float32),
            "part": counted(4, 6)[1:, ::2],
            "overlapping": strided,
            "empty": x[:0],
        }.items():
            self.assertEqual(made[name], ("F32", list(want.shape), np.ascontiguousarray(want).tobytes()), name)
        self.assertEqual(made["int8"], ("I8", [4], np.arange(-2, 2, dtype=np.int8).tobytes()))
        self.assertEqual(made["int16"], ("I16", [3, 2], np.arange(6, dtype=np.int16).reshape(2, 3).T.tobytes()))
        self.assertEqual(made["bool"], ("BOOL", [2], b"\1\1"))
        self.assertEqual(made["bf16"],
                         ("BF16", [3, 2],
                          np.ascontiguousarray((counted(2, 3).view(np.uint32) >> 16).astype(np.uint16).T).tobytes()))
        self.assertEqual(made["float8"], ("F8_E4M3", [4], bytes((0xC0, 0xBF, 0xBE, 0xBD))))
        self.assertEqual(made["complex64"], ("C64", [1], np.array([1 + 2j], np.complex64).tobytes()))
        # What Lockstep has no dtype for spoils itself alone.
        program = self.write("read.py", """
            state = ls.State(ls.Session().mesh)
            state.root.parameter("part", [3, 3], ls.init.zeros())
            ls.load_weights(state, "views.safetensors", partial=True)
            state.materialize()
            print("part", state.array("part").tolist())
        """)
        self.assertIn(f"part {counted(4, 6)[1:, ::2].tolist()}", self.alone(program))

    def test_views_out_of_their_storage(self):
        from lockstep import dcp

        storage = np.zeros(6, "V4")
        for offset, shape, stride, words in (
            (0, (2, 4), (3, 1), "a tensor of shape [2, 4] with strides [3, 1] from element 0 on ends at element 6, and "
                                "its storage has 6"),
            (6, (), (), "from element 6 on ends at element 6, and its storage has 6"),
            (2**62, (2,), (2**62,), "and its storage has 6"),
            (0, (2, 3), (-3, 1), "a tensor has offset 0, shape [2, 3] and strides [-3, 1], which are none"),
            (-1, (2,), (1,), "which are none"),
            (0, (2,), (1, 1), "which are none"),
        ):
            with self.assertRaises(ls.UserError) as caught:
                dcp._strided(storage, offset, shape, stride, "w")
            self.assertIn(words, str(caught.exception))
        self.assertEqual(dcp._strided(storage, 5, (1, 1), (100, 100), "w").shape, (1, 1))  # a size of 1 takes no step
        self.assertEqual(dcp._strided(storage, 9, (0, 3), (3, 1), "w").shape, (0, 3))

    def test_a_file_behind_a_link_is_not_written(self):
        with open(self.path("theirs"), "w", encoding="utf-8") as file:
            file.write("kept")
        os.symlink("theirs", self.path("m.safetensors.part"))
        ls.convert_dcp(KEPT, self.path("m.safetensors"), prefix="model.")
        with open(self.path("theirs"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "kept")
        self.refused("would be __metadata__, a name that safetensors files keep for themselves",
                     names=lambda name: "__metadata__")

    def test_names_are_chosen(self):
        out = self.path("model.safetensors")
        made = ls.convert_dcp(KEPT, out, names=lambda name: name.replace("model.up", "layer") if "up." in name
                              else None)
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
        self.refused(f"holds {os.system.__module__}.system, which is no part of a checkpoint's tensors; it is not read",
                     folder=folder)
        self.assertFalse(os.path.exists("stolen"))


if __name__ == "__main__":
    unittest.main()
