// Parses a number and a unit of bytes.
#include "core/base/bytes.h"

#include <cctype>
#include <cstdlib>
#include <utility>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace lockstep {

std::optional<int64_t> parse_bytes(const std::string& text) {
  static const std::pair<const char*, double> units[] = {
      {"", 1},      {"B", 1},        {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
      {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  size_t end = 0;
  double number = 0;
  if (!text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.')) {
    try {
      number = std::stod(text, &end);
    } catch (const std::exception&) {
      end = 0;  // refused below
    }
  }
  std::string unit = trim(text.substr(end));
  for (auto [word, factor] : units)
    if (end && unit == word && number * factor >= 1 && number * factor < 0x1p62)
      return static_cast<int64_t>(number * factor);
  return {};
}

int64_t limit_of_environment(const std::string& name) {
  const std::string text = env(name);
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos)
    throw UserError(str("environment: ", name, " is \"", shortened(text, 40),
                        "\"; give a number of MiB, or 0 for no limit"));
  return std::atoll(text.c_str()) << 20;
}

}  // namespace lockstep
