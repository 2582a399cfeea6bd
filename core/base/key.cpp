// Words about the values of keys.
#include "core/base/key.h"

#include <cmath>

namespace lockstep {

std::string bound_text(double bound) {
  return std::abs(bound) < 1e15 && bound == std::floor(bound) ? str(static_cast<int64_t>(bound))
                                                              : number_text(bound);
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
