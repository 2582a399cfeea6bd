// Greedy matches from the left.
#include "launcher/data/tokenizer/wordpiece.h"

#include <algorithm>

#include "core/base/error.h"
#include "launcher/data/tokenizer/tokenizer_file.h"

namespace lockstep::launcher::data {

WordPiece::WordPiece(const nlohmann::json& model, const std::string& who) {
  const std::string where = who + ": model";
  for (const auto& [token, id] : object_in(model, "vocab", where).items()) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX)
      throw UserError(str(where, ": the token ", shortened(printable(token), 60), " has the id ", id.dump(),
                          ", which is none; ids are whole numbers"));
    vocabulary_[token] = id.get<int32_t>();
    longest_ = std::max(longest_, token.size());
  }
  const std::string unk = word_in(model, "unk_token", where);
  const auto found = vocabulary_.find(unk);
  if (found == vocabulary_.end())
    throw UserError(
        str(where, ": unk_token is ", shortened(printable(unk), 60), ", which its vocabulary does not have"));
  unk_ = found->second;
  prefix_ = word_in(model, "continuing_subword_prefix", where);
  if (model.contains("max_input_chars_per_word")) most_ = number_in(model, "max_input_chars_per_word", where);
}

void WordPiece::encode(std::string_view piece, std::vector<PieceToken>& out) const {
  auto begins = [&](size_t at) {
    return at == piece.size() || (static_cast<unsigned char>(piece[at]) & 0xc0) != 0x80;
  };
  const auto characters = std::count_if(
      piece.begin(), piece.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
  const size_t first = out.size();
  std::string word;
  for (size_t at = 0; at < piece.size() && characters <= most_;) {
    const std::string_view prefix = at == 0 ? std::string_view() : std::string_view(prefix_);
    size_t end = std::min(piece.size(), at + longest_);
    for (; end > at; --end) {
      if (!begins(end)) continue;
      word.assign(prefix).append(piece.substr(at, end - at));
      if (const auto found = vocabulary_.find(word); found != vocabulary_.end()) {
        out.push_back({found->second, static_cast<uint32_t>(end - at)});
        break;
      }
    }
    if (end == at) break;
    at = end;
  }
  size_t covered = 0;
  for (size_t i = first; i < out.size(); ++i) covered += out[i].bytes;
  if (covered == piece.size()) return;
  out.resize(first);
  out.push_back({unk_, static_cast<uint32_t>(piece.size())});
}

}  // namespace lockstep::launcher::data
