// Reads text files as rows of tokens.
#pragma once

#include <optional>
#include <string>

#include "launcher/data/options.h"
#include "launcher/data/source.h"
#include "launcher/data/tokenizer/tokenizer.h"

namespace lockstep::launcher::data {

// The tokenizer of a data set: the frame of each document, and statistics.
class TextTokenizer {
 public:
  // Opens data.tokenizer and resolves data.eos. UserError naming model.vocab when the tokenizer has ids
  // beyond it.
  explicit TextTokenizer(const DataOptions& options);

  // A file's text as one document, with the frame of the tokenizer's post_processor and the end token.
  // UserError naming file and byte for text that is not UTF-8, and for a file beyond 2 GiB.
  Source tokenized(const Source& text);
  // Fingerprint of everything that determines the tokens of a text.
  const std::string& fingerprint() const { return fingerprint_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  std::optional<int32_t> end() const { return end_; }
  // Logs how much was tokenized, and how fast, if it took more than a second.
  void tell() const;

  // The same for a text in memory. `where` names it: "data.paths: a.txt".
  std::vector<uint32_t> document(const std::string& text, const std::string& where) const;

  int64_t made = 0;  // bytes tokenized now, not taken from the cache
  double seconds = 0;

 private:
  Tokenizer tokenizer_;
  std::optional<int32_t> end_;
  std::string cache_, fingerprint_;
};

}  // namespace lockstep::launcher::data
