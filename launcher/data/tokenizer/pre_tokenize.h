// Pre-tokenizers of tokenizer.json: where a text is cut before its pieces become tokens.
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
  // Of the file's "pre_tokenizer": null, ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace,
  // WhitespaceSplit, BertPreTokenizer and Sequence of them. UserError naming `who` for another, and for one
  // that adds text (a space in front, Metaspace) behind one that cuts.
  PreTokenizer(const nlohmann::json& described, const std::string& who);

  // Changes the text, then calls `piece` with each piece and where it begins in it. A piece is UTF-8, but
  // where ByteLevel stands in front of a cut.
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
  // By the cuts from i on; by this one and those behind it.
  void cut(size_t i, std::string_view piece, size_t at, const Piece& to) const;
  void cut_by(size_t i, std::string_view piece, size_t at, const Piece& to) const;

  std::vector<std::function<void(MarkedText&)>> edits_;
  std::vector<Cut> cuts_;
  bool byte_level_ = false;
  size_t cuts_of_bytes_ = 0;  // the first that stands behind ByteLevel
};

}  // namespace lockstep::launcher::data
