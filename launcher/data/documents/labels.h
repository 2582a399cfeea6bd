// Records of a text and its class: how they are read, and how they are stored.
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
  std::string text = {};  // as in the record: a name, or a number's digits
  bool number = false;
  int64_t line = 0;           // of its file
  std::string shown() const;  // a name in quotes
  int64_t value() const;      // of a number; -1 for one that is negative or beyond 2^31 - 1
};
struct LabelledText {
  std::string text;
  std::optional<std::string> second;
  Label label;
  std::vector<std::string> unread = {};  // members that are not read, as in Record
};
// Reads the members data.text (or "sentence", "sentence1"), data.label (an integer or a text) and, if
// present, data.text_pair (or "sentence2" with "sentence1"). UserError naming `where` (file and line) for a
// record without text or label, without a second text that the config names, with a value of another type, or
// with a text of only white space.
LabelledText read_labelled(const Json& record, const DataOptions& options, const std::string& where,
                           int64_t line);

// A store has the label itself before the tokens, not its class, so that it is independent of the model's
// classes. `first`: token count of a pair's first text; -1 for one text.
std::vector<uint32_t> label_head(const Label& label, int64_t first);
struct StoredLabel {
  Label label;
  int64_t first = -1;
  int64_t tokens = 0;  // first token of the document
};
// Of the document of tokens [begin, end).
StoredLabel label_of(const TokenStore& store, int64_t begin, int64_t end);

}  // namespace lockstep::launcher::data
