// JSON texts that people and other programs write: bounded in depth, members and numbers, and errors that
// show the place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

namespace lockstep {

inline constexpr int kJsonDepth = 64;            // objects and lists within one another
inline constexpr size_t kJsonMembers = 1000;     // that are kept of one object
inline constexpr int64_t kJsonBytes = 16 << 20;  // of a text

struct JsonText {
  Json value = Json::object();  // empty where `errors` has a reason for which nothing could be read
  std::vector<std::string>
      errors;  // "line 3, column 5: ..." with the line and a mark below it; keys that are given twice
  bool readable = true;  // value is the text's
  bool beyond = false;   // a bound was passed (depth, bytes, a number's size); else the text is not JSON
  int64_t members_left_out = 0;  // of objects with more than kJsonMembers
};
enum class Comments { taken, refused };
// Reads a text; with Comments::taken, // and /* */ comments and a comma before a closing bracket are white
// space. Throws nothing.
JsonText read_json(std::string_view text, Comments comments = Comments::taken);

// The text of a plain file, or of a pipe that a shell made (<(...)), of at most kJsonBytes; else why there is
// none: "it is a folder".
struct ReadText {
  std::string text, problem;
};
ReadText read_text(const std::string& path);

// The value of a text that a program wrote; discarded() for anything that is not JSON or passes a bound.
Json bounded_json(std::string_view text);

}  // namespace lockstep
