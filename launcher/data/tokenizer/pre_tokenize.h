// Pre-tokenizers of tokenizer.json: cut a text into pieces before these become tokens.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/data/tokenizer/marked_text.h"
#include "launcher/data/tokenizer/pattern.h"

namespace lockstep::launcher::data {

class PreTokenizer {
 public:
  // Reads the file's "pre_tokenizer": null, ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace,
  // WhitespaceSplit, BertPreTokenizer and Sequence of them. UserError naming `who` for another, and for one
  // that adds text (a leading space, Metaspace) after one that cuts.
  PreTokenizer(const nlohmann::json& described, const std::string& who);

  // Changes the text, then calls `piece` with each piece and its start in the text. A piece is UTF-8 unless
  // ByteLevel comes before a cut.
  using Piece = std::function<void(std::string_view piece, size_t at)>;
  void apply(MarkedText& text, const Piece& piece) const;

  bool byte_level() const { return byte_level_; }  // pieces are bytes, and tokens are spelled in its alphabet

 private:
  enum class Behaviour { isolated, removed, with_previous, with_next, contiguous };
  struct Cut {
    Pattern pattern;
    Behaviour behaviour;
    bool invert;
  };
  void add(const nlohmann::json& described, const std::string& who);
  static Behaviour behaviour_in(const nlohmann::json& described, const std::string& who);
  void add_sequence(const nlohmann::json& list, const std::string& who);
  void add_metaspace(const nlohmann::json& described, const std::string& who);
  void add_marked_words(const nlohmann::json& metaspace, const std::string& who);
  void add_cut(const Pattern& pattern, Behaviour behaviour, bool invert = false);
  void edit(const std::string& type, const std::string& who, std::function<void(MarkedText&)> change);
  // Applies the cuts from i on; applies this one and the later ones.
  void cut(size_t i, std::string_view piece, size_t at, const Piece& to) const;
  void cut_by(size_t i, std::string_view piece, size_t at, const Piece& to) const;

  std::vector<std::function<void(MarkedText&)>> edits_;
  std::vector<Cut> cuts_;
  bool byte_level_ = false;
  size_t cuts_of_bytes_ = 0;  // the first cut after ByteLevel
};

}  // namespace lockstep::launcher::data
