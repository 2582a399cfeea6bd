// WordPiece: matches greedily from the left.
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
  }
  const std::string unk = word_in(model, "unk_token", where);
  const auto found = vocabulary_.find(unk);
  if (found == vocabulary_.end())
    throw UserError(
        str(where, ": unk_token is ", shortened(printable(unk), 60), ", which its vocabulary does not have"));
  unk_ = found->second;
  prefix_ = word_in(model, "continuing_subword_prefix", where);
  if (model.contains("max_input_chars_per_word")) most_ = number_in(model, "max_input_chars_per_word", where);
  for (const auto& [token, id] : vocabulary_) {
    words_.add(token, id);
    if (token.starts_with(prefix_)) rest_.add(std::string_view(token).substr(prefix_.size()), id);
  }
  words_.finish(), rest_.finish();
}

void WordPiece::encode(std::string_view piece, std::vector<PieceToken>& out) const {
  const auto characters = std::count_if(
      piece.begin(), piece.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
  const size_t first = out.size();
  size_t at = 0;
  if (characters <= most_) {
    const auto word = words_.beginning(piece);
    if (word.bytes > 0) out.push_back({word.id, word.bytes}), at = word.bytes;
  }
  if (at > 0 && at < piece.size()) {
    thread_local std::vector<LongestTokens::At> found;
    rest_.find(piece, found);
    for (size_t i = found.size(); i-- > 0 && found[i].begin <= at;)
      if (found[i].begin == at) out.push_back({found[i].id, found[i].bytes}), at += found[i].bytes;
  }
  if (at == piece.size()) return;
  out.resize(first);
  out.push_back({unk_, static_cast<uint32_t>(piece.size())});
}

}  // namespace lockstep::launcher::data
