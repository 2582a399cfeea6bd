// Writes line ends and tabs as \n and \t.
#include "core/reading/one_line.h"

#include "core/base/text.h"

namespace lockstep {

std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        out += c;
    }
  return out;
}

}  // namespace lockstep
