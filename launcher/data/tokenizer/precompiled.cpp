// Reads the base64 table as a double array, and normalizes by utf8proc's grapheme clusters.
#include "launcher/data/tokenizer/precompiled.h"

#include <sodium.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "launcher/data/tokenizer/stop.h"
#include "launcher/data/tokenizer/tokenizer.h"

namespace lockstep::launcher::data {

namespace {
constexpr size_t kCluster = 6;  // bytes; longer clusters are split

size_t character(std::string_view text, size_t at, utf8proc_int32_t& point) {
  const auto used = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                     static_cast<utf8proc_ssize_t>(text.size() - at), &point);
  LS_CHECK(used > 0, "text is not UTF-8");
  return static_cast<size_t>(used);
}
// Fields of a unit of the double array: whether a value follows, the value, the label, the offset of the
// children.
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value(uint32_t unit) { return unit & 0x7fffffff; }
uint32_t label(uint32_t unit) { return unit & 0x800000ff; }
uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }
}  // namespace

Precompiled::Precompiled(const std::string& base64, const std::string& who) {
  std::string bytes(base64.size(), '\0');
  size_t size = 0;
  const bool read =
      sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), base64.data(),
                        base64.size(), "\n", &size, nullptr, sodium_base64_VARIANT_ORIGINAL) == 0;
  bytes.resize(read ? size : 0);
  this->read(bytes, who);
}

void Precompiled::read(const std::string& bytes, const std::string& who) {
  uint32_t table = 0;
  if (bytes.size() >= sizeof table) std::memcpy(&table, bytes.data(), sizeof table);
  if (table == 0 || table % 4 != 0 || bytes.size() - 4 < table)
    throw UserError(str(who, ": precompiled_charsmap is no table of SentencePiece; is the file whole?"));
  units_.resize(table / 4);
  std::memcpy(units_.data(), bytes.data() + 4, table);
  normal_ = bytes.substr(4 + table);
  check(who);
}

void Precompiled::check_for_others(const std::string& bytes, const std::string& who) {
  Precompiled table;
  table.read(bytes, who);
  const std::vector<uint32_t>& units = table.units_;
  for (size_t i = 0; i < units.size(); ++i)  // any next byte stays within the array
    if ((i == 0 || !(units[i] >> 31)) && ((i ^ offset(units[i])) | 255) >= units.size())
      throw UserError(
          str(who, ": precompiled_charsmap: unit ", i, " leads beyond the table; is the file whole?"));
  if (table.normal_.empty() || table.normal_.back() != '\0')
    throw UserError(str(who, ": precompiled_charsmap: its last text does not end; is the file whole?"));
}

// Checks every value of the array, reachable or not, so that later lookups need no checks.
void Precompiled::check(const std::string& who) const {
  const auto refused = [&](size_t at, const std::string& why) {
    throw UserError(
        str(who, ": precompiled_charsmap: the entry at unit ", at, " ", why, "; is the file whole?"));
  };
  if (const auto wrong = not_utf8_at(normal_))
    throw UserError(str(who, ": precompiled_charsmap: its texts are not UTF-8 from byte ", *wrong,
                        " on; is the file whole?"));
  for (size_t i = 0; i < units_.size(); ++i) {
    if (units_[i] >> 31 || !has_leaf(units_[i])) continue;
    const size_t leaf = i ^ offset(units_[i]);
    const size_t begin = leaf < units_.size() ? value(units_[leaf]) : normal_.size();
    if (begin >= normal_.size()) refused(i, "lies beyond the table");
    if ((static_cast<unsigned char>(normal_[begin]) & 0xc0) == 0x80)
      refused(i, "begins within a character of UTF-8");
  }
}

// The replacement of the whole chunk: that of its shortest prefix in the table.
bool Precompiled::replace(std::string_view chunk, std::string& out) const {
  uint32_t at = offset(units_[0]);
  for (unsigned char byte : chunk) {
    at ^= byte;
    if (byte == 0 || at >= units_.size() || label(units_[at]) != byte) return false;
    const bool leaf = has_leaf(units_[at]);
    at ^= offset(units_[at]);
    if (!leaf) continue;
    if (at >= units_.size() || value(units_[at]) >= normal_.size()) return false;
    out += normal_.c_str() + value(units_[at]);
    return true;
  }
  return false;
}

void Precompiled::apply(std::string_view text, std::string& out,
                        const std::function<void(size_t)>& grown) const {
  StopEvery look;
  auto by_characters = [&](std::string_view cluster) {
    utf8proc_int32_t point = 0;
    for (size_t at = 0, n; at < cluster.size(); at += n) {
      n = character(cluster, at, point);
      if (!replace(cluster.substr(at, n), out)) out += cluster.substr(at, n);
    }
  };
  utf8proc_int32_t point = 0, before = 0, state = 0;
  size_t begin = 0;
  auto end_cluster = [&](size_t end) {
    const std::string_view cluster = text.substr(begin, end - begin);
    if (cluster.size() >= kCluster || !replace(cluster, out)) by_characters(cluster);
    begin = end;
    grown(out.size());
    look();
  };
  for (size_t at = 0, n; at < text.size(); at += n, before = point) {
    n = character(text, at, point);
    if (at > 0 && utf8proc_grapheme_break_stateful(before, point, &state)) end_cluster(at);
  }
  if (begin < text.size()) end_cluster(text.size());
}

}  // namespace lockstep::launcher::data
