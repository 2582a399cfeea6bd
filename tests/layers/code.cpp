// C++ as text, the code: a scanner of comments and literals.
#include "tests/layers/code.h"

#include <algorithm>
#include <cctype>

namespace lockstep::layers {

std::string code_of(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    auto skip_to = [&](size_t end) {
      for (; i < std::min(end, text.size()); ++i)
        if (text[i] == '\n') out += '\n';
    };
    if (text.compare(i, 2, "//") == 0) {
      skip_to(text.find('\n', i));
    } else if (text.compare(i, 2, "/*") == 0) {
      skip_to(text.find("*/", i + 2) == std::string::npos ? text.size() : text.find("*/", i + 2) + 2);
    } else if (text.compare(i, 2, "R\"") == 0) {
      const size_t open = text.find('(', i);
      const std::string close = ")" + text.substr(i + 2, open - i - 2) + "\"";
      skip_to(text.find(close, open) + close.size());
    } else if (text[i] == '"' ||
               (text[i] == '\'' && (i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1]))))) {
      size_t end = i + 1;
      while (end < text.size() && text[end] != text[i]) end += text[end] == '\\' ? 2 : 1;
      skip_to(end + 1);
    } else {
      out += text[i++];
    }
  }
  return out;
}

}  // namespace lockstep::layers
