// A config key is one field: its initializer states path, default, help and rule, and the table of keys is
// read off a RunConfig.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/json.h"

namespace lockstep::launcher {

// What a value may be, beyond its type. Bounds hold for each element of a list.
struct Rule {
  std::vector<std::string> choices{};  // empty: any; "word:N" stands for word: and a whole number,
                                       // "word:PATH" for word: and any text
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;   // low itself is refused
  bool high_open = false;  // high itself is refused
  size_t most = 1000;      // elements of a list
};
std::string bound_text(double bound);  // whole numbers without an exponent
inline Rule one_of(std::vector<std::string> choices) { return {.choices = std::move(choices)}; }
inline Rule at_most_values(size_t most) { return {.most = most}; }
inline Rule at_least(double low) { return {.low = low}; }
inline Rule above(double low) { return {.low = low, .low_open = true}; }
inline Rule between(double low, double high) { return {.low = low, .high = high}; }
inline Rule from_below(double low, double high) {
  return {.low = low, .high = high, .high_open = true};
}  // low <= value < high

// One row of the table: how to read, write and explain a field of a RunConfig.
struct ConfigKey {
  std::string path;  // "optim.schedule.kind"
  std::string type;  // "integer", "number", "boolean", "string", "list of strings", ...
  std::string help;
  Rule rule;
  size_t offset;  // of the field in RunConfig
  Json fallback;  // the default
  Json (*get)(const void* field);
  bool (*set)(void* field,
              const Json& value);  // false when the value has another type; the field is then unchanged
};

namespace config_detail {
// While the table is being read off a RunConfig, the object's address and the rows so far; otherwise null.
struct Reading {
  const char* base;
  std::vector<ConfigKey> rows;
};
inline thread_local Reading* reading = nullptr;

template <class T>
struct Kind;  // name of the type, get, set
}  // namespace config_detail

// The initializer of a field. Returns the default; adds a row when the table is being read.
template <class T>
T key(T* field, const char* path, std::type_identity_t<T> fallback, const char* help, Rule rule = {}) {
  if (auto* reading = config_detail::reading) {
    using Kind = config_detail::Kind<T>;
    size_t offset = reinterpret_cast<const char*>(field) - reading->base;
    reading->rows.push_back(
        {path, Kind::name, help, std::move(rule), offset, Kind::get(&fallback), &Kind::get, &Kind::set});
  }
  return fallback;
}

namespace config_detail {

// Plain values and lists of them: JSON knows how; only the test of the type is ours.
template <class T>
struct PlainKind {
  static Json get(const void* field) { return Json(*static_cast<const T*>(field)); }
  static bool set(void* field, const Json& value) {
    if (!Kind<T>::accepts(value)) return false;
    *static_cast<T*>(field) = value.get<T>();
    return true;
  }
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

}  // namespace config_detail
}  // namespace lockstep::launcher
