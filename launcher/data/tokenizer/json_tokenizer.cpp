// JsonTokenizer: applies the members of tokenizer.json in the order in which a text passes them.
#include <algorithm>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/reading/json_text.h"
#include "launcher/data/tokenizer/added_tokens.h"
#include "launcher/data/tokenizer/bpe.h"
#include "launcher/data/tokenizer/decode.h"
#include "launcher/data/tokenizer/frames.h"
#include "launcher/data/tokenizer/normalize.h"
#include "launcher/data/tokenizer/pre_tokenize.h"
#include "launcher/data/tokenizer/stop.h"
#include "launcher/data/tokenizer/tokenizer_file.h"
#include "launcher/data/tokenizer/tokenizer_kind.h"
#include "launcher/data/tokenizer/unigram.h"
#include "launcher/data/tokenizer/wordpiece.h"

namespace lockstep::launcher::data {

namespace {
constexpr int64_t kMostBytes = int64_t{1} << 30;  // of a tokenizer.json
constexpr int32_t kMostId = 1 << 22;
constexpr size_t kCached = 1 << 16, kCachedBytes = 64;  // limits of each thread's cache of pieces

nlohmann::json json_of(const std::string& text, const std::string& who) {
  // Nested members are read recursively, so depth is limited. A duplicate key of a vocabulary gets its last
  // id, as in the package.
  SortedJsonText read = read_sorted_json(text, {.members = kAllMembers, .bytes = kMostBytes});
  if (!read.readable)
    throw UserError(str(who, ": ", split(read.errors[0], '\n')[0],
                        "; name a tokenizer.json of Hugging Face, or a tokenizer.model of SentencePiece"));
  if (!read.value.is_object())
    throw UserError(str(who, " holds ", read.value.type_name(), ", and a tokenizer.json is an object"));
  return std::move(read.value);
}

const nlohmann::json& member(const nlohmann::json& file, const char* name) {
  static const nlohmann::json none;
  const auto found = file.find(name);
  return found == file.end() ? none : *found;
}

// For a model whose tokens are spelled in ByteLevel's alphabet: converts the piece to it.
class ByteLetters : public TokenModel {
 public:
  explicit ByteLetters(std::unique_ptr<const TokenModel> model) : model_(std::move(model)) {}
  const Vocabulary& vocabulary() const override { return model_->vocabulary(); }
  void encode(std::string_view piece, std::vector<PieceToken>& out) const override {
    const std::string letters = spelled_bytes(piece);
    const size_t first = out.size();
    model_->encode(letters, out);
    // A byte belongs to the token that has the first byte of its letter.
    size_t at = 0;
    for (size_t i = first; i < out.size(); ++i) {
      const size_t end = at + out[i].bytes;
      out[i].bytes =
          static_cast<uint32_t>(std::count_if(letters.begin() + static_cast<std::ptrdiff_t>(at),
                                              letters.begin() + static_cast<std::ptrdiff_t>(end), [](char c) {
                                                return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
                                              }));
      at = end;
    }
  }

 private:
  std::unique_ptr<const TokenModel> model_;
};

// Creates the model by its type.
std::unique_ptr<const TokenModel> token_model(const nlohmann::json& model, bool byte_level,
                                              const std::string& who) {
  const std::string where = who + ": model";
  const std::string type = model.contains("type") ? word_in(model, "type", where) : "BPE";
  if (type == "BPE") return std::make_unique<const Bpe>(model, byte_level, who);
  std::unique_ptr<const TokenModel> of;
  if (type == "Unigram") of = std::make_unique<const Unigram>(model, who);
  if (type == "WordPiece") of = std::make_unique<const WordPiece>(model, who);
  if (of && byte_level) return std::make_unique<const ByteLetters>(std::move(of));
  if (of) return of;
  throw UserError(
      str(where, " is ", type,
          ", and BPE (gpt2, llama, qwen, mistral, gemma), Unigram (t5, xlm-roberta, albert) and WordPiece "
          "(bert) are read: tokenize elsewhere, and use data.kind tokens"));
}

struct JsonTokenizer : Tokenizer::Impl {
  using Token = Tokenizer::Token;
  std::string who;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<const TokenModel> model;
  Decoder decoder;
  std::vector<AddedToken> added;
  AddedTokenFinder as_written, normal;

  JsonTokenizer(const std::string& file, const std::string& name, const std::string& text,
                const nlohmann::json& json)
      : who(name),
        normalizer(member(json, "normalizer"), who),
        pre_tokenizer(member(json, "pre_tokenizer"), who),
        model(token_model(object_in(json, "model", who), pre_tokenizer.byte_level(), who)),
        decoder(member(json, "decoder"), who),
        added(added_tokens(json, model->vocabulary(), who)),
        as_written(added, false, normalizer),
        normal(added, true, normalizer) {
    path = file, fingerprint = hash_hex(text);
    auto name_id = [&](int32_t id, const std::string& token) {
      if (static_cast<size_t>(id) >= tokens.size()) tokens.resize(static_cast<size_t>(id) + 1);
      tokens[static_cast<size_t>(id)] = token;
    };
    for (const auto& [token, id] : model->vocabulary()) {
      if (id > kMostId)
        throw UserError(str(who, ": the token ", printable(token), " has the id ", id, ", and ids up to ",
                            kMostId, " are read"));
      name_id(id, token);
    }
    for (const auto& token : added) {
      if (token.id > kMostId)
        throw UserError(str(who, ": the token ", printable(token.content), " has the id ", token.id,
                            ", and ids up to ", kMostId, " are read"));
      name_id(token.id, token.content);
    }
    special.resize(tokens.size());
    for (const auto& token : added) special[static_cast<size_t>(token.id)] = token.special;
    if (const auto& after = member(json, "post_processor"); !after.is_null()) {
      const Frames frames = read_frames(after, who + ": post_processor");
      before = frames.before, behind = frames.behind, pair_frame = frames.pair;
      check_frame(before), check_frame(behind);
      if (pair_frame)
        for (const auto* part : {&pair_frame->before, &pair_frame->between, &pair_frame->behind})
          check_frame(part->ids);
    }
  }

  void check_frame(const std::vector<int32_t>& ids) const {
    for (int32_t id : ids)
      if (static_cast<size_t>(id) >= tokens.size())
        throw UserError(str(who, ": post_processor: the id ", id,
                            " is put around texts, and the file's ids end at ", tokens.size() - 1,
                            "; the file is of two tokenizers"));
  }

  // The tokens of a piece, from this thread's cache if possible.
  void encode_piece(std::string_view piece, std::vector<PieceToken>& out) const {
    using Kept = std::unordered_map<std::string, std::vector<PieceToken>, TextHash, std::equal_to<>>;
    thread_local std::pair<std::string, Kept> memory;
    if (piece.size() > kCachedBytes) return model->encode(piece, out);
    auto& [of, kept] = memory;
    if (of != fingerprint) of = fingerprint, kept.clear();
    if (const auto found = kept.find(piece); found != kept.end()) {
      out.insert(out.end(), found->second.begin(), found->second.end());
      return;
    }
    const size_t begin = out.size();
    model->encode(piece, out);
    if (kept.size() < kCached)
      kept.emplace(piece,
                   std::vector<PieceToken>(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end()));
  }

  static void put(const MarkedText& text, size_t begin, size_t end, int32_t id, std::vector<Token>& out) {
    const auto& only = text.marks[0];
    if (text.marks.size() == 1)
      out.push_back({id, only.part, only.learnt});
    else
      out.push_back({id, text.part_at(begin), text.learnt_in(begin, end)});
  }

  // A segment of normalized text without added tokens.
  void encode_plain(MarkedText text, std::vector<Token>& out) const {
    thread_local std::vector<PieceToken> found;
    pre_tokenizer.apply(text, [&](std::string_view piece, size_t at) {
      found.clear();
      encode_piece(piece, found);
      check_stop();
      for (const auto& token : found) {
        put(text, at, at + token.bytes, token.id, out);
        at += token.bytes;
      }
    });
  }

  void encode(MarkedText all, std::vector<Token>& out) const override {
    as_written.walk(all.text, [&](size_t begin, size_t end, int32_t id) {
      if (id >= 0) return put(all, begin, end, id, out);
      MarkedText text = begin == 0 && end == all.text.size() ? std::move(all) : all.slice(begin, end);
      normalizer.apply(text);
      if (normal.empty()) return encode_plain(std::move(text), out);
      normal.walk(text.text, [&](size_t from, size_t until, int32_t token) {
        if (token >= 0) return put(text, from, until, token, out);
        encode_plain(text.slice(from, until), out);
      });
    });
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::vector<std::string> words;
    for (int32_t id : ids)
      words.push_back(id >= 0 && static_cast<size_t>(id) < tokens.size() ? tokens[static_cast<size_t>(id)]
                                                                         : "");
    return decoder.apply(std::move(words));
  }

  std::optional<int32_t> id(std::string_view token) const override {
    for (const auto& each : added)
      if (each.content == token) return each.id;
    const auto found = model->vocabulary().find(token);
    return found == model->vocabulary().end() ? std::nullopt : std::optional(found->second);
  }
};
}  // namespace

std::shared_ptr<const Tokenizer::Impl> json_tokenizer(const std::string& path, const std::string& text) {
  const std::string who = "data.tokenizer: " + path;
  return std::make_shared<const JsonTokenizer>(path, who, text, json_of(text, who));
}

}  // namespace lockstep::launcher::data
