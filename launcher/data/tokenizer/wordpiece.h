// WordPiece: a word from its longest known beginnings on. Schuster and Nakajima, 2012; BERT.
#pragma once

#include <nlohmann/json.hpp>

#include "launcher/data/tokenizer/token_finder.h"
#include "launcher/data/tokenizer/token_model.h"

namespace lockstep::launcher::data {

class WordPiece : public TokenModel {
 public:
  // Of the file's "model": tokens, of which those within a word begin with a prefix. UserError naming `who`
  // for rows that are none, and for an unk_token that is no token.
  WordPiece(const nlohmann::json& model, const std::string& who);

  // A word that has a part without a token is one unk_token.
  void encode(std::string_view piece, std::vector<PieceToken>& out) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
  std::string prefix_;
  int32_t unk_ = -1;
  int64_t most_ = 100;  // characters of a word; one of more is unk_token
  TokenFinder words_;   // tokens that begin a word
  LongestTokens rest_;  // those within one, without their prefix
};

}  // namespace lockstep::launcher::data
