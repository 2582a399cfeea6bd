// TokenizerKind: the interface of the two implementations of Tokenizer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/data/tokenizer/marked_text.h"
#include "launcher/data/tokenizer/tokenizer.h"

namespace lockstep::launcher::data {

struct Tokenizer::Impl {
  virtual ~Impl() = default;
  // Appends the tokens of a UTF-8 text.
  virtual void encode(MarkedText text, std::vector<Token>& out) const = 0;
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  virtual std::optional<int32_t> id(std::string_view token) const = 0;

  std::string path, fingerprint;
  std::vector<int32_t> before, behind;
  std::optional<Frame> pair_frame;
  std::vector<std::string> tokens;  // by id
  std::vector<char> special;
};

// Larger files are refused.
inline constexpr int64_t kTokenizerBytes = int64_t{256} << 20;

// Create a tokenizer from the bytes of `path`: a tokenizer.json, or a SentencePiece model. UserError naming
// the file.
std::shared_ptr<const Tokenizer::Impl> json_tokenizer(const std::string& path, const std::string& text);
std::shared_ptr<const Tokenizer::Impl> sentence_piece_tokenizer(const std::string& path,
                                                                const std::string& text);

}  // namespace lockstep::launcher::data
