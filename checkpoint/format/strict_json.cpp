// Strict JSON on top of the common JSON reader: its warnings are errors here.
#include "checkpoint/format/strict_json.h"

#include <limits>

#include "checkpoint/format/damage.h"
#include "core/reading/json_text.h"

namespace lockstep::checkpoint::strict {

namespace {
constexpr int64_t kMaxBytes = int64_t{1} << 30;  // readers of files set lower limits

int64_t natural_of(const Json& value, const std::string& what) {
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return static_cast<int64_t>(value.get<uint64_t>());
  if (value.is_number_integer() && !value.is_number_unsigned())
    throw DamagedError(str(what, " is negative: ", value.dump()));
  if (value.is_number())
    throw DamagedError(str(what, " is ", value.dump(), "; an integer from 0 to 2^63 - 1 belongs there"));
  throw DamagedError(str(what, " is a ", value.type_name(), "; an integer belongs there"));
}
}  // namespace

Json parse(std::string_view text, const std::string& where) {
  if (text.empty()) throw DamagedError(str(where, " is empty"));
  JsonText read = read_json(text, Comments::refused, {.members = kAllMembers, .bytes = kMaxBytes});
  // One line: an excerpt of arbitrary bytes would not help.
  if (!read.errors.empty()) throw DamagedError(str(where, ": ", split(read.errors[0], '\n')[0]));
  return std::move(read.value);
}

const Json& any(const Json& in, const char* key, const std::string& where) {
  if (!in.is_object()) throw DamagedError(str(where, " is a ", in.type_name(), "; an object belongs there"));
  auto found = in.find(key);
  if (found == in.end()) throw DamagedError(str(where, ": key \"", key, "\" is missing"));
  return *found;
}
const Json& object(const Json& in, const char* key, const std::string& where) {
  const Json& value = any(in, key, where);
  if (!value.is_object())
    throw DamagedError(str(where, ": \"", key, "\" is a ", value.type_name(), "; an object belongs there"));
  return value;
}
const Json& array(const Json& in, const char* key, const std::string& where) {
  const Json& value = any(in, key, where);
  if (!value.is_array())
    throw DamagedError(str(where, ": \"", key, "\" is a ", value.type_name(), "; an array belongs there"));
  return value;
}
std::string text(const Json& in, const char* key, const std::string& where) {
  const Json& value = any(in, key, where);
  if (!value.is_string())
    throw DamagedError(str(where, ": \"", key, "\" is a ", value.type_name(), "; a string belongs there"));
  return value.get<std::string>();
}
int64_t natural(const Json& in, const char* key, const std::string& where) {
  return natural_of(any(in, key, where), str(where, ": \"", key, "\""));
}
std::vector<int64_t> naturals(const Json& in, const char* key, const std::string& where) {
  std::vector<int64_t> out;
  for (const Json& value : array(in, key, where))
    out.push_back(natural_of(value, str(where, ": \"", key, "\"[", out.size(), "]")));
  return out;
}

int64_t multiply(int64_t a, int64_t b, const std::string& where) {
  int64_t out;
  if (__builtin_mul_overflow(a, b, &out))
    throw DamagedError(str(where, ": ", a, " times ", b, " passes 2^63"));
  return out;
}
int64_t add(int64_t a, int64_t b, const std::string& where) {
  int64_t out;
  if (__builtin_add_overflow(a, b, &out))
    throw DamagedError(str(where, ": ", a, " plus ", b, " passes 2^63"));
  return out;
}
int64_t elements(const std::vector<int64_t>& shape, const std::string& where) {
  int64_t n = 1;
  bool empty = false;
  for (int64_t size : shape) {
    if (size == 0)
      empty = true;
    else
      // a size of 0 does not excuse the others: later products use the same sizes
      n = multiply(n, size, where);
  }
  return empty ? 0 : n;
}

}  // namespace lockstep::checkpoint::strict
