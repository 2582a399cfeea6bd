// The reader of JSON texts written by people and other programs. It bounds depth, members, bytes and numbers,
// takes time linear in the text, and reports errors with their position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

namespace lockstep {

inline constexpr int kJsonDepth = 64;            // objects and lists within one another
inline constexpr size_t kJsonMembers = 1000;     // members of one object that are kept
inline constexpr int64_t kJsonBytes = 16 << 20;  // of a text

// Bounds for formats that allow more than a config. A search in an object scans its members. So allow more
// members only if the object is iterated over or searched a fixed number of times.
struct JsonBounds {
  size_t members = kJsonMembers;
  int64_t bytes = kJsonBytes;
};
inline constexpr size_t kAllMembers = SIZE_MAX;  // as many as the bytes hold

template <class Value>
struct JsonTextOf {
  Value value = Value::object();  // empty if `errors` says why nothing could be read
  std::vector<std::string>
      errors;  // "line 3, column 5: ..." with the line and a mark below it; keys that are given twice
  bool readable = true;  // value is the text's
  bool beyond = false;   // a bound was passed (depth, bytes, a number's size); else the text is not JSON
  int64_t members_left_out = 0;  // of objects with more members than the bound
};
using JsonText = JsonTextOf<Json>;
using SortedJsonText = JsonTextOf<nlohmann::json>;  // for objects that are searched often, as vocabularies
enum class Comments { taken, refused };
// Reads a text. With Comments::taken, // and /* */ comments and a comma before a closing bracket count as
// white space. If a key occurs twice, the last value counts. Never throws.
JsonText read_json(std::string_view text, Comments comments = Comments::taken, const JsonBounds& bounds = {});
SortedJsonText read_sorted_json(std::string_view text, const JsonBounds& bounds = {});

// The value of a text that a program wrote; discarded() if it is not JSON or exceeds a bound.
Json bounded_json(std::string_view text, const JsonBounds& bounds = {});

}  // namespace lockstep
