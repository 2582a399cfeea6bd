// JSON texts that people and other programs write: the one reader for all of them. Bounded in depth, members,
// bytes and numbers, in a time that grows with the text alone, and errors that show the place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

namespace lockstep {

inline constexpr int kJsonDepth = 64;            // objects and lists within one another
inline constexpr size_t kJsonMembers = 1000;     // that are kept of one object
inline constexpr int64_t kJsonBytes = 16 << 20;  // of a text

// Of a text whose form allows more than a config does. A search in an object walks through its members, so
// more are taken only where the object is walked through, or searched a fixed number of times.
struct JsonBounds {
  size_t members = kJsonMembers;
  int64_t bytes = kJsonBytes;
};
inline constexpr size_t kAllMembers = SIZE_MAX;  // as many as the bytes hold

template <class Value>
struct JsonTextOf {
  Value value = Value::object();  // empty where `errors` has a reason for which nothing could be read
  std::vector<std::string>
      errors;  // "line 3, column 5: ..." with the line and a mark below it; keys that are given twice
  bool readable = true;  // value is the text's
  bool beyond = false;   // a bound was passed (depth, bytes, a number's size); else the text is not JSON
  int64_t members_left_out = 0;  // of objects with more members than the bound
};
using JsonText = JsonTextOf<Json>;
using SortedJsonText = JsonTextOf<nlohmann::json>;  // for objects that are searched often, as vocabularies
enum class Comments { taken, refused };
// Reads a text; with Comments::taken, // and /* */ comments and a comma before a closing bracket are white
// space. Of a key that is given twice the last value counts. Throws nothing.
JsonText read_json(std::string_view text, Comments comments = Comments::taken, const JsonBounds& bounds = {});
SortedJsonText read_sorted_json(std::string_view text, const JsonBounds& bounds = {});

// The value of a text that a program wrote; discarded() for anything that is not JSON or passes a bound.
Json bounded_json(std::string_view text, const JsonBounds& bounds = {});

}  // namespace lockstep
