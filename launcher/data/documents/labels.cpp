// Reads labelled records, and encodes labels in a store.
#include "launcher/data/documents/labels.h"

#include <algorithm>
#include <charconv>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launcher/data/documents/record.h"

namespace lockstep::launcher::data {

namespace {
// Words before a label's bytes: the line; token count of a pair's first text + 1; twice the number of bytes,
// plus 1 if the label is a number.
constexpr size_t kHead = 3;

Label label_in(const Json& record, const std::string& member, const std::string& where) {
  if (!record.contains(member))
    throw UserError(str(where, ": the record has no \"", member, "\"; it has: ", members_of(record),
                        "; name the member with the class in data.label, or take the record out"));
  const Json& value = record[member];
  if (value.is_number_integer()) return {value.dump(), true};
  if (value.is_string() && !trim(value.get<std::string>()).empty()) return {value.get<std::string>(), false};
  throw UserError(str(where, ": \"", member, "\" is ", value_text(value),
                      ", and should be a class: an integer from 0 on, or a name"));
}
}  // namespace

std::string Label::shown() const { return number ? text : str('"', shortened(printable(text), 60), '"'); }
int64_t Label::value() const {
  int32_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && out >= 0 ? out : -1;
}

LabelledText read_labelled(const Json& record, const DataOptions& options, const std::string& where,
                           int64_t line) {
  std::string member = options.text_key, second = options.pair_key;
  if (!record.contains(member))
    for (const char* other : {"sentence", "sentence1"})
      if (record.contains(other)) member = other;
  if (member == "sentence1" && !record.contains(second)) second = "sentence2";
  if (!record.contains(member))
    throw UserError(str(where, ": the record has no \"", member, "\"; it has: ", members_of(record),
                        "; name the member with the text in data.text"));
  auto text = [&](const std::string& name) {
    const std::string out = text_in(record, name, where);
    if (trim(out).empty())
      throw UserError(
          str(where, ": \"", name, "\" is empty, and has nothing to tell its class by; take the record out"));
    return out;
  };
  if (!learnt_of(record, "the record", where))
    throw UserError(where +
                    ": the record says that it is not learnt, and all that have a class are; take it out");
  LabelledText out{text(member), std::nullopt, label_in(record, options.label_key, where)};
  if (record.contains(second) && !record[second].is_null())
    out.second = text(second);
  else if (options.pair_key != DataOptions().pair_key)
    throw UserError(str(where, ": the record has no \"", second, "\"; it has: ", members_of(record),
                        "; name the member with the second text in data.text_pair, or leave it out"));
  out.label.line = line;
  note_unread(record, {member, second, options.label_key}, "", out.unread);
  return out;
}

std::vector<uint32_t> label_head(const Label& label, int64_t first) {
  std::vector<uint32_t> out = {static_cast<uint32_t>(std::min<int64_t>(label.line, (int64_t{1} << 31) - 1)),
                               static_cast<uint32_t>(first + 1),
                               static_cast<uint32_t>(label.text.size() * 2 + label.number)};
  for (unsigned char byte : label.text) out.push_back(byte);
  return out;
}

StoredLabel label_of(const TokenStore& store, int64_t begin, int64_t end) {
  std::vector<uint32_t> words(static_cast<size_t>(std::min<int64_t>(end - begin, 64)));
  store.read(begin, words);
  LS_CHECK(words.size() >= kHead, words.size());
  const size_t bytes = words[2] / 2;
  StoredLabel out{.label = {.number = words[2] % 2 == 1, .line = words[0]},
                  .first = static_cast<int64_t>(words[1]) - 1,
                  .tokens = begin + static_cast<int64_t>(kHead + bytes)};
  LS_CHECK(out.tokens <= end, bytes, " bytes of a label in ", end - begin, " words");
  if (words.size() < kHead + bytes) {
    words.resize(kHead + bytes);
    store.read(begin, words);
  }
  for (size_t i = 0; i < bytes; ++i) out.label.text += static_cast<char>(words[kHead + i]);
  return out;
}

}  // namespace lockstep::launcher::data
