// The normalization table of a SentencePiece model: replacements, as stored in tokenizer.json.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::launcher::data {

class Precompiled {
 public:
  // Parses base64. UserError naming `who` for an invalid table, and for one with text that is not UTF-8.
  Precompiled(const std::string& base64, const std::string& who);
  // Appends the normal form of a UTF-8 text: by clusters of up to five bytes, else by characters. `grown` is
  // called now and then with the length of `out`.
  void apply(std::string_view text, std::string& out, const std::function<void(size_t)>& grown) const;

  // Checks the raw table of a SentencePiece model for a reader without bounds checks. UserError naming `who`.
  static void check_for_others(const std::string& bytes, const std::string& who);

 private:
  Precompiled() = default;
  void read(const std::string& bytes, const std::string& who);
  void check(const std::string& who) const;
  bool replace(std::string_view chunk, std::string& out) const;
  std::vector<uint32_t> units_;  // a double array: Aoe, 1989, in the layout of darts-clone
  std::string normal_;           // replacements, zero-terminated
};

}  // namespace lockstep::launcher::data
