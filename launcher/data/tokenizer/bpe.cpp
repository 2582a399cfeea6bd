// BPE: merges the pair of lowest rank first, and of equal ranks the leftmost.
#include "launcher/data/tokenizer/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <queue>

#include "core/base/error.h"
#include "launcher/data/tokenizer/stop.h"
#include "launcher/data/tokenizer/tokenizer_file.h"

namespace lockstep::launcher::data {

namespace {
// symbols: below this, a repeated linear scan of the ranks is faster than a queue
constexpr size_t kFew = 48;

size_t character(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
  return end - at;
}

// Code points of bytes: printable ones map to themselves, the others to 256 and up.
const std::array<int, 256>& alphabet() {
  static const std::array<int, 256> table = [] {
    std::array<int, 256> out{};
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printed =
          (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
      out[static_cast<size_t>(byte)] = printed ? byte : next++;
    }
    return out;
  }();
  return table;
}

uint64_t mixed(uint64_t pair) {
  pair *= 0x9e3779b97f4a7c15;
  return pair ^ pair >> 32;
}
uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}
}  // namespace

std::string spelled_bytes(std::string_view bytes) {
  std::string out;
  for (unsigned char byte : bytes) {
    const int point = alphabet()[byte];
    if (point < 0x80) {
      out += static_cast<char>(point);
    } else {
      out += static_cast<char>(0xc0 | point >> 6);
      out += static_cast<char>(0x80 | (point & 0x3f));
    }
  }
  return out;
}

bool bytes_of_spelling(std::string_view token, std::string& bytes) {
  static const std::array<int, 512> from = [] {
    std::array<int, 512> out;
    out.fill(-1);
    for (size_t byte = 0; byte < 256; ++byte)
      out[static_cast<size_t>(alphabet()[byte])] = static_cast<int>(byte);
    return out;
  }();
  bytes.clear();
  for (size_t i = 0; i < token.size(); ++i) {
    int point = static_cast<unsigned char>(token[i]);
    if (point >= 0x80) {
      if ((point & 0xe0) != 0xc0 || i + 1 == token.size()) return false;
      point = (point & 0x1f) << 6 | (static_cast<unsigned char>(token[++i]) & 0x3f);
    }
    if (point >= 512 || from[static_cast<size_t>(point)] < 0) return false;
    bytes += static_cast<char>(from[static_cast<size_t>(point)]);
  }
  return true;
}

Bpe::Bpe(const nlohmann::json& model, bool byte_level, const std::string& who)
    : who_(who), byte_level_(byte_level) {
  const std::string where = who + ": model";
  for (const char* member : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (model.contains(member) && !model[member].is_null() && model[member] != "")
      throw UserError(str(where, " has \"", member, "\": ", model[member].dump(),
                          ", which is not read: tokenize elsewhere, and use data.kind tokens"));
  if (model.contains("dropout") && !model["dropout"].is_null() && model["dropout"] != 0)
    throw UserError(str(where, " has \"dropout\": ", model["dropout"].dump(),
                        ", which draws tokens at random; set it to null in the file"));
  byte_fallback_ = flag_in(model, "byte_fallback", false, where);
  fuse_unk_ = flag_in(model, "fuse_unk", false, where);
  ignore_merges_ = flag_in(model, "ignore_merges", false, where);
  read_vocabulary(model);
  read_merges(model);
}

void Bpe::read_vocabulary(const nlohmann::json& model) {
  const std::string where = who_ + ": model";
  std::string bytes;
  for (const auto& [token, value] : object_in(model, "vocab", where).items()) {
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() >= int64_t{1} << 31)
      throw UserError(str(where, ": the token ", printable(token), " has the id ", value.dump(),
                          ", which is none; ids are whole numbers from 0 on"));
    const auto id = static_cast<int32_t>(value.get<int64_t>());
    vocabulary_.emplace(token, id);
    const std::string& piece = byte_level_ && bytes_of_spelling(token, bytes) ? bytes : token;
    pieces_.emplace(piece, id);
    longest_ = std::max(longest_, piece.size());
  }
  std::fill(std::begin(bytes_), std::end(bytes_), -1);
  bool all = true;
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    const auto found =
        byte_level_ ? pieces_.find(std::string(1, static_cast<char>(byte))) : pieces_.find(std::string(name));
    if (found != pieces_.end()) bytes_[byte] = found->second;
    all &= found != pieces_.end();
  }
  if (byte_fallback_ && !byte_level_ && !all)
    throw UserError(str(where,
                        " has \"byte_fallback\" and not all of <0x00> ... <0xFF> in its vocabulary; "
                        "set byte_fallback to false, or use a tokenizer that is whole"));
  if (model.contains("unk_token") && !model["unk_token"].is_null()) {
    const std::string unk = word_in(model, "unk_token", where);
    const auto found = vocabulary_.find(unk);
    if (found == vocabulary_.end())
      throw UserError(str(where, ": unk_token is ", printable(unk), ", which its vocabulary does not have"));
    unk_ = found->second;
  }
}

void Bpe::read_merges(const nlohmann::json& model) {
  const std::string where = who_ + ": model";
  const nlohmann::json& list = list_in(model, "merges", where);
  merges_.resize(std::bit_ceil(2 * list.size() + 2));
  uint32_t rank = 0;
  for (const auto& row : list) {
    std::string left, right;
    if (row.is_string()) {
      const auto text = row.get<std::string>();
      const size_t space = text.find(' ');
      left = text.substr(0, space), right = space == std::string::npos ? "" : text.substr(space + 1);
    } else if (row.is_array() && row.size() == 2 && row[0].is_string() && row[1].is_string()) {
      left = row[0].get<std::string>(), right = row[1].get<std::string>();
    }
    auto id_of = [&](const std::string& token) {
      const auto found = vocabulary_.find(token);
      if (left.empty() || right.empty() || found == vocabulary_.end())
        throw UserError(str(where, ": merge ", rank, " is ", shortened(printable(row.dump()), 120),
                            left.empty() || right.empty()
                                ? ", and should be two tokens"
                                : str(", and the vocabulary has no ", shortened(printable(token), 120)),
                            "; the file is cut short, or of two tokenizers"));
      return found->second;
    };
    const uint64_t pair = pair_of(id_of(left), id_of(right));
    const int32_t id = id_of(left + right);
    size_t at = mixed(pair) & (merges_.size() - 1);
    while (merges_[at].pair != ~uint64_t{0} && merges_[at].pair != pair) at = (at + 1) & (merges_.size() - 1);
    merges_[at] = {pair, rank++, id};
  }
}

const Bpe::Merge* Bpe::merge_of(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  for (size_t at = mixed(pair) & (merges_.size() - 1);; at = (at + 1) & (merges_.size() - 1)) {
    if (merges_[at].pair == pair) return &merges_[at];
    if (merges_[at].pair == ~uint64_t{0}) return nullptr;
  }
}

void Bpe::first_symbols(std::string_view piece, std::vector<PieceToken>& out) const {
  StopEvery look;
  bool unknown = false;  // the symbol before is unk_token
  for (size_t i = 0, n; i < piece.size(); i += n, look()) {
    n = byte_level_ ? 1 : character(piece, i);
    const std::string_view one = piece.substr(i, n);
    if (byte_level_) {
      if (const int32_t id = bytes_[static_cast<unsigned char>(one[0])]; id >= 0) {
        out.push_back({id, 1}), unknown = false;
        continue;
      }
    } else if (const auto found = pieces_.find(one); found != pieces_.end()) {
      out.push_back({found->second, static_cast<uint32_t>(n)}), unknown = false;
      continue;
    } else if (byte_fallback_) {
      for (unsigned char byte : one) out.push_back({bytes_[byte], 1});
      unknown = false;
      continue;
    }
    if (unk_ < 0)
      throw UserError(str(who_, " has no token for ", byte_level_ ? "the byte of " : "", "\"", printable(one),
                          "\", no unk_token and no byte_fallback; use a tokenizer that can "
                          "write all of the text, or take the character out of it"));
    if (unknown && fuse_unk_)
      out.back().bytes += static_cast<uint32_t>(n);
    else
      out.push_back({unk_, static_cast<uint32_t>(n)});
    unknown = true;
  }
}

// Quadratic, but without allocation: the rank of each adjacent pair is kept in an array on the stack. A merge
// only changes the pairs on both sides of it.
void Bpe::merge_few(std::vector<PieceToken>& symbols) const {
  constexpr uint32_t kNone = ~uint32_t{0};
  uint32_t ranks[kFew];
  int32_t ids[kFew];
  auto look = [&](size_t i) {
    const Merge* merge = i + 1 < symbols.size() ? merge_of(symbols[i].id, symbols[i + 1].id) : nullptr;
    ranks[i] = merge ? merge->rank : kNone, ids[i] = merge ? merge->id : 0;
  };
  for (size_t i = 0; i < symbols.size(); ++i) look(i);
  for (;;) {
    const size_t n = symbols.size();
    const size_t best = static_cast<size_t>(std::min_element(ranks, ranks + n) - ranks);
    if (ranks[best] == kNone) return;
    symbols[best] = {ids[best], symbols[best].bytes + symbols[best + 1].bytes};
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    std::copy(ranks + best + 2, ranks + n, ranks + best + 1);
    std::copy(ids + best + 2, ids + n, ids + best + 1);
    look(best);
    if (best > 0) look(best - 1);
    if (symbols.size() < 2) return;
  }
}

// O(n log n) with a priority queue of pairs and a linked list of symbols. Queue entries are never updated: an
// entry whose pair has changed is recognized and dropped when it is popped.
void Bpe::merge_many(std::vector<PieceToken>& symbols) const {
  struct Candidate {
    uint32_t rank;
    uint32_t at;
    int32_t id;
    // inverted, because the queue's top is its largest element
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  const auto n = static_cast<int32_t>(symbols.size());
  std::vector<int32_t> next(symbols.size()), before(symbols.size());
  for (int32_t i = 0; i < n; ++i) next[i] = i + 1 < n ? i + 1 : -1, before[i] = i - 1;
  std::priority_queue<Candidate> queue;
  StopEvery ask;
  auto look = [&](int32_t i) {
    if (i < 0 || next[i] < 0) return;
    if (const Merge* merge = merge_of(symbols[i].id, symbols[next[i]].id))
      queue.push({merge->rank, static_cast<uint32_t>(i), merge->id});
  };
  for (int32_t i = 0; i + 1 < n; ++i, ask()) look(i);
  for (; !queue.empty(); ask()) {
    const Candidate top = queue.top();
    queue.pop();
    const auto at = static_cast<int32_t>(top.at);
    if (symbols[at].bytes == 0 || next[at] < 0) continue;
    const int32_t right = next[at];
    const Merge* merge = merge_of(symbols[at].id, symbols[right].id);
    if (!merge || merge->id != top.id) continue;  // stale: one of the two was merged in the meantime
    symbols[at] = {top.id, symbols[at].bytes + symbols[right].bytes};
    symbols[right].bytes = 0;
    next[at] = next[right];
    if (next[right] >= 0) before[next[right]] = at;
    look(before[at]);
    look(at);
  }
  std::erase_if(symbols, [](const PieceToken& symbol) { return symbol.bytes == 0; });
}

void Bpe::encode(std::string_view piece, std::vector<PieceToken>& out) const {
  if (ignore_merges_ && piece.size() <= longest_)
    if (const auto found = pieces_.find(piece); found != pieces_.end()) {
      out.push_back({found->second, static_cast<uint32_t>(piece.size())});
      return;
    }
  thread_local std::vector<PieceToken> symbols;
  symbols.clear();
  first_symbols(piece, symbols);
  if (symbols.size() >= kFew)
    merge_many(symbols);
  else if (symbols.size() > 1)
    merge_few(symbols);
  out.insert(out.end(), symbols.begin(), symbols.end());
}

}  // namespace lockstep::launcher::data
