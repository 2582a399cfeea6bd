// Runs a SentencePiece model with its own library, which handles normalization, dummy prefix, user-defined
// symbols and byte fallback.
#include <sentencepiece_processor.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/files/plain_file.h"
#include "core/reading/json_text.h"
#include "launcher/data/tokenizer/precompiled.h"
#include "launcher/data/tokenizer/tokenizer_kind.h"

namespace lockstep::launcher::data {

namespace {
// Visits the byte fields of a Protocol Buffers message: take(number, bytes). False if it is not a valid
// message.
template <class Take>
bool each_field(std::string_view message, const Take& take) {
  auto number = [&](uint64_t& out) {
    out = 0;
    for (int shift = 0; shift < 64 && !message.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(message.front());
      message.remove_prefix(1);
      out |= uint64_t{byte & 127u} << shift;
      if (byte < 128) return true;
    }
    return false;
  };
  while (!message.empty()) {
    uint64_t tag = 0, bytes = 0;
    if (!number(tag)) return false;
    const uint64_t kind = tag & 7;
    if (kind == 0 && !number(bytes)) return false;
    if (kind == 0) continue;
    if (kind == 2 ? !number(bytes) : kind != 1 && kind != 5) return false;
    if (kind != 2) bytes = kind == 1 ? 8 : 4;
    if (bytes > message.size()) return false;
    if (kind == 2) take(tag >> 3, message.substr(0, bytes));
    message.remove_prefix(bytes);
  }
  return true;
}

// Checks a model's normalization tables (normalizer_spec and denormalizer_spec), because the library reads
// them without bounds checks.
void check_tables(std::string_view model, const std::string& who) {
  each_field(model, [&](uint64_t member, std::string_view spec) {
    if (member != 3 && member != 5) return;
    const bool whole = each_field(spec, [&](uint64_t of_spec, std::string_view table) {
      if (of_spec == 2 && !table.empty()) Precompiled::check_for_others(std::string(table), who);
    });
    if (!whole) throw UserError(who + ": its normalizer is no message of SentencePiece; is the file whole?");
  });
}

struct SentencePieceTokenizer : Tokenizer::Impl {
  sentencepiece::SentencePieceProcessor model;

  SentencePieceTokenizer(const std::string& file, const std::string& text) {
    path = file, fingerprint = hash_hex(text);
    check_tables(text, "data.tokenizer: " + path);
    const std::string wrong = load(text);
    if (!wrong.empty() || model.GetPieceSize() < 1)
      throw UserError(
          str("data.tokenizer: ", path, " is not a SentencePiece model",
              wrong.empty() ? "" : ": " + shortened(printable(wrong), 200),
              "; name a tokenizer.model that SentencePiece wrote, or a tokenizer.json of Hugging Face"));
    for (int32_t id = 0; id < model.GetPieceSize(); ++id) {
      tokens.push_back(model.IdToPiece(id));
      special.push_back(model.IsControl(id) || model.IsUnknown(id));
    }
    // SentencePiece adds no frame; the one of a model's training is in a file next to it.
    std::string beside, why;
    const auto config = std::filesystem::path(path).parent_path() / "tokenizer_config.json";
    if (!read_plain(config.string(), beside, why, kJsonBytes)) return;
    const Json said = bounded_json(beside, {.members = kAllMembers});
    auto asks = [&](const char* key) { return said.is_object() && said.contains(key) && said[key] == true; };
    if (asks("add_bos_token") && model.bos_id() >= 0) before.push_back(model.bos_id());
    if (asks("add_eos_token") && model.eos_id() >= 0) behind.push_back(model.eos_id());
  }

  // The library's error for a refused model: a status, or an exception from its tables.
  std::string load(const std::string& text) {
    try {
      const auto read = model.LoadFromSerializedProto(text);
      return read.ok() ? "" : str("it does not load: ", read.message());
    } catch (const std::exception& error) { return error.what(); }
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
