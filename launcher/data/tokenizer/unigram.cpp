// Viterbi over a trie of the vocabulary.
#include "launcher/data/tokenizer/unigram.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <limits>

#include "core/base/error.h"
#include "launcher/data/tokenizer/tokenizer_file.h"

namespace lockstep::launcher::data {

namespace {
constexpr double kUnknownPenalty = 10;  // below the least of all tokens, as the package has it

size_t character(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
  return end - at;
}
uint64_t mixed(uint64_t key) {
  key *= 0x9e3779b97f4a7c15;
  return key ^ key >> 32;
}
}  // namespace

Unigram::Unigram(const nlohmann::json& model, const std::string& who)
    : who_(who), byte_fallback_(flag_in(model, "byte_fallback", false)) {
  read(model);
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    const auto found = vocabulary_.find(std::string_view(name));
    bytes_[byte] = found == vocabulary_.end() ? -1 : found->second;
  }
  grow_trie();
}

void Unigram::read(const nlohmann::json& model) {
  const std::string where = who_ + ": model";
  double least = std::numeric_limits<double>::infinity();
  for (const auto& row : list_in(model, "vocab", where)) {
    if (!row.is_array() || row.size() != 2 || !row[0].is_string() || !row[1].is_number())
      throw UserError(str(where, ": the row ", scores_.size(), " of \"vocab\" is ",
                          shortened(printable(row.dump(-1, ' ', true)), 80),
                          ", and should be a token and a number; is this a tokenizer.json of Hugging Face?"));
    // Of equal tokens the last one counts, as in the package.
    vocabulary_[row[0].get<std::string>()] = static_cast<int32_t>(scores_.size());
    scores_.push_back(row[1].get<double>());
    least = std::min(least, scores_.back());
  }
  if (scores_.empty()) throw UserError(where + ": \"vocab\" is empty");
  unk_score_ = least - kUnknownPenalty;
  if (model.contains("unk_id") && !model["unk_id"].is_null()) {
    const int64_t unk = number_in(model, "unk_id", where);
    if (unk < 0 || unk >= static_cast<int64_t>(scores_.size()))
      throw UserError(str(where, ": unk_id is ", unk, ", and \"vocab\" has ", scores_.size(), " rows"));
    unk_ = static_cast<int32_t>(unk);
  }
}

void Unigram::grow_trie() {
  size_t bytes = 0;
  for (const auto& [token, id] : vocabulary_) bytes += token.size();
  edges_.resize(std::bit_ceil(std::max<size_t>(16, 2 * bytes)));
  const size_t mask = edges_.size() - 1;
  for (const auto& [token, id] : vocabulary_) {
    uint32_t prefix = 0;
    for (unsigned char byte : token) {
      const uint64_t from = uint64_t{prefix} << 8 | byte;
      size_t at = mixed(from) & mask;
      while (edges_[at].to != 0 && edges_[at].from != from) at = (at + 1) & mask;
      if (edges_[at].to == 0) {
        edges_[at] = {from, static_cast<uint32_t>(ends_.size())};
        ends_.push_back(-1);
      }
      prefix = edges_[at].to;
    }
    if (prefix != 0) ends_[prefix] = id;
  }
}

uint32_t Unigram::longer(uint32_t prefix, unsigned char byte) const {
  const uint64_t from = uint64_t{prefix} << 8 | byte;
  const size_t mask = edges_.size() - 1;
  size_t at = mixed(from) & mask;
  while (edges_[at].to != 0 && edges_[at].from != from) at = (at + 1) & mask;
  return edges_[at].to;
}

// The best way to each byte at which a character ends. Of equal ones the first that is met stays.
void Unigram::walk(std::string_view piece, std::vector<Node>& best) const {
  best.assign(piece.size() + 1, {});
  best[0].begin = 0;
  auto offer = [&](size_t begin, size_t end, int32_t id, double score) {
    Node& node = best[end];
    if (node.begin < 0 || score > node.score) node = {score, static_cast<int64_t>(begin), id};
  };
  for (size_t begin = 0; begin < piece.size();) {
    const double so_far = best[begin].score;
    const size_t one = character(piece, begin);
    bool single = false;
    uint32_t prefix = 0;
    for (size_t end = begin; end < piece.size();) {
      prefix = longer(prefix, static_cast<unsigned char>(piece[end++]));
      if (prefix == 0) break;
      const int32_t id = ends_[prefix];
      if (id < 0) continue;
      offer(begin, end, id, scores_[static_cast<size_t>(id)] + so_far);
      single |= end - begin == one;
    }
    if (!single) offer(begin, begin + one, unk_, unk_score_ + so_far);
    begin += one;
  }
}

// A text as the token that it is, as bytes, or as what is unknown.
void Unigram::put(std::string_view text, std::vector<PieceToken>& out) const {
  if (const auto found = vocabulary_.find(text); found != vocabulary_.end()) {
    out.push_back({found->second, static_cast<uint32_t>(text.size())});
    return;
  }
  const bool as_bytes = byte_fallback_ && std::all_of(text.begin(), text.end(), [&](char byte) {
                          return bytes_[static_cast<unsigned char>(byte)] >= 0;
                        });
  if (as_bytes) {
    for (unsigned char byte : text) out.push_back({bytes_[byte], 1});
    return;
  }
  if (unk_ < 0)
    throw UserError(
        str(who_, ": no token stands for \"", shortened(printable(std::string(text)), 40),
            "\", and the model has no unk_id; take it out of the text, or use another tokenizer"));
  out.push_back({unk_, static_cast<uint32_t>(text.size())});
}

void Unigram::encode(std::string_view piece, std::vector<PieceToken>& out) const {
  if (piece.empty()) return;
  thread_local std::vector<Node> best;
  thread_local std::vector<std::pair<size_t, size_t>> tokens;  // from the last one
  walk(piece, best);
  tokens.clear();
  bool unknown = false;  // neighbours that are unknown become one
  for (size_t end = piece.size(); end > 0;) {
    const Node& node = best[end];
    const auto begin = static_cast<size_t>(node.begin);
    if (unk_ >= 0 && node.id == unk_ && unknown)
      tokens.back().first = begin;
    else
      tokens.emplace_back(begin, end);
    unknown = unk_ >= 0 && node.id == unk_;
    end = begin;
  }
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token)
    put(piece.substr(token->first, token->second - token->first), out);
}

}  // namespace lockstep::launcher::data
