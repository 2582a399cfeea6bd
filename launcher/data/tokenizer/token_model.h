// TokenModel: turns a piece of text into tokens; the "model" of tokenizer.json has three types.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep::launcher::data {

// An id, and its number of bytes in the piece.
struct PieceToken {
  int32_t id;
  uint32_t bytes;
};

struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};
using Vocabulary = std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>>;

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of a UTF-8 piece. UserError naming a character that has no token.
  virtual void encode(std::string_view piece, std::vector<PieceToken>& out) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;  // as the file spells it
};

}  // namespace lockstep::launcher::data
