// Error texts about the values of keys.
#include "core/base/key.h"

#include <cmath>

namespace lockstep {

std::string bound_text(double bound) {
  return std::abs(bound) < 1e15 && bound == std::floor(bound) ? str(static_cast<int64_t>(bound))
                                                              : number_text(bound);
}

std::string range_text(const Rule& rule) {
  const bool low = rule.low > -std::numeric_limits<double>::infinity(),
             high = rule.high < std::numeric_limits<double>::infinity();
  std::string out;
  if (low) out += str(rule.low_open ? "more than " : "at least ", bound_text(rule.low));
  if (low && high) out += " and ";
  if (high) out += str(rule.high_open ? "less than " : "at most ", bound_text(rule.high));
  return out;
}

std::optional<std::pair<ConfigKey, ConfigKey>> type_conflict(std::span<const ConfigKey> keys,
                                                             std::span<const ConfigKey> others) {
  for (const ConfigKey& row : keys)
    for (const ConfigKey& other : others)
      if (row.path == other.path && row.type != other.type) return std::pair(row, other);
  return {};
}

std::string range_error(const ConfigKey& row, const Json& value) {
  if (value.is_array())
    for (const auto& element : value)
      if (auto wrong = range_error(row, element); !wrong.empty()) return wrong;
  if (!value.is_number()) return "";
  const auto number = value.get<double>();
  const bool low = row.rule.low_open ? number > row.rule.low : number >= row.rule.low,
             high = row.rule.high_open ? number < row.rule.high : number <= row.rule.high;
  if (low && high) return "";
  return str(row.path, " is ", value.dump(), "; it must be ", range_text(row.rule));
}

std::string multiple_error(const std::string& what, int64_t value, const std::string& of, int64_t divisor) {
  if (value < 1 || divisor < 1 || value % divisor == 0) return "";
  int64_t below = value / divisor * divisor;
  int64_t above = 0;
  const bool counted = !__builtin_add_overflow(below, divisor, &above);
  std::string fit = !below    ? str(divisor, " is")
                    : counted ? str(below, " and ", above, " are")
                              : str(below, " is");
  return str(what, " is ", value, ", not a multiple of ", of, ", ", divisor, "; ", fit);
}

void add_multiple(std::vector<std::string>& errors, const std::string& what, int64_t value,
                  const std::string& of, int64_t divisor) {
  if (auto wrong = multiple_error(what, value, of, divisor); !wrong.empty()) errors.push_back(wrong);
}

}  // namespace lockstep
