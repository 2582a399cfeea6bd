// A tokenizer of a file: text to ids and back. Of tokenizer.json the ids that the package `tokenizers` gives,
// of tokenizer.model those of `sentencepiece`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::launcher::data {

class Tokenizer {
 public:
  // BPE over bytes (gpt2, llama 3, qwen) or over characters with a fallback to bytes (llama 2, mistral,
  // gemma), Unigram (t5, xlm-roberta, albert) and WordPiece (bert), of a tokenizer.json; what ends with
  // .model is a model of SentencePiece, of any type. UserError naming the file, the member and the way out
  // for what is not read.
  explicit Tokenizer(const std::string& path);
  struct Impl;

  // Ids of a text, added tokens found in it; of one that stands in several parts, with the part that each
  // token begins in, and whether it holds a byte of a part that is `learnt` (a flag for each part; none: no
  // part is). UserError naming the byte from which a part is not UTF-8.
  std::vector<int32_t> encode(std::string_view text) const;
  struct Token {
    int32_t id;
    int part;
    bool learnt;
  };
  std::vector<Token> encode_parts(std::span<const std::string> parts,
                                  const std::vector<bool>& learnt = {}) const;

  // What the file's post_processor puts around a text: <s>, <|begin_of_text|>. Of tokenizer.model what a
  // tokenizer_config.json beside it asks for (add_bos_token, add_eos_token).
  const std::vector<int32_t>& before() const;
  const std::vector<int32_t>& behind() const;

  // What it puts around two texts. A segment, 0 or 1, is what BERT tells them apart by (token_type_ids).
  struct Frame {
    struct Part {
      std::vector<int32_t> ids = {};
      int32_t segment = 0;
    };
    Part before = {}, between = {}, behind = {};
    int32_t first = 0, second = 1;  // segments of the texts
  };
  const std::optional<Frame>& pair_frame() const;  // none: the file says nothing of two texts

  std::string decode(std::span<const int32_t> ids) const;  // special tokens as their names
  std::optional<int32_t> id(std::string_view token) const;
  std::string token(int32_t id) const;  // as the file spells it; "" for none
  bool special(int32_t id) const;
  int64_t ids() const;  // the largest id + 1: what model.vocab must be at least
  const std::string& path() const;
  const std::string& fingerprint() const;  // of the file's bytes

 private:
  std::shared_ptr<const Impl> impl_;
};

// The byte at which a text ceases to be UTF-8; nothing where it is UTF-8.
std::optional<size_t> not_utf8_at(std::string_view text);

}  // namespace lockstep::launcher::data
