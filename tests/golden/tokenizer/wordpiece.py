"""WordPiece models of tokenizer.json, as BERT's: see check.py (pip install tokenizers numpy).

    wordpiece.py keep            makes those of this folder anew: bert.json, bert_cased.json, wordpiece.json
    wordpiece.py compare BUILD   trains larger ones on 5 MB of mixed text, and compares every id
"""
import json, os, sys, tempfile
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from check import HERE, corpus, differing, ids_of
from pieces import known

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def trained(texts, vocab, cased):
    out = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    out.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    out.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    out.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=vocab, special_tokens=SPECIALS,
                                                             show_progress=False,
                                                             limit_alphabet=vocab // 4))
    ends = [(name, out.token_to_id(name)) for name in ("[SEP]", "[CLS]")]
    out.post_processor = (processors.BertProcessing(*ends) if cased else processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends))
    out.decoder = decoders.WordPiece(cleanup=not cased)
    return out


def styles(texts, vocab):
    return {"bert": trained(texts, vocab, False), "bert_cased": trained(texts, vocab, True)}


def keep():
    with open(os.path.join(HERE, "pieces.json"), encoding="utf-8") as file:
        said = json.load(file)["texts"]
    cases = {"texts": said, "tokenizers": {}}
    for name, tokenizer in styles([known(text) for text in corpus(400_000, seed=3)], 900).items():
        with open(os.path.join(HERE, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(json.loads(tokenizer.to_str()), file, ensure_ascii=False, separators=(",", ":"))
        rows = [tokenizer.encode(t, add_special_tokens=False).ids for t in said]
        cases["tokenizers"][name + ".json"] = {
            "ids": rows, "decoded": [tokenizer.decode(r, skip_special_tokens=False) for r in rows],
            "around": [tokenizer.encode("a").ids, tokenizer.encode("a", add_special_tokens=False).ids]}
    with open(os.path.join(HERE, "wordpiece.json"), "w", encoding="utf-8") as file:
        json.dump(cases, file, separators=(",", ":"))


def compare(build):
    every, wrong = [known(text) for text in corpus(5_000_000)], 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, tokenizer in styles(every[:400], 8000).items():
            path = os.path.join(scratch, name + ".json")
            tokenizer.save(path)
            wrong += differing(build, name, path, every, ids_of(tokenizer))
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["keep"]:
        keep()
    elif len(sys.argv) == 3 and sys.argv[1] == "compare":
        sys.exit(compare(sys.argv[2]))
    else:
        sys.exit(__doc__)
