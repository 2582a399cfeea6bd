// The normal form that a SentencePiece model carries: a table of replacements, as tokenizer.json has it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::launcher::data {

class Precompiled {
 public:
  // Of base64. UserError naming `who` for what is no such table, and for one that has text which is not
  // UTF-8.
  Precompiled(const std::string& base64, const std::string& who);
  // Appends the normal form of a text that is UTF-8: by clusters of up to five bytes, else by characters.
  // `grown` is told now and then how long `out` is.
  void apply(std::string_view text, std::string& out, const std::function<void(size_t)>& grown) const;

  // The table as bytes, as a model of SentencePiece has it, for a reader that follows it unchecked, past its
  // end where it leads there. UserError naming `who`.
  static void check_for_others(const std::string& bytes, const std::string& who);

 private:
  Precompiled() = default;
  void read(const std::string& bytes, const std::string& who);
  void check(const std::string& who) const;
  bool replace(std::string_view chunk, std::string& out) const;
  std::vector<uint32_t> units_;  // a double array: Aoe, 1989, in the layout of darts-clone
  std::string normal_;           // replacements, each up to a zero
};

}  // namespace lockstep::launcher::data
