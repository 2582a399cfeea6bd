"""Small tokenizers whose expressions match nothing between characters, or whose letters stand for bytes, with the ids
of the package: writes cuts.json beside this file. Needs tokenizers (0.23.3).
"""
import json, os
from tokenizers import Regex, Tokenizer, decoders, models, normalizers as N, pre_tokenizers as P

BEHAVIOURS = ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]
EMPTY = [r"(?=(\d{3})+(?!\d))", r"(?=\d)", r"(?<=\d)(?=\d)", r"x*", r"(?=x)|x", r"(?!x)", r"\d*?", r"(?:)"]
TEXTS = ["", "1234567", "12345", "1234", "axxbé12x", "x", "é", "日本 12xx3", "hello world\n", " é²½ 1x\t", "Hello, 日本"]
BYTES = P.ByteLevel(add_prefix_space=False)
LETTERS = P.ByteLevel(add_prefix_space=False, use_regex=False)


def of_pieces(normalizer, pre_tokenizer, made):
    """A tokenizer that has a token for each piece of the texts, and for letters of some."""
    pieces = {}
    for text in TEXTS:
        normal = normalizer.normalize_str(text) if normalizer else text
        for piece, _ in pre_tokenizer.pre_tokenize_str(normal) if pre_tokenizer else [(normal, None)]:
            pieces.setdefault(piece)
    out = Tokenizer(made(list(pieces)))
    if normalizer: out.normalizer = normalizer
    if pre_tokenizer: out.pre_tokenizer = pre_tokenizer
    return out


def word_pieces(pieces):
    return models.WordPiece({piece: i for i, piece in enumerate(dict.fromkeys(["[UNK]"] + pieces))}, unk_token="[UNK]")


def few_word_pieces(pieces):
    return word_pieces(pieces[::2] + ["##" + piece[1:] for piece in pieces[1::2]] + [piece[:1] for piece in pieces])


def unigrams(pieces):
    letters = sorted(set("".join(pieces)) - set("xÃ"))
    rows = dict.fromkeys(pieces[::2] + letters)
    return models.Unigram([("<unk>", 0.0)] + [(piece, -1.0 - i / 64) for i, piece in enumerate(rows) if piece], 0,
                          False)


def merges(pieces):
    letters = sorted(P.ByteLevel.alphabet())
    return models.BPE(vocab={letter: i for i, letter in enumerate(letters + ["12", "34", "1234"])},
                      merges=[("1", "2"), ("3", "4"), ("12", "34")])


def tokenizers():
    for expression in EMPTY:
        for behaviour in BEHAVIOURS:
            for invert in (False, True):
                yield None, P.Split(Regex(expression), behaviour, invert), word_pieces
        yield N.Replace(Regex(expression), "_"), None, word_pieces
    groups = P.Split(Regex(EMPTY[0]), "isolated")
    yield None, P.Sequence([P.Whitespace(), groups]), word_pieces
    yield None, P.Sequence([groups, LETTERS]), merges
    # Falcon's order: Digits cuts at letters that stand for bytes.
    falcon = P.Sequence([P.Punctuation("contiguous"), BYTES, P.Digits(False),
                         P.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    for pre_tokenizer in (BYTES, LETTERS, falcon, P.Sequence([LETTERS, P.Whitespace()])):
        for model in (word_pieces, few_word_pieces, unigrams, merges):
            yield None, pre_tokenizer, model


def keep():
    out = {"texts": TEXTS, "tokenizers": []}
    for normalizer, pre_tokenizer, model in tokenizers():
        one = of_pieces(normalizer, pre_tokenizer, model)
        if normalizer: one.decoder = decoders.Replace(Regex(r"(?=x)"), "-")
        rows = [one.encode(text).ids for text in TEXTS]
        out["tokenizers"].append({"file": json.loads(one.to_str()), "ids": rows,
                                  "decoded": [one.decode(row) for row in rows]})
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "cuts.json"), "w", encoding="utf-8") as file:
        file.write('{"texts": ' + json.dumps(out["texts"]) + ',\n"tokenizers": [\n')
        file.write(",\n".join(json.dumps(one, separators=(",", ":")) for one in out["tokenizers"]) + "]}\n")


if __name__ == "__main__":
    keep()
