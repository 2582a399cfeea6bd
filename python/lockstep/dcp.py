"""Converts checkpoints of torch.distributed.checkpoint to a safetensors file, which train.init_from reads. It does not
need PyTorch and calls nothing that a pickle names: it reads descriptions of tensors and refuses any other name."""
import collections
import io
import json
import os
import pickle
import warnings
import zipfile

from . import _core

# dtypes by PyTorch's names: safetensors' name, and bytes of an element.
_DTYPES = {"float64": ("F64", 8), "float32": ("F32", 4), "bfloat16": ("BF16", 2), "float16": ("F16", 2),
           "int64": ("I64", 8), "int32": ("I32", 4), "int16": ("I16", 2), "int8": ("I8", 1), "uint8": ("U8", 1),
           "bool": ("BOOL", 1), "uint16": ("U16", 2), "uint32": ("U32", 4), "uint64": ("U64", 8),
           "float8_e4m3fn": ("F8_E4M3", 1), "float8_e5m2": ("F8_E5M2", 1), "complex64": ("C64", 8)}
# These are not converted: such a tensor is refused if it is selected.
_OTHERS = {"complex32", "complex128", "qint8", "quint8", "qint32", "quint4x2", "float8_e4m3fnuz", "float8_e5m2fnuz",
           "float8_e8m0fnu"}
# Safetensors files support them, but Lockstep's tensors do not.
_UNREAD = {"I8", "I16", "C64"}
_STORAGES = {"DoubleStorage": "float64", "FloatStorage": "float32", "BFloat16Storage": "bfloat16",
             "HalfStorage": "float16", "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16",
             "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64"}
_RECORDS = {"Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "TensorProperties", "ChunkStorageMetadata",
            "MetadataIndex", "_StorageInfo", "StorageMeta", "_MEM_FORMAT_ENCODING", "PosixPath", "PurePosixPath"}


class _Record:
    """Replaces any class of a pickle: only holds its state."""

    def __new__(cls, *args):
        made = super().__new__(cls)
        made.args = args
        return made

    def __init__(self, *args):
        pass

    def __setstate__(self, state):
        if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
            state = state[1]
        self.__dict__.update(state if isinstance(state, dict) else {"state": state})


def _refuse(where, what):
    raise _core.UserError(f"[dcp] {where}: {what}")


class _Unpickler(pickle.Unpickler):
    def __init__(self, data, where):
        super().__init__(io.BytesIO(data))
        self.where = where

    def find_class(self, module, name):
        if module == "torch" and (name in _DTYPES or name in _OTHERS):
            return name
        if name == "UntypedStorage" and module in ("torch", "torch.storage"):
            return name
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        if (module, name) == ("torch", "Size"):
            return tuple
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch.serialization", "_get_layout"):
            return str
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, size, stride, grad=None, hooks=None, bits=None: self.view(
                storage[0], storage, offset, size, stride, bits)
        if (module, name) == ("torch._utils", "_rebuild_tensor_v3"):
            return lambda storage, offset, size, stride, grad, hooks, dtype, bits=None: self.view(
                dtype, storage, offset, size, stride, bits)
        if name in _RECORDS and (module.startswith("torch.distributed.checkpoint.") or module.startswith("pathlib")):
            return _Record
        _refuse(self.where, f"holds {module}.{name}, which is no part of a checkpoint's tensors; it is not read, since "
                            "a pickle can run anything")

    def persistent_load(self, pid):
        kind, dtype, key, *_ = pid
        if kind != "storage" or dtype not in _DTYPES and dtype != "UntypedStorage":
            _refuse(self.where, f"holds a {kind} of {dtype}, which is not read")
        return dtype, str(key)

    def view(self, dtype, storage, offset, size, stride, bits):
        if dtype not in _DTYPES:
            _refuse(self.where, f"holds a tensor of {dtype}, which is not read")
        if bits:
            _refuse(self.where, f"holds a tensor with {', '.join(bits)} set, whose numbers are not those that are "
                                "stored: save it as tensor.resolve_neg().resolve_conj()")
        return (dtype, storage[1]), offset, tuple(size), tuple(stride)


def _unpickled(data, where):
    try:
        return _Unpickler(data, where).load()
    except _core.UserError:
        raise
    except Exception as error:
        said = f"[dcp] {where} cannot be read as a checkpoint of torch.distributed.checkpoint: {error}"
        raise _core.UserError(said) from None


def _strided(storage, offset, shape, stride, where):
    """The elements of a view of a storage in any memory order: transposed, channels_last, expanded,
    overlapping."""
    import numpy

    numbers = [offset, *shape, *stride]
    if len(shape) != len(stride) or not all(type(n) is int and n >= 0 for n in numbers):
        _refuse(where, f"a tensor has offset {offset}, shape {list(shape)} and strides {list(stride)}, which are none")
    if 0 in shape:
        return numpy.empty(shape, storage.dtype)
    last = offset + sum((n - 1) * step for n, step in zip(shape, stride))
    if last >= len(storage):
        _refuse(where, f"a tensor of shape {list(shape)} with strides {list(stride)} from element {offset} on ends at "
                       f"element {last}, and its storage has {len(storage)}")
    size = storage.dtype.itemsize
    return numpy.lib.stride_tricks.as_strided(storage[offset:], shape, [step * size for step in stride],
                                              writeable=False)


def _stored_tensor(data, where):
    """The dtype and the elements, in order, of a tensor that torch.save wrote."""
    import numpy

    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        names = archive.namelist()
        root = names[0].split("/")[0]
        read = lambda name: archive.read(f"{root}/{name}")
        head = read("data.pkl")
    except (zipfile.BadZipFile, KeyError, IndexError) as error:
        raise _core.UserError(f"[dcp] {where} is no tensor that torch.save wrote: {error}") from None
    if f"{root}/byteorder" in names and read("byteorder") != b"little":
        _refuse(where, "its bytes are not little-endian")
    made = _unpickled(head, where)
    if not isinstance(made, tuple) or len(made) != 4:
        _refuse(where, "is no tensor")
    (dtype, key), offset, shape, stride = made
    size = _DTYPES[dtype][1]
    if f"{root}/data/{key}" not in names:
        _refuse(where, f"holds no storage {key} of its tensor")
    raw = read(f"data/{key}")
    return dtype, _strided(numpy.frombuffer(raw[:len(raw) // size * size], f"V{size}"), offset, shape, stride, where)


def _assembled(folder, fqn, entry, pieces):
    """The bytes of a tensor, from all its pieces."""
    import numpy

    dtype, shape = entry.properties.state[0], tuple(entry.size)
    size = _DTYPES[dtype][1]
    whole, filled = numpy.zeros(shape, f"V{size}"), 0
    for chunk in entry.chunks:
        offsets, sizes = tuple(chunk.offsets), tuple(chunk.sizes)
        info = pieces.get((fqn, offsets))
        if info is None:
            _refuse(folder, f"{fqn} has a piece at {list(offsets)} that no file holds")
        path = os.path.join(folder, info.relative_path)
        where = f"{path} at {info.offset} ({fqn})"
        if os.path.basename(info.relative_path) != info.relative_path:
            _refuse(folder, f"{fqn} is in {info.relative_path}, outside of the folder")
        try:
            with open(path, "rb") as file:
                file.seek(info.offset)
                data = file.read(info.length)
        except OSError as error:
            _refuse(folder, f"{fqn}: {error}")
        got, elements = _stored_tensor(data, where)
        if got != dtype or elements.shape != sizes:
            _refuse(where, f"is {got}{list(elements.shape)}, and the metadata says {dtype}{list(sizes)}")
        whole[tuple(slice(o, o + n) for o, n in zip(offsets, sizes))] = elements
        filled += int(numpy.prod(sizes))
    if filled != whole.size:
        _refuse(folder, f"{fqn} has {filled} elements in its pieces, of {whole.size}")
    return whole.tobytes()


def _opened_new(path, flags):
    """Opens a new file that replaces a file or a link, whose target does not change."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    return os.open(path, flags | os.O_EXCL | os.O_NOFOLLOW, 0o666)


def _taken(tensors, prefix, names, path):
    """The tensors to convert: (FQN, entry) by the name to write."""
    taken = {}
    for fqn, entry in tensors.items():
        name = fqn[len(prefix):] if fqn.startswith(prefix) else None
        if name and names:
            name = names(name)
        if not name:
            continue
        if name == "__metadata__":
            _refuse(path, f"{fqn} would be __metadata__, a name that safetensors files keep for themselves; names= "
                          "gives it another one")
        if name in taken:
            _refuse(path, f"{fqn} and {taken[name][0]} would both be {name}")
        if entry.properties.state[0] not in _DTYPES:
            _refuse(path, f"{fqn} is {entry.properties.state[0]}, which is not read; names= leaves it out")
        taken[name] = (fqn, entry)
    if not taken:
        _refuse(path, f"no tensor's name begins with {prefix!r}; it has "
                      f"{', '.join(list(tensors)[:8])}{', ...' if len(tensors) > 8 else ''}")
    return taken


def _header(taken):
    """The header of a safetensors file of these tensors, without its length."""
    header, at = {}, 0
    for name, (fqn, entry) in taken.items():
        dtype, size = _DTYPES[entry.properties.state[0]]
        count = size
        for n in entry.size:
            count *= n
        header[name] = {"dtype": dtype, "shape": list(entry.size), "data_offsets": [at, at + count]}
        at += count
    text = json.dumps(header).encode()
    return text + b" " * (-len(text) % 8)


def convert_dcp(folder, out, prefix="", names=None):
    """Writes the tensors of a torch.distributed.checkpoint folder to a safetensors file, one at a time; returns their
    names.

    prefix: only names with it are converted, and it is removed. names: a function of a name that gives the one to
    write, or None to leave the tensor out. train.init_from reads the file by FQN. With Hugging Face's names and its
    config.json in the same folder, import-hf reads it. A view is written as its elements. Tensors of int8, int16 and
    complex64, which no tensor of Lockstep has, are written as they are for other tools, and a warning names them.
    """
    folder, out = os.fspath(folder), os.fspath(out)
    path = os.path.join(folder, ".metadata")
    if not os.path.exists(path):
        _refuse(folder, "has no .metadata, so it is no folder of torch.distributed.checkpoint")
    with open(path, "rb") as file:
        metadata = _unpickled(file.read(), path)
    try:
        tensors = {fqn: entry for fqn, entry in metadata.state_dict_metadata.items() if hasattr(entry, "chunks")}
        pieces = {(at.fqn, tuple(at.offset)): info for at, info in metadata.storage_data.items()
                  if getattr(at, "offset", None) is not None}
    except AttributeError as error:
        raise _core.UserError(f"[dcp] {path} is no metadata of torch.distributed.checkpoint: {error}") from None
    taken = _taken(tensors, prefix, names, path)
    text = _header(taken)
    try:
        with open(out + ".part", "xb", opener=_opened_new) as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name, (fqn, entry) in taken.items():
                file.write(_assembled(folder, fqn, entry, pieces))
        os.replace(out + ".part", out)
    finally:
        if os.path.exists(out + ".part"):
            os.remove(out + ".part")
    other = [name for name, (fqn, entry) in taken.items() if _DTYPES[entry.properties.state[0]][0] in _UNREAD]
    if other:
        warnings.warn(f"[dcp] {out} holds tensors of int8, int16 or complex64, which other tools read and Lockstep "
                      f"leaves: {', '.join(other[:8])}{', ...' if len(other) > 8 else ''}; names= leaves them "
                      "out", stacklevel=2)
    return list(taken)
