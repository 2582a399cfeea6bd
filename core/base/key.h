// Config keys as fields of an options struct: a field's initializer states its name, default, help and rule,
// and the table of keys is generated from the struct.
//
//   struct MixerOptions {
//     int64_t width = key(&width, "width", 256, "features per patch", between(1, 0x1p20));
//   };
//   MixerOptions options = options_from<MixerOptions>({{"width", 512}});
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace lockstep {

// Restricts the values of a key beyond their type. Bounds hold for each element of a list.
struct Rule {
  // Empty: any. "word:N" means word: and a whole number, "word:PATH" word: and any text.
  std::vector<std::string> choices{};
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;   // low itself is refused
  bool high_open = false;  // high itself is refused
  size_t most = 1000;      // elements of a list
};
std::string bound_text(double bound);      // whole numbers without an exponent
std::string range_text(const Rule& rule);  // "at least 1 and less than 8"; "" without bounds
inline Rule one_of(std::vector<std::string> choices) { return {.choices = std::move(choices)}; }
inline Rule at_most_values(size_t most) { return {.most = most}; }
inline Rule at_least(double low) { return {.low = low}; }
inline Rule above(double low) { return {.low = low, .low_open = true}; }
inline Rule between(double low, double high) { return {.low = low, .high = high}; }
// low <= value < high
inline Rule from_below(double low, double high) { return {.low = low, .high = high, .high_open = true}; }

// Returns "" if `value` is a multiple of `divisor`, or if either is below 1, which another check reports.
// Otherwise returns the error with the two nearest multiples: "model.heads is 4, not a multiple of the mesh's
// tp size, 3; 3 and 6 are".
std::string multiple_error(const std::string& what, int64_t value, const std::string& of, int64_t divisor);
// Appends multiple_error's text to `errors`, unless it is "".
void add_multiple(std::vector<std::string>& errors, const std::string& what, int64_t value,
                  const std::string& of, int64_t divisor);

// One row of the table: how to read, write and explain a field of a struct of options.
struct ConfigKey {
  std::string path;  // "optim.schedule.kind"
  std::string type;  // "integer", "number", "boolean", "string", "list of strings", ...
  std::string help;
  Rule rule;
  size_t offset;  // of the field in the struct
  Json fallback;  // the default
  std::function<Json(const void* options)> get;
  // Returns false, and leaves the field unchanged, if the value has another type.
  std::function<bool(void* options, const Json& value)> set;
  // The value as the field's type writes it (1e6 becomes 1000000); nullopt if it has another type.
  std::optional<Json> (*written)(const Json& value);
  // The kinds of model or task that have this key; empty: it is common to all
  std::vector<std::string> kinds = {};
};

// Returns the first key that both tables have with different types, as a pair of both rows; nullopt if there
// is none.
std::optional<std::pair<ConfigKey, ConfigKey>> type_conflict(std::span<const ConfigKey> keys,
                                                             std::span<const ConfigKey> others);

// Returns "" if all numbers of a value are within the bounds of its key, else the error: "width is 0; it must
// be at least 1".
std::string range_error(const ConfigKey& row, const Json& value);

namespace key_detail {
// The object whose table is being built, and the rows so far; `reading` is null at all other times.
struct Reading {
  const char* base;
  std::vector<ConfigKey> rows;
};
inline thread_local Reading* reading = nullptr;

template <class T>
struct Kind;  // name of the type, get, set
}  // namespace key_detail

// The initializer of a field. Returns the default; adds a row if a table is being built.
template <class T>
T key(T* field, const char* path, std::type_identity_t<T> fallback, const char* help, Rule rule = {}) {
  if (auto* reading = key_detail::reading) {
    using Kind = key_detail::Kind<T>;
    size_t offset = reinterpret_cast<const char*>(field) - reading->base;
    auto at = [offset](auto* options) { return reinterpret_cast<const char*>(options) + offset; };
    reading->rows.push_back(
        {path, Kind::name, help, std::move(rule), offset, Kind::get(&fallback),
         [at](const void* options) { return Kind::get(at(options)); },
         [at](void* options, const Json& value) { return Kind::set(const_cast<char*>(at(options)), value); },
         [](const Json& value) -> std::optional<Json> {
           T typed{};
           if (!Kind::set(&typed, value)) return {};
           return Kind::get(&typed);
         }});
  }
  return fallback;
}

namespace key_detail {

// Plain values and lists of them: nlohmann converts them, we only test the type.
template <class T>
struct PlainKind {
  static Json get(const void* field) { return Json(*static_cast<const T*>(field)); }
  static bool set(void* field, const Json& value) {
    if (!Kind<T>::accepts(value)) return false;
    *static_cast<T*>(field) = value.get<T>();
    return true;
  }
};
// A user-defined type has its own JSON conversion and supplies its type name and its written form.
template <class T>
struct Kind : PlainKind<T> {
  static constexpr const char* name = T::kKeyType;
  static bool accepts(const Json& v) { return T::is_written_as(v); }
};
template <>
struct Kind<bool> : PlainKind<bool> {
  static constexpr const char* name = "boolean";
  static bool accepts(const Json& v) { return v.is_boolean(); }
};
template <>
struct Kind<int64_t> : PlainKind<int64_t> {
  static constexpr const char* name = "integer";
  static bool accepts(const Json& v) {
    if (v.is_number_unsigned())
      return v.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (v.is_number_float())
      return v.get<double>() == static_cast<double>(static_cast<int64_t>(bounded(v.get<double>())));  // 1e6
    return v.is_number_integer();
  }
  static double bounded(double x) { return x >= -0x1p53 && x <= 0x1p53 ? x : 0.5; }
};
template <>
struct Kind<double> : PlainKind<double> {
  static constexpr const char* name = "number";
  static bool accepts(const Json& v) { return v.is_number(); }
};
template <>
struct Kind<std::string> : PlainKind<std::string> {
  static constexpr const char* name = "string";
  static bool accepts(const Json& v) { return v.is_string(); }
};
template <class T>
struct Kind<std::vector<T>> : PlainKind<std::vector<T>> {
  static inline const std::string name = std::string("list of ") + Kind<T>::name + "s";
  static bool accepts(const Json& v) {
    if (!v.is_array()) return false;
    for (const auto& element : v)
      if (!Kind<T>::accepts(element)) return false;
    return true;
  }
};

}  // namespace key_detail

// The table of a struct of options, in the order of its fields.
template <class Options>
std::vector<ConfigKey> read_keys() {
  alignas(Options) static unsigned char storage[sizeof(Options)];
  key_detail::Reading reading{reinterpret_cast<const char*>(storage), {}};
  auto* before = std::exchange(key_detail::reading, &reading);
  auto* object = new (storage) Options;
  key_detail::reading = before;
  object->~Options();
  for (const auto& row : reading.rows)
    LS_CHECK(row.offset < sizeof(Options), "key ", row.path, " names a field of another object");
  return std::move(reading.rows);
}
template <class Options>
std::span<const ConfigKey> keys_of() {
  static const std::vector<ConfigKey> table = read_keys<Options>();
  return table;
}

// Builds options from the named values; the others keep their defaults. Throws UserError for an unknown name
// (with the nearest known one) and for a value of another type. Does not check bounds: range_error does.
template <class Options>
Options options_from(const Json& given, const std::string& who) {
  Options out;
  std::vector<std::string> names;
  for (const auto& row : keys_of<Options>()) names.push_back(row.path);
  for (const auto& [name, value] : given.items()) {
    const auto rows = keys_of<Options>();
    auto row =
        std::find_if(rows.begin(), rows.end(), [&, &name = name](const auto& r) { return r.path == name; });
    if (row == rows.end()) {
      const std::string near = nearest(name, names);
      throw UserError(str(who, " has no option ", name, near.empty() ? "" : str("; did you mean ", near, "?"),
                          "; options: ", join(names, ", ")));
    }
    if (!row->set(&out, value))
      throw UserError(str(who, ": ", name, " is ", value.dump(), "; it must be ",
                          row->type == "integer" ? "an " : "a ", row->type));
  }
  return out;
}

}  // namespace lockstep
