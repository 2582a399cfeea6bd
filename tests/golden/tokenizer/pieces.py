"""Models of SentencePiece and Unigram models of tokenizer.json: see check.py
(pip install sentencepiece==0.1.97 protobuf==3.20.3 tokenizers numpy). Of SentencePiece the version of Debian's
library: others add scores in another order, and choose otherwise among equal ones.

    pieces.py keep            makes those of this folder anew: *.model, unigram.json, words.json, pieces.json
    pieces.py compare BUILD   trains larger ones on 5 MB of mixed text, and compares every id
"""
import io, json, os, sys, tempfile, unicodedata
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from check import HERE, corpus, differing, ids_of, texts_for_keeping

# A table of normal forms that is small enough to be kept: some of NFKC, and white space.
RULES = {
    text: unicodedata.normalize("NFKC", text)
    for text in [
        *"\ufb01\u00bd\u216b\u212b\u017f\uff21\u2460\u3000\u00a0",
        "e\u0301",
        "A\u030a",
        "\u1100\u1161\u11a8",
    ]
}
RULES |= {"\t": " ", "\n": " ", "\u200b": ""}


def rules(folder):
    path = os.path.join(folder, "rules.tsv")
    with open(path, "w", encoding="utf-8") as file:
        for text, by in RULES.items():
            file.write(" ".join("%X" % ord(c) for c in text) + "\t" + " ".join("%X" % ord(c) for c in by) + "\n")
    return path


def known(text):
    """Without characters that are younger than Unicode 3.2: tokenizers has tables of several versions."""
    return "".join(c for c in text if unicodedata.ucd_3_2_0.category(c) != "Cn")


def styles(folder=None):
    """Options of SentencePiece's trainer; `folder`: with the small table."""
    small = {"normalization_rule_tsv": rules(folder)} if folder else {"normalization_rule_name": "nmt_nfkc"}
    return {
        "sp_unigram": dict(
            model_type="unigram", user_defined_symbols=["<|im_start|>", "<|im_end|>", "<tool>"], **small
        ),
        "sp_bytes": dict(
            model_type="bpe",
            byte_fallback=True,
            split_digits=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True,
        ),
        "sp_plain": dict(model_type="unigram", byte_fallback=True, add_dummy_prefix=False, **small),
    }


def trained(texts, vocab, options, coverage=0.9995):
    out = io.BytesIO()
    lines = [line for text in texts for line in text.split("\n") if line.strip()]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=out,
        vocab_size=vocab,
        minloglevel=2,
        hard_vocab_limit=False,
        character_coverage=coverage,
        max_sentence_length=20000,
        **options,
    )
    proto = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    proto.normalizer_spec.ClearField("normalization_rule_tsv")  # where the table lay
    return proto.SerializeToString()


def as_json(model, words, byte_fallback=False):
    """A Unigram model as tokenizer.json, as transformers' converters write it: t5 and, `words`, xlm-roberta."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    out = Tokenizer(
        models.Unigram([(p.piece, p.score) for p in proto.pieces], proto.trainer_spec.unk_id, byte_fallback)
    )
    table = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    mark = pre_tokenizers.Metaspace(prepend_scheme="always")
    if words:
        out.normalizer = table
        out.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), mark])
    else:
        out.normalizer = normalizers.Sequence([normalizers.Strip(left=False, right=True), table,
                                               normalizers.Replace(Regex(" {2,}"), "▁")])
        out.pre_tokenizer = mark
    out.decoder = decoders.Metaspace(prepend_scheme="always")
    out.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return out


def albert(tokenizer):
    """Its normalizers, which take accents off and write all letters small."""
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Nmt(),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    return tokenizer


def jsons(made):
    return {"unigram": as_json(made["sp_unigram"], False), "words": as_json(made["sp_unigram"], True),
            "accents": albert(as_json(made["sp_plain"], False, byte_fallback=True))}


def keep():
    texts, said = corpus(400_000, seed=3), [known(text) for text in texts_for_keeping()]
    cases = {"texts": said, "tokenizers": {}}
    with tempfile.TemporaryDirectory() as folder:
        made = {name: trained(texts, 1200, options, 0.99) for name, options in styles(folder).items()}
    for name, model in made.items():
        with open(os.path.join(HERE, name + ".model"), "wb") as file:
            file.write(model)
        sp = sentencepiece.SentencePieceProcessor(model_proto=model)
        rows = [sp.encode(t) for t in said]
        cases["tokenizers"][name + ".model"] = {
            "ids": rows,
            "decoded": [sp.decode(r) for r in rows],
            "around": [sp.encode("a")] * 2,
        }
    for name, tokenizer in jsons(made).items():
        with open(os.path.join(HERE, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(json.loads(tokenizer.to_str()), file, ensure_ascii=False, separators=(",", ":"))
        rows = [tokenizer.encode(t, add_special_tokens=False).ids for t in said]
        cases["tokenizers"][name + ".json"] = {
            "ids": rows, "decoded": [tokenizer.decode(r, skip_special_tokens=False) for r in rows],
            "around": [tokenizer.encode("a").ids, tokenizer.encode("a", add_special_tokens=False).ids]}
    with open(os.path.join(HERE, "pieces.json"), "w", encoding="utf-8") as file:
        json.dump(cases, file, separators=(",", ":"))


def compare(build):
    every = corpus(5_000_000)
    of_all = [known(text) for text in every]
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        made = {name: trained(every[:400], 8000, options) for name, options in styles().items()}
        for name, model in made.items():
            path = os.path.join(scratch, name + ".model")
            open(path, "wb").write(model)
            encode = sentencepiece.SentencePieceProcessor(model_proto=model).encode
            wrong += differing(build, name, path, every, encode)
        for name, tokenizer in jsons(made).items():
            path = os.path.join(scratch, name + ".json")
            tokenizer.save(path)
            wrong += differing(build, name, path, of_all, ids_of(tokenizer))
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["keep"]:
        keep()
    elif len(sys.argv) == 3 and sys.argv[1] == "compare":
        sys.exit(compare(sys.argv[2]))
    else:
        sys.exit(__doc__)
