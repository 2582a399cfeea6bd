// Unigram language model: chooses the tokens with the highest product of probabilities. Kudo, arXiv
// 1804.10959.
#pragma once

#include <nlohmann/json.hpp>

#include "launcher/data/tokenizer/token_finder.h"
#include "launcher/data/tokenizer/token_model.h"

namespace lockstep::launcher::data {

class Unigram : public TokenModel {
 public:
  // Reads the file's "model": tokens with their log probabilities. UserError naming `who` for invalid rows,
  // and for an unk_id out of range.
  Unigram(const nlohmann::json& model, const std::string& who);

  void encode(std::string_view piece, std::vector<PieceToken>& out) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  struct Node {  // the best tokenization of the piece up to some byte
    double score = 0;
    int64_t begin = -1;  // start of its last token; -1: not reached yet
    int32_t id = -1;
  };
  void read(const nlohmann::json& model);
  void walk(std::string_view piece, std::vector<Node>& best) const;
  void put(std::string_view text, std::vector<PieceToken>& out) const;

  std::string who_;
  bool byte_fallback_;
  int32_t unk_ = -1;
  double unk_score_ = 0;
  Vocabulary vocabulary_;
  std::vector<double> scores_;
  int32_t bytes_[256];
  TokenFinder tokens_;
};

}  // namespace lockstep::launcher::data
