// Unigram: Viterbi search over the tokens that end at each character.
#include "launcher/data/tokenizer/unigram.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "core/base/error.h"
#include "launcher/data/tokenizer/stop.h"
#include "launcher/data/tokenizer/tokenizer_file.h"

namespace lockstep::launcher::data {

namespace {
constexpr double kUnknownPenalty = 10;  // subtracted from the lowest score, as in the package

size_t character(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
  return end - at;
}
}  // namespace

Unigram::Unigram(const nlohmann::json& model, const std::string& who)
    : who_(who), byte_fallback_(flag_in(model, "byte_fallback", false, who + ": model")) {
  read(model);
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    const auto found = vocabulary_.find(std::string_view(name));
    bytes_[byte] = found == vocabulary_.end() ? -1 : found->second;
  }
  for (const auto& [token, id] : vocabulary_) tokens_.add(token, id);
  tokens_.finish();
}

void Unigram::read(const nlohmann::json& model) {
  const std::string where = who_ + ": model";
  double least = std::numeric_limits<double>::infinity();
  for (const auto& row : list_in(model, "vocab", where)) {
    if (!row.is_array() || row.size() != 2 || !row[0].is_string() || !row[1].is_number())
      throw UserError(str(where, ": the row ", scores_.size(), " of \"vocab\" is ",
                          shortened(printable(row.dump(-1, ' ', true)), 80),
                          ", and should be a token and a number; is this a tokenizer.json of Hugging Face?"));
    // Of duplicate tokens the last one counts, as in the package.
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

// The best path to each byte at which a character ends. Among equal scores, the path with the longest last
// token wins.
void Unigram::walk(std::string_view piece, std::vector<Node>& best) const {
  best.assign(piece.size() + 1, {});
  best[0].begin = 0;
  StopEvery look;
  TokenFinder::State at = TokenFinder::kStart;
  // Dynamic programming from left to right: the automaton yields all tokens that end at `end`, and each
  // extends the best path to its own start. Without a token of this one character, the unknown token also
  // competes.
  for (size_t begin = 0, end; begin < piece.size(); begin = end) {
    end = begin + character(piece, begin);
    for (size_t i = begin; i < end; ++i) at = tokens_.next(at, static_cast<unsigned char>(piece[i]));
    Node& node = best[end];
    auto offer = [&](size_t from, int32_t id, double score) {
      score += best[from].score;
      if (node.begin < 0 || score > node.score) node = {score, static_cast<int64_t>(from), id};
    };
    bool single = false;
    tokens_.ending(at, [&](int32_t id, uint32_t bytes) {
      look();
      offer(end - bytes, id, scores_[static_cast<size_t>(id)]);
      single = end - bytes == begin;
      return true;
    });
    if (!single) offer(begin, unk_, unk_score_);
    look();
  }
}

// Emits a text as its token, as byte tokens, or as unknown.
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
  bool unknown = false;  // adjacent unknown characters become one token
  // Follows the best path backwards.
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
