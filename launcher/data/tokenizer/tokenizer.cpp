// The members of tokenizer.json in the order in which a text goes through them.
#include "launcher/data/tokenizer/tokenizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/plain_file.h"
#include "launcher/data/tokenizer/added_tokens.h"
#include "launcher/data/tokenizer/bpe.h"
#include "launcher/data/tokenizer/decode.h"
#include "launcher/data/tokenizer/normalize.h"
#include "launcher/data/tokenizer/pre_tokenize.h"
#include "launcher/data/tokenizer/tokenizer_file.h"

namespace lockstep::launcher::data {

namespace {
constexpr int64_t kFileBytes = int64_t{256} << 20;
constexpr int kDepth = 64;
constexpr int32_t kMostId = 1 << 22;
constexpr size_t kCached = 1 << 16, kCachedBytes = 64;  // pieces whose tokens a thread keeps

std::string text_of(const std::string& path) {
  std::string text, why;
  if (!read_plain(path, text, why, kFileBytes))
    throw UserError(str("data.tokenizer: cannot read ", path, ": ", why,
                        "; name a tokenizer.json of Hugging Face, or bytes"));
  return text;
}

nlohmann::json json_of(const std::string& text, const std::string& who) {
  try {
    // Members within members are walked by functions that call themselves.
    nlohmann::json out =
        nlohmann::json::parse(text, [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
          if (depth > kDepth)
            throw UserError(str(who, " nests more than ", kDepth, " levels; is it a tokenizer.json?"));
          return true;
        });
    if (!out.is_object())
      throw UserError(str(who, " holds ", out.type_name(), ", and a tokenizer.json is an object"));
    return out;
  } catch (const nlohmann::json::exception& error) {
    throw UserError(str(who, " is not JSON: ", shortened(printable(error.what()), 200),
                        "; name a tokenizer.json of Hugging Face (tokenizer.model of SentencePiece becomes "
                        "one by transformers' AutoTokenizer and save_pretrained)"));
  }
}

const nlohmann::json& member(const nlohmann::json& file, const char* name) {
  static const nlohmann::json none;
  const auto found = file.find(name);
  return found == file.end() ? none : *found;
}
bool is_byte_level(const nlohmann::json& described) {
  if (!described.is_object()) return false;
  if (described.value("type", "") == "ByteLevel") return true;
  const auto list = described.find("pretokenizers");
  return list != described.end() && list->is_array() &&
         std::any_of(list->begin(), list->end(), [](const auto& each) { return is_byte_level(each); });
}
}  // namespace

struct Tokenizer::Impl {
  std::string path, who, fingerprint;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe model;
  Decoder decoder;
  std::vector<AddedToken> added;
  AddedTokenFinder as_written, normal;
  std::vector<int32_t> before, behind;
  std::vector<std::string> tokens;  // by id
  std::vector<char> special;

  Impl(const std::string& file, const std::string& name, const std::string& text, const nlohmann::json& json)
      : path(file),
        who(name),
        fingerprint(hash_hex(text)),
        normalizer(member(json, "normalizer"), who),
        pre_tokenizer(member(json, "pre_tokenizer"), who),
        model(object_in(json, "model", who), is_byte_level(member(json, "pre_tokenizer")), who),
        decoder(member(json, "decoder"), who),
        added(added_tokens(json, model, who)),
        as_written(added, false, normalizer),
        normal(added, true, normalizer) {
    auto name_id = [&](int32_t id, const std::string& token) {
      if (static_cast<size_t>(id) >= tokens.size()) tokens.resize(static_cast<size_t>(id) + 1);
      tokens[static_cast<size_t>(id)] = token;
    };
    for (const auto& [token, id] : model.vocabulary()) {
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
    if (const auto& after = member(json, "post_processor"); !after.is_null()) surround(after);
  }

  // What is put around a single text.
  void surround(const nlohmann::json& after) {
    const std::string where = who + ": post_processor", type = word_in(after, "type", where);
    if (type == "Sequence") {
      for (const auto& each : list_in(after, "processors", where)) surround(each);
    } else if (type == "TemplateProcessing") {
      const auto& known = object_in(after, "special_tokens", where);
      std::vector<int32_t>* to = &before;
      for (const auto& piece : list_in(after, "single", where)) {
        if (!piece.contains("SpecialToken")) {
          to = &behind;
          continue;
        }
        const std::string token = word_in(object_in(piece, "SpecialToken", where), "id", where);
        for (const auto& id : list_in(object_in(known, token.c_str(), where), "ids", where))
          if (id.is_number_integer()) to->push_back(id.get<int32_t>());
      }
    } else if (type == "RobertaProcessing" || type == "BertProcessing") {
      for (auto [name, to] : {std::pair{"cls", &before}, std::pair{"sep", &behind}})
        if (const auto& row = list_in(after, name, where); row.size() == 2 && row[1].is_number_integer())
          to->push_back(row[1].get<int32_t>());
    } else if (type != "ByteLevel") {
      throw UserError(str(where, " is ", type,
                          ", which is not read; TemplateProcessing, RobertaProcessing, BertProcessing, "
                          "ByteLevel and Sequence of them are"));
    }
  }

  // The tokens of a piece, from this thread's memory where it has them.
  void encode_piece(std::string_view piece, std::vector<PieceToken>& out) const {
    using Kept = std::unordered_map<std::string, std::vector<PieceToken>, Bpe::TextHash, std::equal_to<>>;
    thread_local std::pair<std::string, Kept> memory;
    if (piece.size() > kCachedBytes) return model.encode(piece, out);
    auto& [of, kept] = memory;
    if (of != fingerprint) of = fingerprint, kept.clear();
    if (const auto found = kept.find(piece); found != kept.end()) {
      out.insert(out.end(), found->second.begin(), found->second.end());
      return;
    }
    const size_t begin = out.size();
    model.encode(piece, out);
    if (kept.size() < kCached)
      kept.emplace(piece,
                   std::vector<PieceToken>(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end()));
  }

  // A stretch of normal text without added tokens.
  void encode_plain(MarkedText text, std::vector<Token>& out) const {
    thread_local std::vector<PieceToken> found;
    pre_tokenizer.apply(text, [&](std::string_view piece, size_t at) {
      found.clear();
      encode_piece(piece, found);
      for (const auto& token : found) {
        out.push_back({token.id, text.marks.size() > 1 ? text.part_at(at) : text.marks[0].part});
        at += token.bytes;
      }
    });
  }

  void encode(MarkedText all, std::vector<Token>& out) const {
    auto put = [&](const MarkedText& text, size_t begin, int32_t id) {
      out.push_back({id, text.part_at(begin)});
    };
    as_written.walk(all.text, [&](size_t begin, size_t end, int32_t id) {
      if (id >= 0) return put(all, begin, id);
      MarkedText text = begin == 0 && end == all.text.size() ? std::move(all) : all.slice(begin, end);
      normalizer.apply(text);
      if (normal.empty()) return encode_plain(std::move(text), out);
      normal.walk(text.text, [&](size_t from, size_t until, int32_t token) {
        if (token >= 0) return put(text, from, token);
        encode_plain(text.slice(from, until), out);
      });
    });
  }
};

Tokenizer::Tokenizer(const std::string& path) {
  const std::string text = text_of(path), who = "data.tokenizer: " + path;
  impl_ = std::make_shared<const Impl>(path, who, text, json_of(text, who));
}

std::vector<Tokenizer::Token> Tokenizer::encode_parts(std::span<const std::string> parts) const {
  MarkedText all;
  for (size_t i = 0; i < parts.size(); ++i) {
    all.marks.push_back({all.text.size(), static_cast<int>(i)});
    all.text += parts[i];
  }
  if (all.marks.empty()) all.marks.push_back({0, 0});
  if (const auto at = not_utf8_at(all.text))
    throw UserError(
        str("the text is not UTF-8 from byte ", *at,
            " on; write it as UTF-8 (iconv -t utf-8), or train on bytes with data.tokenizer bytes"));
  std::vector<Token> out;
  impl_->encode(std::move(all), out);
  return out;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  const std::string one(text);
  std::vector<int32_t> out;
  for (const auto& token : encode_parts({&one, 1})) out.push_back(token.id);
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::vector<std::string> tokens;
  for (int32_t id : ids) tokens.push_back(token(id));
  return impl_->decoder.apply(std::move(tokens));
}

std::optional<int32_t> Tokenizer::id(std::string_view token) const {
  for (const auto& added : impl_->added)
    if (added.content == token) return added.id;
  const auto found = impl_->model.vocabulary().find(token);
  return found == impl_->model.vocabulary().end() ? std::nullopt : std::optional(found->second);
}
std::string Tokenizer::token(int32_t id) const {
  return id >= 0 && id < ids() ? impl_->tokens[static_cast<size_t>(id)] : "";
}
bool Tokenizer::special(int32_t id) const {
  return id >= 0 && id < ids() && impl_->special[static_cast<size_t>(id)];
}
int64_t Tokenizer::ids() const { return static_cast<int64_t>(impl_->tokens.size()); }
const std::vector<int32_t>& Tokenizer::before() const { return impl_->before; }
const std::vector<int32_t>& Tokenizer::behind() const { return impl_->behind; }
const std::string& Tokenizer::path() const { return impl_->path; }
const std::string& Tokenizer::fingerprint() const { return impl_->fingerprint; }

std::optional<size_t> not_utf8_at(std::string_view text) {
  utf8proc_int32_t point = 0;
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const auto used = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                       static_cast<utf8proc_ssize_t>(text.size() - at), &point);
    if (used <= 0) return at;
    at += static_cast<size_t>(used);
  }
  return {};
}

}  // namespace lockstep::launcher::data
