// Added tokens of tokenizer.json: texts that always become one token, before the model sees them.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/data/tokenizer/normalize.h"
#include "launcher/data/tokenizer/token_finder.h"
#include "launcher/data/tokenizer/token_model.h"

namespace lockstep::launcher::data {

struct AddedToken {
  int32_t id;
  std::string content;
  bool special, single_word, lstrip, rstrip, normalized;
};
// UserError naming `who` for an invalid row, and for an id that the vocabulary gives to another token.
std::vector<AddedToken> added_tokens(const nlohmann::json& file, const Vocabulary& vocabulary,
                                     const std::string& who);

// Finds them: leftmost first, then longest.
class AddedTokenFinder {
 public:
  // Those that are `normalized`, by their normal form; or the others.
  AddedTokenFinder(const std::vector<AddedToken>& tokens, bool normalized, const Normalizer& normalizer);
  bool empty() const { return rows_.empty(); }
  // Visits the text in order: a segment without added tokens (id -1), or an added token with the white space
  // that it absorbs.
  using Found = std::function<void(size_t begin, size_t end, int32_t id)>;
  void walk(std::string_view text, const Found& found) const;

 private:
  struct Row {
    std::string text;
    AddedToken token;
  };
  std::vector<Row> rows_;
  LongestTokens longest_;  // ids: places in rows_
};

}  // namespace lockstep::launcher::data
