// Records of a text and its class: what is read of one, and how it stands in a store.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "launcher/data/options.h"
#include "launcher/data/token_store.h"

namespace lockstep::launcher::data {

struct Label {
  std::string text = {};  // as the record has it: a name, or a number's digits
  bool number = false;
  int64_t line = 0;           // of its file
  std::string shown() const;  // a name in quotes
  int64_t value() const;      // of a number; -1 for one that is negative or beyond 2^31 - 1
};
struct LabelledText {
  std::string text;
  Label label;
};
// The members data.text (or "sentence") and data.label, an integer or a text. UserError naming `where` (file
// and line) for a record without one of them, with another value in one, with a second text, or of white
// space alone.
LabelledText read_labelled(const Json& record, const DataOptions& options, const std::string& where,
                           int64_t line);

// In a store the label stands in front of the tokens, so that a store says what its file says, whatever
// classes a model has.
std::vector<uint32_t> label_head(const Label& label);
// Of the document of tokens [begin, end); `tokens` is set to where its tokens begin.
Label label_of(const TokenStore& store, int64_t begin, int64_t end, int64_t& tokens);

}  // namespace lockstep::launcher::data
