// Functions of the product, found by reading C++ as text: each can be read at once.
#include <algorithm>
#include <regex>
#include <utility>

#include "core/base/text.h"
#include "tests/layers/check.h"
#include "tests/layers/code.h"
#include "tests/layers/tree.h"

namespace lockstep::layers {

namespace {
constexpr std::ptrdiff_t kLines = 60, kCyclomatic = 30;

// Without directives of the preprocessor; lines stay where they are.
std::string without_directives(const std::string& code) {
  std::string out;
  bool directive = false;
  for (const auto& line : split(code, '\n')) {
    directive = directive || trim(line).starts_with("#");
    out += directive ? "\n" : line + "\n";
    directive = directive && line.ends_with("\\");
  }
  return out;
}
size_t closing(const std::string& code, size_t open) {
  for (size_t at = open, depth = 0; at < code.size(); ++at) {
    if (code[at] == '{') ++depth;
    if (code[at] == '}' && --depth == 0) return at;
  }
  return code.size();
}
}  // namespace

Lines long_functions(const std::filesystem::path& root) {
  static const std::regex scope(R"(\b(?:namespace|struct|class|union|enum|extern)\b)"),
      branch(R"(\b(?:if|for|while|case|catch)\b|&&|\|\||\?)");
  Lines out;
  for (const auto& file : sources(root)) {
    if (inside(file, "tests") || inside(file, "bench") || inside(file, "examples")) continue;
    const std::string code = without_directives(code_of(read(root / file)));
    for (size_t i = 0, from = 0; i < code.size(); ++i) {  // `from`: of the words before a brace
      if (code[i] == ';' || code[i] == '}') from = i + 1;
      if (code[i] != '{') continue;
      const std::string head = trim(code.substr(from, i - from));
      const bool takes = head.find('(') != std::string::npos;
      const size_t start = code.find_first_not_of(" \n", std::exchange(from, i + 1));
      if (!takes && std::regex_search(head, scope)) continue;  // its functions are inside
      const std::string body = code.substr(i, closing(code, i) - i);
      const auto lines = 1 + std::count(code.begin() + start, code.begin() + i + body.size(), '\n'),
                 cyclomatic = 1 + std::distance(std::sregex_iterator(body.begin(), body.end(), branch), {});
      i += body.size(), from = i + 1;
      if (takes && !head.ends_with("=") && (lines > kLines || cyclomatic > kCyclomatic))  // not a table
        out.push_back(str(file, ":", 1 + std::count(code.begin(), code.begin() + start, '\n'),
                          ": a function of ", lines, " lines and the cyclomatic number ", cyclomatic,
                          "; split it by meaning at ", kLines, " lines and ", kCyclomatic));
    }
  }
  return out;
}

}  // namespace lockstep::layers
