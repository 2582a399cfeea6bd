"""Ids of Lockstep's tokenizer beside those of the package `tokenizers` (pip install tokenizers numpy).

    check.py keep                        makes the tokenizers and cases of this folder anew
    check.py compare BUILD [FILES ...]   trains larger tokenizers on 5 MB of mixed text, or takes the named
                                         tokenizer.json files, and compares every id

Mixed text: what Debian has under /usr/share/doc, /usr/lib/python3 and /usr/share/i18n, lines of characters drawn
from all of Unicode 14, runs of white space, digits, emoji, and added tokens within words.
"""
import gzip, json, os, random, subprocess, sys, tempfile, time, unicodedata
import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def byte_level(pattern, specials, normalizer=None, **model):
    out = Tokenizer(models.BPE(**model))
    out.normalizer = normalizer
    if pattern:
        out.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        out.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    out.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return out, specials, alphabet


def characters(specials, metaspace, first="first"):
    out = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if metaspace:
        out.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=first)
        out.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                         decoders.Strip(" ", 1, 0)])
    else:
        out.normalizer = normalizers.Replace(" ", "▁")
        out.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        out.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return out, ["<unk>", "<s>", "</s>"] + specials + ["<0x%02X>" % b for b in range(256)], []


def legacy_llama(tokenizer):
    """Llama 2 as its first conversions have it: text in front and spaces by normalizers, no pre-tokenizer."""
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = None
    return tokenizer


def styles():
    return {
        "gpt2": byte_level(None, ["<|endoftext|>"]),
        "llama3": byte_level(LLAMA3, ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
                                      "<|end_header_id|>",
                                      "<|eot_id|>"], ignore_merges=True),
        "qwen": byte_level(QWEN, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], normalizers.NFC()),
        "llama2": characters([], True),
        "gemma": characters(["<bos>", "<eos>", "<pad>"], False),
    }


def trained(name, texts, vocab):
    tokenizer, specials, alphabet = styles()[name]
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=specials, initial_alphabet=alphabet,
                                  show_progress=False,
                                  max_token_length=24)
    if name == "llama2":  # whole texts without cuts would be trained on as single words
        tokenizer.train_from_iterator(texts, trainer)
        data = json.loads(tokenizer.to_str())
        data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
        tokenizer = legacy_llama(Tokenizer.from_str(json.dumps(data)))
    elif name == "gemma":
        kept = tokenizer.pre_tokenizer
        tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
        tokenizer.train_from_iterator(texts, trainer)
        tokenizer.pre_tokenizer = kept
        data = json.loads(tokenizer.to_str())
        data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
        tokenizer = Tokenizer.from_str(json.dumps(data))
    else:
        tokenizer.train_from_iterator(texts, trainer)
    if name == "llama3":
        tokenizer.post_processor = processors.Sequence(
            [processors.ByteLevel(trim_offsets=False),
             processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[
                 ("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))])])
    if name == "qwen":  # added tokens of every manner
        tokenizer.add_tokens([AddedToken(" fim ", normalized=False),
                              AddedToken("Straße", single_word=True, normalized=True),
                              AddedToken("<tool>", lstrip=True, rstrip=True, normalized=False)])
    if name == "llama2":
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def drawn(rng):
    """Lines that no corpus has."""
    # What Unicode 14 has, as PCRE2 10.42 and Python 3.11; the package's Oniguruma knows letters of 15 and 16, too.
    everything = [c for c in range(0x20, 0x3134F) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    spaces = " \t\n\r\v\f\u0085\u00a0\u1680\u2003\u2028\u202f\u3000\u180e\u200b"
    marks = ["<|endoftext|>", "<|im_start|>", "<|eot_id|>", "</s>", "<s>", " fim ", "Straße", "xStraße", "<tool>",
             " <tool> \n x",
             "<0x41>", "<unk>", "<eos>"]
    words = ["don't", "I'LL", "it'ſ", "we'Re", "naïve", "ﬁn", "Å", "e\u0301", "한국어", "각", "日本語", "שלום", "مرحبا",
             "नमस्ते",
             "1234567", "٣٤٥", "½", "Ⅻ", "x=y+1;", "//", "'''", "—", "🏳️‍🌈", "👨‍👩‍👧", "a" * 60, "=" * 70, "\n" * 5,
             " " * 40, "▁", "▁▁a", "Ġ"]
    while True:
        line = ""
        for _ in range(rng.randrange(1, 40)):
            kind = rng.randrange(8)
            if kind == 0: line += chr(rng.choice(everything))
            elif kind == 1: line += "".join(rng.choice(spaces) for _ in range(rng.randrange(1, 5)))
            elif kind == 2: line += rng.choice(marks)
            elif kind == 3: line += "".join(chr(rng.randrange(0x20, 0x7f)) for _ in range(rng.randrange(1, 12)))
            else: line += rng.choice(words) + rng.choice(["", " ", " ", "  ", "\n"])
        yield line


def corpus(size, seed=7):
    rng = random.Random(seed)
    files = []
    for root in ("/usr/share/doc", "/usr/lib/python3", "/usr/lib/python3.11", "/usr/share/i18n/locales",
                 "/usr/share/perl"):
        for folder, _, names in os.walk(root):
            files += [os.path.join(folder, n) for n in names
                      if n.endswith((".txt", ".md", ".py", ".html", ".rst", ".pod", ".pl", ".gz"))
                      or "locales" in folder]
    files.sort()
    rng.shuffle(files)
    out, held, lines = [], 0, drawn(rng)
    for path in files:
        if held >= size: break
        try:
            text = (gzip.open(path) if path.endswith(".gz") else open(path, "rb")).read(60000).decode("utf-8", "ignore")
        except OSError:
            continue
        text = text.replace("\0", "")
        if "i18n" in path:  # names of days and months in all languages
            text = text.encode().decode("utf-8", "ignore")
        at = rng.randrange(0, max(1, len(text) - 20000))
        out.append(text[at:at + 20000])
        held += len(out[-1].encode())
        while rng.random() < 0.9:
            out.append(next(lines))
            held += len(out[-1].encode())
    return out


def texts_for_keeping():
    rng, out = random.Random(11), ["", " ", "Hello world", " Hello  world \n\n a",
                                   "The quick brown fox doesn't jump over 12345 dogs."]
    lines = drawn(rng)
    return out + [next(lines) for _ in range(60)] + ["x" * 3 + " long " * 30]


def keep():
    texts = corpus(400_000, seed=3)
    cases = {"texts": texts_for_keeping(), "tokenizers": {}}
    for name in styles():
        tokenizer = trained(name, texts, 900)
        with open(os.path.join(HERE, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(json.loads(tokenizer.to_str()), file, ensure_ascii=False, separators=(",", ":"))
        rows = [tokenizer.encode(t, add_special_tokens=False).ids for t in cases["texts"]]
        around = tokenizer.encode("a").ids
        bare = tokenizer.encode("a", add_special_tokens=False).ids
        cases["tokenizers"][name] = {"ids": rows, "around": [around, bare],
                                     "decoded": [tokenizer.decode(r, skip_special_tokens=False) for r in rows]}
    with open(os.path.join(HERE, "cases.json"), "w", encoding="utf-8") as file:
        json.dump(cases, file, separators=(",", ":"))


def differing(build, name, path, texts, encode):
    """Of how many texts Lockstep's tokenizer of a file gives other ids than `encode`; prints it, and both paces."""
    began = time.time()
    theirs = [encode(text) for text in texts]
    seconds = time.time() - began
    joined = "\0".join(texts).encode()
    with tempfile.NamedTemporaryFile() as place:
        place.write(joined)
        place.flush()
        run = subprocess.run([os.path.join(build, "bin/tokenizer_ids"), path, place.name], capture_output=True)
    if run.returncode:
        print(name, "refused:", run.stderr.decode())
        return len(texts)
    flat = np.frombuffer(run.stdout, np.int32)
    ours = [part[:-1].tolist() for part in np.split(flat, np.flatnonzero(flat == -1) + 1)[:-1]]
    bad = [i for i in range(len(texts)) if i >= len(ours) or ours[i] != theirs[i]]
    print(f"{name}: {len(joined) / 1e6:.2f} MB, {sum(map(len, theirs))} tokens, {len(texts)} texts, {len(bad)} differ; "
          f"here {run.stderr.decode().strip()}, the package {len(joined) / 1e6 / seconds:.2f} MB/s", flush=True)
    for i in [i for i in bad if i < len(ours)][:3]:
        k = next((k for k, (a, b) in enumerate(zip(ours[i], theirs[i])) if a != b), -1)
        print("  text", i, "token", k, repr(texts[i][:80]), ours[i][k:k + 6], theirs[i][k:k + 6])
    return len(bad)


def ids_of(tokenizer):
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def compare(build, files):
    texts = corpus(5_000_000)
    wrong = sum(differing(build, os.path.basename(f), f, texts, ids_of(Tokenizer.from_file(f))) for f in files)
    with tempfile.TemporaryDirectory() as scratch:
        for name in [] if files else styles():
            path = os.path.join(scratch, name + ".json")
            trained(name, texts[:400], 12000).save(path)
            wrong += differing(build, name, path, texts, ids_of(Tokenizer.from_file(path)))
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["keep"]:
        keep()
    elif len(sys.argv) >= 3 and sys.argv[1] == "compare":
        sys.exit(compare(sys.argv[2], sys.argv[3:]))
    else:
        sys.exit(__doc__)
