"""Pairs of texts as the package `tokenizers` puts them in rows (pip install tokenizers).

    pairs.py keep    makes pairs.json anew: ids and segments of pairs, whole and cut to several lengths (longest_first)
"""
import json, os, sys
from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
PAIRS = [["the option", "python"], ["the version of the file is new", "it"],
         ["a", "and the default is not the name of it"],
         ["start with the function", "return the error to the list"],
         ["one two three", "the same in the end, and more of it"]]
ROBERTA = {"type": "RobertaProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2], "trim_offsets": True,
           "add_prefix_space": False}
LENGTHS = [6, 7, 8, 9, 12, 13, 40]


def keep():
    rows = []
    for name, roberta in (("bert.json", False), ("bert_cased.json", False), ("bert_cased.json", True)):
        with open(os.path.join(HERE, name), encoding="utf-8") as file:
            described = json.load(file)
        if roberta:
            described["post_processor"] = ROBERTA
        tokenizer = Tokenizer.from_str(json.dumps(described))
        for length in LENGTHS:
            tokenizer.enable_truncation(length, strategy="longest_first")
            for first, second in PAIRS:
                made = tokenizer.encode(first, second)
                rows.append({"tokenizer": name, "roberta": roberta, "context": length, "text": first,
                             "text_pair": second, "ids": made.ids, "segments": made.type_ids})
    with open(os.path.join(HERE, "pairs.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["keep"]:
        sys.exit(__doc__)
    keep()
