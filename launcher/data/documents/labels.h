// Records of a text and its class: what is read of one, and how it stands in a store.
#pragma once

#include <cstdint>
#include <optional>
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
  std::optional<std::string> second;
  Label label;
  std::vector<std::string> unread = {};  // members that no one reads, as of a Record
};
// The members data.text (or "sentence", "sentence1"), data.label, an integer or a text, and, where it is
// there, data.text_pair (or "sentence2" beside "sentence1"). UserError naming `where` (file and line) for a
// record without one of the first two, or without a second text that the config names, with another value in
// one, or a text of white space alone.
LabelledText read_labelled(const Json& record, const DataOptions& options, const std::string& where,
                           int64_t line);

// In a store the label stands in front of the tokens, so that a store says what its file says, whatever
// classes a model has. `first`: of a pair, the tokens of its first text; -1 for one text.
std::vector<uint32_t> label_head(const Label& label, int64_t first);
struct StoredLabel {
  Label label;
  int64_t first = -1;
  int64_t tokens = 0;  // where the document's tokens begin
};
// Of the document of tokens [begin, end).
StoredLabel label_of(const TokenStore& store, int64_t begin, int64_t end);

}  // namespace lockstep::launcher::data
