// Escapes of markup.
#include "core/base/markup.h"

#include "core/base/text.h"

namespace lockstep {

std::string escaped_markup(const std::string& text) {
  std::string out;
  for (char c : printable(text)) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  return out;
}

}  // namespace lockstep
