"""Classes of characters as the engines of the package `tokenizers` have them, over all of Unicode.

  python3 classes.py keep     writes classes.json beside this file: where each pre-tokenizer cuts a text of all
                              characters
  python3 classes.py table    writes launcher/data/tokenizer/unicode_table.cpp: what Oniguruma matches

Needs tokenizers (0.23.3). A cut is kept as the number of pieces and a hash of where they begin and end, in characters.
"""
import json, os, sys
from tokenizers import Regex, normalizers as N, pre_tokenizers as P

HERE = os.path.dirname(os.path.abspath(__file__))
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
SCRIPTS = """Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali
Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham
Cherokee Chorasmian Coptic Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan
Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic Garay Georgian Glagolitic Gothic Grantha Greek Gujarati
Gunjala_Gondi Gurmukhi Gurung_Khema Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic
Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kawi Kayah_Li Kharoshthi
Khitan_Small_Script Khmer Khojki Khudawadi Kirat_Rai Lao Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian
Mahajani Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui
Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean Nag_Mundari Nandinagari
New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Ol_Onal Old_Hungarian Old_Italic
Old_North_Arabian Old_Permic Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya
Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada
Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese Sunuwar Syloti_Nagri Syriac Tagalog
Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Todhri
Toto Tulu_Tigalari Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square""".split()
ALL = [c for c in range(0x110000) if not 0xd800 <= c <= 0xdfff]

# Characters that Unicode has given out, and those between them, but for planes of private use.
CHARACTERS = [c for c in ALL if c < 0x33480 or 0xe0000 <= c < 0xe0200]
TEXTS = {"alone": ["".join(map(chr, CHARACTERS[i:i + 1024])) for i in range(0, len(CHARACTERS), 1024)],
         "in words": ["".join("a" + chr(c) for c in CHARACTERS[i:i + 512]) + "a"
                      for i in range(0, len(CHARACTERS), 512)]}
EXPRESSIONS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| "
              r"?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
             r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
             r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
             r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
             r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "han": r"[\p{Han}\p{Hiragana}\p{Katakana}]+|\p{Latin}+|\p{P}|\p{S}",
}


def split(expression):
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}


def described():
    out = {name: {"type": name} for name in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer")}
    out["Punctuation"] = {"type": "Punctuation", "behavior": "Isolated"}
    out["Digits"] = {"type": "Digits", "individual_digits": False}
    out["Digits, each"] = {"type": "Digits", "individual_digits": True}
    out["ByteLevel"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    for name, expression in EXPRESSIONS.items(): out[name] = split(expression)
    classes = [r"\w", r"\W", r"[\w]", r"[^\w]", r"[\W]", r"[\w-]", r"\d", r"\D", r"\s", r"\S", r"[\S]", r"[\P{L}\d]",
               r"\p{^L}", r"(?i:\p{Lu})",
               r"(?i:[a-z])", r"\v", r"\p{Word}", r"\p{Punct}", r"\p{Alphabetic}", r"\p{lowercase letter}", r"\p{LC}"]
    classes += ["[[:%s:]]" % name for name in "alpha alnum digit punct upper lower space graph print cntrl xdigit word "
                                              "blank ascii ^alpha".split()]
    classes += [r"\p{%s}" % name for name in CATEGORIES + list("LMNPSZC") + ["Cn"]]
    classes += [r"\p{%s}" % name for name in "Han Hiragana Katakana Hangul Thai Arabic Cyrillic Greek Latin Hebrew "
                                             "Devanagari Kawi".split()]
    for one in classes: out[one] = split(one + "+")
    return out


def normalizers():
    """Each as the file has it, and as the package."""
    out = {name: ({"type": name}, getattr(N, name)())
           for name in "NFC NFD NFKC NFKD Lowercase StripAccents Nmt Strip".split()}
    for name, flags in {"BERT": (True, True, True, True), "BERT, cleaned": (True, False, False, False),
                        "BERT, Chinese": (False, True, False, False),
                        "BERT, accents": (False, False, True, False)}.items():
        members = dict(zip(("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"), flags))
        out[name] = ({"type": "BertNormalizer", **members}, N.BertNormalizer(*flags))
    return out


def normal(normalizer):
    """FNV-1a over what becomes of each character, between a and b and at the ends."""
    value = 0xcbf29ce484222325
    for c in CHARACTERS:
        for byte in (normalizer.normalize_str("a" + chr(c) + "b") + normalizer.normalize_str(chr(c)) + ",").encode():
            value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return f"{value:016x}"


def cuts(tokenizer, texts):
    """Of all pieces: how many, and FNV-1a over "begin-end," of each."""
    pieces, value = 0, 0xcbf29ce484222325
    for text in texts:
        for _, (begin, end) in tokenizer.pre_tokenize_str(text):
            pieces += 1
            for byte in f"{begin}-{end},".encode():
                value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return [pieces, f"{value:016x}"]


def made(one):
    name, rest = one["type"], {k: v for k, v in one.items() if k not in ("type", "trim_offsets")}
    if name == "Split": return P.Split(Regex(one["pattern"]["Regex"]), "isolated", False)
    if name == "Punctuation": return P.Punctuation("isolated")
    return getattr(P, name)(**rest)


def keep():
    out = {}
    for name, one in described().items():
        whole = not name.startswith(("\\", "[", "("))  # classes by themselves: one text will do
        out[name] = {"pre_tokenizer": one,
                     **{text: cuts(made(one), TEXTS[text]) for text in (TEXTS if whole else ["alone"])}}
    for name, (one, theirs) in normalizers().items(): out[name] = {"normalizer": one, "hash": normal(theirs)}
    with open(os.path.join(HERE, "classes.json"), "w") as file:
        file.write("{" + ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in out.items()) + "}\n")


def matched(cutter):
    """The characters that an expression of one character matches, or that a pre-tokenizer removes."""
    if isinstance(cutter, str): cutter = P.Split(Regex(cutter), "removed")
    out = set()
    for at in range(0, len(ALL), 2048):
        part, left = ALL[at:at + 2048], set()
        for _, (begin, end) in cutter.pre_tokenize_str("".join(map(chr, part))): left.update(range(begin, end))
        out.update(c for i, c in enumerate(part) if i not in left)
    return out


def ranges(points):
    out = []
    for c in sorted(points):
        if out and c == out[-1][1] + 1: out[-1][1] = c
        else: out.append([c, c])
    return [f"{a:x}-{b:x}" if a != b else f"{a:x}" for a, b in out]


def wrapped(items, separator=" "):
    lines, line = [], ""
    for item in items:
        if len(line) + len(item) + 1 > 100: lines.append(line); line = ""
        line += item + separator
    return "\n".join(f'    "{one}"' for one in lines + [line]) + ";\n"


def table():
    category = {c: name for name in CATEGORIES for c in matched(r"\p{%s}" % name)}
    category |= {c: "Cs" for c in range(0xd800, 0xe000)}
    runs = []
    for c in range(max(category) + 1):
        name = category.get(c, "Cn")
        if runs and runs[-1][1] == name: runs[-1][0] += 1
        else: runs.append([1, name])
    letters = matched(r"\p{L}") | matched(r"\p{Nl}")
    ours = matched(r"\p{P}") | set(map(ord, "$+<=>^`|~"))
    gone = matched(P.Punctuation("removed"))
    def removed(normalizer): return {c for c in ALL if normalizer.normalize_str("a" + chr(c) + "b") == "ab"}
    marks, nonspacing = removed(N.StripAccents()), removed(N.BertNormalizer(False, False, True, False))
    scripts = []
    for name in sorted(SCRIPTS):
        scripts += [name] + ranges(matched(r"\p{%s}" % name))
        scripts[-1] += ";"
    tables = {"kCategoryRuns": wrapped([(str(n) if n > 1 else "") + name for n, name in runs], ""),
              "kAlphabeticBesideLetters": wrapped(ranges(matched(r"\p{Alphabetic}") - letters)),
              "kLowercaseBesideLetters": wrapped(ranges(matched(r"\p{Lowercase}") - matched(r"\p{Ll}"))),
              "kUppercaseBesideLetters": wrapped(ranges(matched(r"\p{Uppercase}") - matched(r"\p{Lu}"))),
              "kPunctuationOfLaterUnicode": wrapped(ranges(ours - gone)),
              "kMarksOfLaterUnicode": wrapped(ranges(matched(r"\p{M}") - marks)),
              "kNonspacingOfLaterUnicode": wrapped(ranges(matched(r"\p{Mn}") - nonspacing)),
              "kScripts": wrapped(scripts)}
    with open(os.path.join(HERE, "../../../launcher/data/tokenizer/unicode_table.cpp"), "w") as file:
        file.write("// Unicode 16 as data: made by tests/golden/tokenizer/classes.py of what the package `tokenizers` "
                   "0.23 matches.\n" + '#include "launcher/data/tokenizer/unicode_table.h"\n\nnamespace '
                                  'lockstep::launcher::data {\n\n')
        file.write("\n".join(f"const char* const {name} =\n{text}" for name, text in tables.items()))
        file.write("\n}  // namespace lockstep::launcher::data\n")


if __name__ == "__main__":
    if sys.argv[1:] not in (["keep"], ["table"]): sys.exit(__doc__)
    keep() if sys.argv[1] == "keep" else table()
