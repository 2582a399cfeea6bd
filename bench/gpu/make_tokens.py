#!/usr/bin/env python3
"""Makes a token file from text at hand: python3 make_tokens.py --out data/tokens.bin [--tokens N] [--vocab 50304]
FOLDER_OR_FILE ...

Pieces are words (with the blank before them), numbers, runs of white space and single signs. The ids 0 to 255 are
bytes; the ids after them are the most frequent pieces of the text taken, most frequent first, ties by the piece itself.
A piece that has no id is written as its bytes, so every text can be read back. A document ends with byte 0.

Documents are the files below the arguments that are UTF-8 text (*.gz is unpacked), each content once, in order of the
hash of their content: the same files give the same bytes, whatever their names and folders. Format: int32[256] header
with 20240520, version 1 and the number of tokens; then uint16 tokens, little-endian. Standard library alone."""
import argparse
import array
import collections
import gzip
import hashlib
import os
import re
import struct
import sys

MAGIC, BYTES = 20240520, 256
PIECE = re.compile(r" ?[^\W\d_]+| ?[0-9]{1,3}|\s+|.", re.DOTALL)


def text_of(path):
    """The text of a file, or None: not readable, not text, or less than 64 characters."""
    try:
        with open(path, "rb") as file:
            data = file.read(16 << 20)
        if path.endswith(".gz"):
            data = gzip.decompress(data)
        text = data.decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError, ValueError):
        return None
    except Exception as error:  # zlib.error has no common base with the others
        if type(error).__name__ != "error":
            raise
        return None
    return text if len(text) >= 64 and "\0" not in text else None


def files_of(paths):
    for path in paths:
        if os.path.isfile(path):
            yield path
        elif os.path.isdir(path):
            for folder, folders, names in os.walk(path):
                folders.sort()
                yield from (os.path.join(folder, name) for name in sorted(names)
                            if os.path.isfile(os.path.join(folder, name)))
        else:
            sys.exit(f"make_tokens: {path} does not exist; name folders or files with text")


def documents(paths, budget):
    """{hash: text}, in order of the hash; reading stops when `budget` characters are there."""
    found, taken = {}, 0
    for path in files_of(paths):
        if os.path.islink(path) or taken >= budget:
            continue
        text = text_of(path)
        if text is None:
            continue
        key = hashlib.blake2b(text.encode(), digest_size=16).digest()
        if key not in found:
            found[key] = text
            taken += len(text)
    return [found[key] for key in sorted(found)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--tokens", type=int, default=19_000_000,
                        help="at most this many; the default is a file of 36 MiB")
    parser.add_argument("--vocab", type=int, default=50304, help="ids are below this, 257 to 65536")
    parser.add_argument("paths", nargs="+")
    options = parser.parse_args()
    if not BYTES < options.vocab <= 65536:
        sys.exit(f"make_tokens: --vocab is {options.vocab}; it must be from 257 to 65536 (uint16 ids, 256 of them for "
                 "bytes)")

    texts = documents(options.paths, 6 * options.tokens)
    counts = collections.Counter()
    for text in texts:
        counts.update(PIECE.findall(text))
    ranked = sorted((piece for piece, n in counts.items() if n > 1 and len(piece.encode()) > 1),
                    key=lambda piece: (-counts[piece], piece))
    ids = {piece: (BYTES + i,) for i, piece in enumerate(ranked[: options.vocab - BYTES])}
    tokens, used = array.array("H"), 0
    for text in texts:
        if len(tokens) >= options.tokens:
            break
        used += 1
        for piece in PIECE.findall(text):
            known = ids.get(piece)
            if known is None:
                known = ids[piece] = tuple(piece.encode())
            tokens.extend(known)
        tokens.append(0)
    del tokens[options.tokens :]
    if not tokens:
        sys.exit("make_tokens: no text among " + " ".join(options.paths))
    if sys.byteorder == "big":
        tokens.byteswap()
    os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
    with open(options.out, "wb") as file:
        file.write(struct.pack("<256i", MAGIC, 1, len(tokens), *([0] * 253)))
        tokens.tofile(file)
    digest = hashlib.blake2b(tokens.tobytes(), digest_size=8).hexdigest()
    print(f"{options.out}: {len(tokens)} tokens of {used} documents, {len(set(tokens))} ids in use, hash {digest}")


main()
