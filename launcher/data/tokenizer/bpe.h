// Byte pair encoding: turns pieces of text into ids by merges in rank order. Sennrich et al., arXiv
// 1508.07909.
#pragma once

#include <nlohmann/json.hpp>

#include "launcher/data/tokenizer/token_model.h"

namespace lockstep::launcher::data {

class Bpe : public TokenModel {
 public:
  // Reads the file's "model". `byte_level`: tokens are spelled in ByteLevel's alphabet, one character per
  // byte. UserError naming `who` for a model with dropout, prefixes or suffixes, and for merges of unknown
  // tokens.
  Bpe(const nlohmann::json& model, bool byte_level, const std::string& who);

  // Appends the tokens of a piece. UserError naming a character without a token if the model has neither
  // unk_token nor byte_fallback.
  void encode(std::string_view piece, std::vector<PieceToken>& out) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  struct Merge {
    uint64_t pair = ~uint64_t{0};  // left << 32 | right
    uint32_t rank = 0;
    int32_t id = 0;
  };
  const Merge* merge_of(int32_t left, int32_t right) const;
  void read_vocabulary(const nlohmann::json& model);
  void read_merges(const nlohmann::json& model);
  void first_symbols(std::string_view piece, std::vector<PieceToken>& out) const;
  void merge_few(std::vector<PieceToken>& symbols) const;
  void merge_many(std::vector<PieceToken>& symbols) const;

  std::string who_;
  bool byte_level_, byte_fallback_, fuse_unk_, ignore_merges_;
  int32_t unk_ = -1;
  Vocabulary vocabulary_;
  Vocabulary pieces_;          // in the spelling of pieces: raw bytes if byte-level
  int32_t bytes_[256];         // ids of single bytes, or of <0x..>; -1: none
  std::vector<Merge> merges_;  // open addressing, a power of two
  size_t longest_ = 0;         // length in bytes of the longest of pieces_
};

// ByteLevel's alphabet: maps bytes to printable characters.
std::string spelled_bytes(std::string_view bytes);
// The bytes of a token; false if a character is not in the alphabet.
bool bytes_of_spelling(std::string_view token, std::string& bytes);

}  // namespace lockstep::launcher::data
