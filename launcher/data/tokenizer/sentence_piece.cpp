// A model of SentencePiece by its own library: normal form, dummy prefix, user-defined symbols and byte
// fallback are the file's and the library's.
#include <sentencepiece_processor.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/plain_file.h"
#include "core/reading/json_text.h"
#include "launcher/data/tokenizer/tokenizer_kind.h"

namespace lockstep::launcher::data {

namespace {
struct SentencePieceTokenizer : Tokenizer::Impl {
  sentencepiece::SentencePieceProcessor model;

  SentencePieceTokenizer(const std::string& file, const std::string& text) {
    path = file, fingerprint = hash_hex(text);
    const auto read = model.LoadFromSerializedProto(text);
    if (!read.ok() || model.GetPieceSize() < 1)
      throw UserError(
          str("data.tokenizer: ", path, " is no model of SentencePiece",
              read.ok() ? "" : ": " + shortened(printable(read.message()), 200),
              "; name a tokenizer.model that SentencePiece wrote, or a tokenizer.json of Hugging Face"));
    for (int32_t id = 0; id < model.GetPieceSize(); ++id) {
      tokens.push_back(model.IdToPiece(id));
      special.push_back(model.IsControl(id) || model.IsUnknown(id));
    }
    // SentencePiece puts nothing around a text by itself; what a model was trained with stands beside it.
    std::string beside, why;
    const auto config = std::filesystem::path(path).parent_path() / "tokenizer_config.json";
    if (!read_plain(config.string(), beside, why, kJsonBytes)) return;
    const Json said = bounded_json(beside, {.members = kAllMembers});
    auto asks = [&](const char* key) { return said.is_object() && said.contains(key) && said[key] == true; };
    if (asks("add_bos_token") && model.bos_id() >= 0) before.push_back(model.bos_id());
    if (asks("add_eos_token") && model.eos_id() >= 0) behind.push_back(model.eos_id());
  }

  void encode(MarkedText text, std::vector<Tokenizer::Token>& out) const override {
    const sentencepiece::ImmutableSentencePieceText made = model.EncodeAsImmutableProto(text.text);
    for (size_t i = 0, n = made.pieces_size(); i < n; ++i) {
      const auto piece = made.pieces(static_cast<int>(i));
      out.push_back({static_cast<int32_t>(piece.id()), text.part_at(piece.begin()),
                     text.learnt_in(piece.begin(), piece.end())});
    }
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::vector<int> known;
    for (int32_t id : ids)
      if (id >= 0 && id < model.GetPieceSize()) known.push_back(id);
    return model.DecodeIds(known);
  }

  std::optional<int32_t> id(std::string_view token) const override {
    const int found = model.PieceToId(token);
    return found >= 0 && found < model.GetPieceSize() && model.IdToPiece(found) == token
               ? std::optional(found)
               : std::nullopt;
  }
};
}  // namespace

std::shared_ptr<const Tokenizer::Impl> sentence_piece_tokenizer(const std::string& path,
                                                                const std::string& text) {
  return std::make_shared<const SentencePieceTokenizer>(path, text);
}

}  // namespace lockstep::launcher::data
