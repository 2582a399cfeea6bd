// Text files as rows of a tokenizer's tokens.
#pragma once

#include <optional>
#include <string>

#include "launcher/data/options.h"
#include "launcher/data/source.h"
#include "launcher/data/tokenizer/tokenizer.h"

namespace lockstep::launcher::data {

// The tokenizer of a data set: what stands around each document, and what was made with it.
class TextTokenizer {
 public:
  // Of data.tokenizer and data.eos. UserError naming model.vocab where the tokenizer has ids beyond it.
  explicit TextTokenizer(const DataOptions& options);

  // A file's text as one document: what the tokenizer's post_processor puts around it, and the token that
  // ends it. UserError naming file and byte for text that is not UTF-8, and for a file beyond 2 GiB.
  Source tokenized(const Source& text);
  // Of all that decides the tokens of a text.
  const std::string& fingerprint() const { return fingerprint_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  std::optional<int32_t> end() const { return end_; }
  // Logs how much was tokenized, and how fast, where it took more than a second.
  void tell() const;

  // As tokenized's tokens, of a text in memory. `where` names it: "data.paths: a.txt".
  std::vector<uint32_t> document(const std::string& text, const std::string& where) const;

  int64_t made = 0;  // bytes that were tokenized now, rather than before
  double seconds = 0;

 private:
  Tokenizer tokenizer_;
  std::optional<int32_t> end_;
  std::string cache_, fingerprint_;
};

}  // namespace lockstep::launcher::data
