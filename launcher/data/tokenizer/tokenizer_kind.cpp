// Opens a tokenizer by its file's kind; code shared by all kinds.
#include "launcher/data/tokenizer/tokenizer_kind.h"

#include <utf8proc.h>

#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/reading/lfs_pointer.h"

namespace lockstep::launcher::data {

Tokenizer::Tokenizer(const std::string& path) {
  std::string text, why;
  if (!read_plain(path, text, why, kTokenizerBytes))
    throw UserError(
        str("data.tokenizer: cannot read ", path, ": ", why,
            "; name a tokenizer.json of Hugging Face, a tokenizer.model of SentencePiece, or bytes"));
  if (is_lfs_pointer(text)) throw UserError(str("data.tokenizer: ", path, " ", kLfsPointer));
  impl_ = path.ends_with(".model") ? sentence_piece_tokenizer(path, text) : json_tokenizer(path, text);
}

std::vector<Tokenizer::Token> Tokenizer::encode_parts(std::span<const std::string> parts,
                                                      const std::vector<bool>& learnt) const {
  MarkedText all;
  for (size_t i = 0; i < parts.size(); ++i) {
    // Each part is checked separately, so that steps that work by part never see half a character.
    if (const auto at = not_utf8_at(parts[i]))
      throw UserError(
          str("the text is not UTF-8 from byte ", all.text.size() + *at,
              " on; write it as UTF-8 (iconv -t utf-8), or train on bytes with data.tokenizer bytes"));
    all.marks.push_back({all.text.size(), static_cast<int>(i), i < learnt.size() && learnt[i]});
    all.text += parts[i];
  }
  if (all.marks.empty()) all.marks.push_back({0, 0});
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

std::string Tokenizer::decode(std::span<const int32_t> ids) const { return impl_->decode(ids); }

std::optional<int32_t> Tokenizer::id(std::string_view token) const { return impl_->id(token); }
std::string Tokenizer::token(int32_t id) const {
  return id >= 0 && id < ids() ? impl_->tokens[static_cast<size_t>(id)] : "";
}
bool Tokenizer::special(int32_t id) const {
  return id >= 0 && id < ids() && impl_->special[static_cast<size_t>(id)];
}
int64_t Tokenizer::ids() const { return static_cast<int64_t>(impl_->tokens.size()); }
const std::vector<int32_t>& Tokenizer::before() const { return impl_->before; }
const std::vector<int32_t>& Tokenizer::behind() const { return impl_->behind; }
const std::optional<Tokenizer::Frame>& Tokenizer::pair_frame() const { return impl_->pair_frame; }
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
