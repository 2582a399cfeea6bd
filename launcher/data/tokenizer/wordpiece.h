// WordPiece: splits a word by its longest known prefixes. Schuster and Nakajima, 2012; BERT.
#pragma once

#include <nlohmann/json.hpp>

#include "launcher/data/tokenizer/token_finder.h"
#include "launcher/data/tokenizer/token_model.h"

namespace lockstep::launcher::data {

class WordPiece : public TokenModel {
 public:
  // Reads the file's "model": tokens, where those inside a word begin with a prefix. UserError naming `who`
  // for invalid rows, and for an unk_token that is not a token.
  WordPiece(const nlohmann::json& model, const std::string& who);

  // A word with a part that has no token becomes one unk_token.
  void encode(std::string_view piece, std::vector<PieceToken>& out) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
  std::string prefix_;
  int32_t unk_ = -1;
  int64_t most_ = 100;  // characters; a longer word becomes unk_token
  TokenFinder words_;   // tokens that begin a word
  LongestTokens rest_;  // those within one, without their prefix
};

}  // namespace lockstep::launcher::data
