// Tokenizer files that are not read: each refusal on its words.
#include "launcher/data/tokenizer/end_token.h"
#include "tests/error/tokenizer_refusals.h"

namespace lockstep::launcher::data {
namespace {

TEST_F(TokenizerErrors, TheSmallOneIsRead) {
  EXPECT_EQ(refusal(small()), "no error");
  EXPECT_EQ(Tokenizer(folder_.path("t.json")).encode("ab<end>b"), (std::vector<int32_t>{2, 3, 1}));
}

TEST_F(TokenizerErrors, FilesThatAreNone) {
  expect_words(refusal_of(folder_.path("no.json")), "data.tokenizer: cannot read " + folder_.path("no.json"));
  expect_words(refusal_of(folder_.path("no.json")),
               "name a tokenizer.json of Hugging Face, a tokenizer.model of SentencePiece, or bytes");
  expect_words(refusal_of(folder_.write("t.model", "no model")), "t.model is not a SentencePiece model");
  expect_words(refusal_of(folder_.write("t.model", "")), "t.model is not a SentencePiece model");
  expect_words(refusal_of(folder_.write("x.json", "{\"model\": ")),
               "x.json: line 1, column 11: this is not JSON: ");
  expect_words(refusal_of(folder_.write("x.json", "[]")), "holds array, and a tokenizer.json is an object");
  for (const char* name : {"p.json", "p.model"})
    expect_words(
        refusal_of(folder_.write(name, "version https://git-lfs.github.com/spec/v1\noid sha256:4d\n")),
        str(name, " is a pointer of git-lfs, and the file that it represents is not here; fetch it with"));
  std::string deep = "0";
  for (int i = 0; i < 70; ++i) deep = "[" + deep + "]";
  expect_words(refusal_of(folder_.write("x.json", "{\"a\": " + deep + "}")),
               "x.json: line 1, column 70: nested deeper than 64 lists and sections; name a tokenizer.json "
               "of Hugging Face, ");
  expect_words(refusal_of(folder_.write("x.json", "{}")),
               "\"model\" is not there, and should be an object; is this a tokenizer.json of Hugging Face?");
}

TEST_F(TokenizerErrors, Models) {
  expect_says(with("model/type", "WordLevel"),
              "model is WordLevel, and BPE (gpt2, llama, qwen, mistral, gemma), Unigram (t5, xlm-roberta, "
              "albert) and WordPiece (bert) are read: tokenize elsewhere, and use data.kind tokens");
  auto pieces = [&](const json& vocab, const char* unk) {
    json file = with(
        "model",
        {{"type", "WordPiece"}, {"vocab", vocab}, {"unk_token", unk}, {"continuing_subword_prefix", "##"}});
    file["added_tokens"] = json::array();
    return file;
  };
  EXPECT_EQ(refusal(pieces({{"[UNK]", 0}, {"a", 1}, {"##b", 2}}, "[UNK]")), "no error");
  EXPECT_EQ(Tokenizer(folder_.path("t.json")).encode("abb"), (std::vector<int32_t>{1, 2, 2}));
  EXPECT_EQ(Tokenizer(folder_.path("t.json")).encode("abc"), std::vector<int32_t>{0});
  expect_says(pieces({{"a", 1}}, "[UNK]"), "unk_token is [UNK], which its vocabulary does not have");
  expect_says(pieces({{"[UNK]", 0.5}}, "[UNK]"),
              "the token [UNK] has the id 0.5, which is none; ids are whole numbers");
  auto unigram = [&](const json& rows, const json& unk) {
    json file = with("model", {{"type", "Unigram"}, {"vocab", rows}, {"unk_id", unk}});
    file["added_tokens"] = json::array();
    return file;
  };
  const json rows = json::parse(R"([["<unk>", 0], ["a", -1.5]])");
  EXPECT_EQ(refusal(unigram(rows, 0)), "no error");
  EXPECT_EQ(Tokenizer(folder_.path("t.json")).encode("axya"), (std::vector<int32_t>{1, 0, 1}));
  expect_says(unigram(rows, 2), "model: unk_id is 2, and \"vocab\" has 2 rows");
  expect_says(unigram(json::parse(R"([["a", "b"]])"), 0),
              "model: the row 0 of \"vocab\" is [\"a\",\"b\"], and should be a token and a number");
  expect_says(unigram(json::array(), nullptr), "model: \"vocab\" is empty");
  EXPECT_EQ(refusal(unigram(rows, nullptr)), "no error");
  EXPECT_THROW(Tokenizer(folder_.path("t.json")).encode("ax"), UserError);
  expect_says(with("model/end_of_word_suffix", "</w>"),
              "model has \"end_of_word_suffix\": \"</w>\", which is not read");
  expect_says(with("model/dropout", 0.1),
              "model has \"dropout\": 0.1, which draws tokens at random; set it to null in the file");
  expect_says(with("model/vocab/c", -1), "the token c has the id -1, which is none; ids are whole numbers");
  expect_says(with("model/byte_fallback", true),
              "has \"byte_fallback\" and not all of <0x00> ... <0xFF> in its vocabulary");
  expect_says(with("model/unk_token", "<unk>"), "unk_token is <unk>, which its vocabulary does not have");
  expect_says(with("model/merges", {"a c"}),
              "merge 0 is \"a c\", and the vocabulary has no c; the file is cut short, or of two tokenizers");
  expect_says(with("model/merges", {"ab"}), "merge 0 is \"ab\", and should be two tokens");
  expect_says(with("model/merges", {"b a"}), "and the vocabulary has no ba");
  expect_says(with("model/vocab/c", 1 << 27),
              "the token c has the id 134217728, and ids up to 4194304 are read");
}

TEST_F(TokenizerErrors, Members) {
  expect_says(
      with("normalizer", {{"type", "ByteLevel"}}),
      "normalizer is ByteLevel, which is not read; NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace");
  for (const char* table : {"", "AAAA", "!", "BAAAAAA="})
    expect_says(with("normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", table}}),
                "normalizer: precompiled_charsmap is no table of SentencePiece; is the file whole?");
  expect_says(with("pre_tokenizer", {{"type", "UnicodeScripts"}}),
              "pre_tokenizer is UnicodeScripts, which is not read; ByteLevel, Split, Metaspace, Digits");
  expect_says(
      with("pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Kept"}}),
      "the behavior Kept is none of Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous");
  const json digits = {{"type", "Digits"}}, bytes = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
  expect_says(with("pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {digits, bytes}}}),
              "ByteLevel with add_prefix_space adds text after a pre-tokenizer that cuts");
  expect_says(
      with("pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}}),
      "prepend_scheme is last, none of always, first, never");
  expect_says(with("decoder", {{"type", "CTC"}}),
              "decoder is CTC, which is not read; ByteLevel, Metaspace, ByteFallback, Fuse, Replace");
  expect_says(with("post_processor", {{"type", "Odd"}}),
              "post_processor is Odd, which is not read; TemplateProcessing, RobertaProcessing");
  expect_says(with("added_tokens/0/id", 0.5), "added_tokens: \"id\" is 0.5, and should be a whole number");
  expect_says(with("added_tokens/0/id", -4), "added_tokens: <end> has the id -4, which is none");
  expect_says(with("added_tokens/0/id", 1 << 27), "the token <end> has the id 134217728, and ids up to");
  expect_says(with("added_tokens/0/content", "ab"),
              "added_tokens: ab has the id 3, and 2 in the vocabulary; the file is of two tokenizers");
}

// A member of another type is told with its name, whichever it is, and never a defect of ours.
TEST_F(TokenizerErrors, TypesOfMembers) {
  const json meta = {{"type", "Metaspace"}, {"replacement", "_"}};
  auto with_member = [](json of, const char* member, const json& value) {
    of[member] = value;
    return of;
  };
  auto list = [](const char* type, const char* member, const json& steps) {
    return json{{"type", type}, {member, steps}};
  };
  const json split = {{"type", "WhitespaceSplit"}};
  for (const json& value : {json(5), json(true), json::array(), json::object(), json(nullptr)}) {
    const json scheme = with_member(meta, "prepend_scheme", value);
    expect_says(with("pre_tokenizer", list("Sequence", "pretokenizers", {split, scheme})),
                "pre_tokenizer: \"prepend_scheme\" is ");
    expect_says(with("pre_tokenizer", scheme), "pre_tokenizer: \"prepend_scheme\" is ");
    expect_says(with("pre_tokenizer", with_member(meta, "replacement", value)), "\"replacement\" is ");
    expect_says(with("decoder", with_member(meta, "replacement", value)), "decoder: \"replacement\" is ");
    expect_says(with("pre_tokenizer/type", value), "\"type\" is ");
    expect_says(with("normalizer", {{"type", value}}), "normalizer: \"type\" is ");
    expect_says(with("post_processor", {{"type", value}}), "post_processor: \"type\" is ");
    expect_says(with("decoder", {{"type", value}}), "decoder: \"type\" is ");
    expect_says(with("added_tokens/0/content", value), "added_tokens: \"content\" is ");
  }
  expect_says(with("pre_tokenizer",
                   list("Sequence", "pretokenizers", {split, with_member(meta, "prepend_scheme", 5)})),
              "\"prepend_scheme\" is 5, and should be a text; is this a tokenizer.json of Hugging Face?");
  for (const json& value : {json(1), json("yes"), json::array()}) {
    for (const char* flag : {"special", "single_word", "lstrip", "rstrip", "normalized"})
      expect_says(with(str("added_tokens/0/", flag), value), str("added_tokens: \"", flag, "\" is "));
    for (const char* flag : {"byte_fallback", "fuse_unk", "ignore_merges"})
      expect_says(with(str("model/", flag), value), str("model: \"", flag, "\" is "));
    expect_says(with("pre_tokenizer", with_member(meta, "split", value)), "and should be true or false");
    expect_says(with("pre_tokenizer", {{"type", "Digits"}, {"individual_digits", value}}),
                "pre_tokenizer: \"individual_digits\" is ");
    expect_says(with("normalizer", {{"type", "BertNormalizer"}, {"lowercase", value}}),
                "normalizer: \"lowercase\" is ");
  }
  for (const char* text : {"", "ab", "__"})
    expect_says(with("pre_tokenizer", with_member(meta, "replacement", text)),
                str("\"replacement\" is \"", text, "\", and should be one character"));
  expect_says(with("decoder", {{"type", "Strip"}, {"content", ""}, {"start", 1}, {"stop", 0}}),
              "decoder: \"content\" is \"\", and should be one character");
  expect_says(with("added_tokens/0/id", uint64_t{1} << 63),
              "\"id\" is 9223372036854775808, and should be a whole");
  auto frame = [](const json& id) {
    return json{
        {"type", "TemplateProcessing"},
        {"single", {{{"SpecialToken", {{"id", "S"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}}}}}},
        {"special_tokens", {{"S", {{"ids", json::array({id})}}}}}};
  };
  EXPECT_EQ(refusal(with("post_processor", frame(3))), "no error");
  expect_says(with("post_processor", frame("x")),
              "post_processor: \"ids\" is \"x\", and should be a whole number");
  expect_says(with("post_processor", frame(-1)),
              "post_processor: \"ids\" is -1, and should be the id of a token");
  expect_says(with("post_processor", frame(4)),
              "post_processor: the id 4 is put around texts, and the file's ids end at 3; the file is of two "
              "tokenizers");
  json odd = frame(3);
  odd["single"].push_back(5);
  expect_says(with("post_processor", odd),
              "post_processor: \"Sequence\" is not there, and should be an object");
  expect_says(with("post_processor", {{"type", "BertProcessing"}, {"sep", {"a", 0, 1}}, {"cls", {"a", 0}}}),
              "\"sep\" is a list of 3, and should be a token and its id");
}

TEST_F(TokenizerErrors, Expressions) {
  auto cut = [&](const std::string& expression) {
    return with("pre_tokenizer",
                {{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}});
  };
  expect_says(cut("(a"), "pre_tokenizer: the expression (a is none: ");
  expect_says(cut("^a"), "the expression ^a has ^, which means lines; use a tokenizer whose expressions");
  expect_says(cut("\\ba"), "has \\b, which is not read");
  expect_says(cut("[a&&b]"), "intersects classes (&&)");
  expect_says(cut("[a[b]]"), "nests classes");
  expect_says(cut("[[:alpha"), "has a class that does not end");
  expect_says(cut("a{2}+"), "has }+, which two dialects read in two ways");
  expect_says(cut("a{2}?"), "has }? behind one number, which two dialects read in two ways");
  expect_says(cut("a{,2}"), "has {, , which two dialects read in two ways");
  expect_says(cut("\\pL"), "has \\p without a name in {}");
  expect_says(cut("\\p{Emoji}"),
              "has \\p{Emoji}, which is none of general categories, scripts and the classes of [: :]");
  expect_says(cut("[[:odd:]]"), "has [:odd:], which is not a class");
  expect_says(cut("\\xe9"), "has \\x of a byte from 80 on, which is no character of UTF-8; write \\x{..}");
  expect_says(cut("\\x{41"), "has \\x{ without its }");
  expect_says(cut("(*UTF)a"), "has (*, a verb of PCRE2");
  for (const char* group : {"(?R)?a", "(?C1)a", "(?P<n>a)", "(?&n)", "(?x) a"})
    expect_says(cut(group), str("has (?", std::string(1, group[2]), ", which is not read"));
  expect_says(cut("(?i:[\\p{Lu}a])"),
              "has a class of upper or lower case within brackets where case is ignored");
  // Letters that are several where case is ignored, and several that are one letter, however they are
  // written.
  for (const char* two : {"(?i:ss)", "(?i)(?:s)S", "(?i)s(?i:\u017f)", "(?i)\\x{73}\\x73"})
    expect_says(cut(two), "ignores the case of ss, which is one letter in other spellings");
  expect_says(cut("(?i)h\\x{331}"), "ignores the case of h\u0331, which is one letter in other spellings");
  expect_says(cut("(?i)\u02bcn"), "ignores the case of \u02bcn, which is one letter in other spellings");
  for (const char* one : {"(?i)a|\u00df", "(?i)[\u00df]", "(?i)\\x{df}", "(?i)[\\x{c0}-\u0100]",
                          "(?i)[\\p{L}]", "(?i)[\\w-]", "(?i)[[:alpha:]]"})
    expect_says(cut(one), "ignores the case of \u00df, which is ss in other spellings");
  for (const char* apart : {"(?i)[^\u00df]", "(?i)s[s]", "(?i)s|s", "(?i:s)|s(?-i:s)", "(?i)[a-s]+",
                            "(?i)[\\d\\s]", "\u00dfss", "(?i)\\p{L}+"})
    EXPECT_EQ(refusal(cut(apart)), "no error") << apart;
  for (const char* read : {"(?i)a(?-i:b)", "(?<n>a)", "(?<=a)b", "(?>a+)b", "(?i:'s|'t|'re|'ve|'m|'ll|'d)",
                           "a{2,3}?", "[\\P{L}\\p{Han}]"})
    EXPECT_EQ(refusal(cut(read)), "no error");
  EXPECT_EQ(refusal(cut("[^\\r\\n\\p{L}\\p{N}]?+\\p{Lu}+|\\s+(?!\\S)|[[:alpha:]]|[]a]|\\w{1,3}")),
            "no error");
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  auto behind_bytes = [&](const json& step) {
    return with("pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {bytes, step}}});
  };
  expect_says(behind_bytes(bytes), "has ByteLevel twice, which spells bytes of bytes; take one out");
  expect_says(behind_bytes({{"type", "Metaspace"}, {"replacement", "_"}}),
              "Metaspace adds text after a pre-tokenizer that cuts");
  json empty = cut("a");
  empty["pre_tokenizer"]["pattern"] = {{"String", ""}};
  expect_says(empty, "an empty text to split at");
}

// An expression that takes for ever on a text ends with words, not with a run that hangs.
TEST_F(TokenizerErrors, ExpressionThatFailsOnItsText) {
  json file = with("pre_tokenizer",
                   {{"type", "Split"}, {"pattern", {{"Regex", "(a+)+[bc]"}}}, {"behavior", "Isolated"}});
  const Tokenizer tokenizer(folder_.write("t.json", file.dump()));
  try {
    tokenizer.encode(std::string(40, 'a') + "d");
    ADD_FAILURE() << "no error";
  } catch (const UserError& error) { expect_words(error.what(), "an expression failed on the text: "); }
}

TEST_F(TokenizerErrors, Texts) {
  const Tokenizer tokenizer(folder_.write("t.json", small().dump()));
  auto error = [&](const std::string& text) -> std::string {
    try {
      tokenizer.encode(text);
    } catch (const UserError& error) { return error.what(); }
    return "no error";
  };
  expect_words(error("abc"),
               "has no token for \"c\", no unk_token and no byte_fallback; use a tokenizer that");
  expect_words(error("ab\xff"), "the text is not UTF-8 from byte 2 on; write it as UTF-8 (iconv -t utf-8)");
}

TEST_F(TokenizerErrors, OfData) {
  folder_.write("t.json", small().dump());
  DataOptions options{.paths = {folder_.write("a.txt", "abababab")},
                      .tokenizer = folder_.path("t.json"),
                      .vocab = 4,
                      .context = 2};
  EXPECT_EQ(data_refusal(options), "no error");
  options.vocab = 3;
  expect_words(data_refusal(options), str("model.vocab is 3, and ", folder_.path("t.json"),
                                          " (data.tokenizer) has 4 ids; set model.vocab to 4 or more, as to "
                                          "the next multiple of 64, 64"));
  options.vocab = 4, options.eos = "<stop>";
  expect_words(data_refusal(options), "data.eos is \"<stop>\", and " + folder_.path("t.json") +
                                          " has no such token; name one that it has, auto or none");
  options.eos = "<end>";
  EXPECT_EQ(data_refusal(options), "no error");
  folder_.write("a.txt", "abab\xc3(");
  expect_words(data_refusal(options),
               "a.txt is not UTF-8 at byte 4, and a tokenizer reads UTF-8; convert it "
               "(iconv -t utf-8), or train on its bytes with data.tokenizer bytes");
}

}  // namespace
}  // namespace lockstep::launcher::data
