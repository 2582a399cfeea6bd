// Tokenizer: text to ids and back. For tokenizer.json it gives the ids of the package `tokenizers`, for
// tokenizer.model those of `sentencepiece`.
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
  // gemma), Unigram (t5, xlm-roberta, albert) and WordPiece (bert), of a tokenizer.json; a path ending in
  // .model is a SentencePiece model of any type. UserError naming the file, the member and the way out for
  // anything unsupported.
  explicit Tokenizer(const std::string& path);
  struct Impl;

  // Ids of a text, including added tokens. For a text in several parts also the part in which each token
  // begins, and whether it has a byte of a `learnt` part (one flag per part; empty: none is). UserError
  // naming the byte from which a part is not UTF-8.
  std::vector<int32_t> encode(std::string_view text) const;
  struct Token {
    int32_t id;
    int part;
    bool learnt;
  };
  std::vector<Token> encode_parts(std::span<const std::string> parts,
                                  const std::vector<bool>& learnt = {}) const;

  // The frame that the file's post_processor adds: <s>, <|begin_of_text|>. For tokenizer.model, the one of a
  // tokenizer_config.json next to it (add_bos_token, add_eos_token).
  const std::vector<int32_t>& before() const;
  const std::vector<int32_t>& behind() const;

  // The frame of two texts. BERT distinguishes them by a segment, 0 or 1 (token_type_ids).
  struct Frame {
    struct Part {
      std::vector<int32_t> ids = {};
      int32_t segment = 0;
    };
    Part before = {}, between = {}, behind = {};
    int32_t first = 0, second = 1;  // segments of the texts
  };
  const std::optional<Frame>& pair_frame() const;  // nullopt: the file has no frame for two texts

  std::string decode(std::span<const int32_t> ids) const;  // special tokens as their names
  std::optional<int32_t> id(std::string_view token) const;
  std::string token(int32_t id) const;  // in the file's spelling; "" for none
  bool special(int32_t id) const;
  int64_t ids() const;  // the largest id + 1: the minimum of model.vocab
  const std::string& path() const;
  const std::string& fingerprint() const;  // of the file's bytes

 private:
  std::shared_ptr<const Impl> impl_;
};

// The first byte that is not UTF-8; nullopt for valid UTF-8.
std::optional<size_t> not_utf8_at(std::string_view text);

}  // namespace lockstep::launcher::data
