// Namespaces by room: whose a name is can be read from the name.
#include <algorithm>
#include <map>
#include <regex>
#include <stdexcept>
#include <vector>

#include "core/base/text.h"
#include "tests/layers/check.h"
#include "tests/layers/code.h"
#include "tests/layers/tree.h"

namespace lockstep::layers {

namespace {

// A namespace with a name, by its full name, and the line that opens it.
struct Opened {
  std::string name;
  size_t line = 0;
};

// Namespaces that a file opens, each by the names of all that hold it; those inside of an anonymous one are
// left out.
std::vector<Opened> opened_by(const std::string& code) {
  static const std::regex brace(R"(\bnamespace\s*([\w:]*)\s*\{|\{|\})");
  std::vector<Opened> out;
  std::vector<std::string> open;  // per open brace: the namespace it opens; "" for any other
  for (std::sregex_iterator at(code.begin(), code.end(), brace), end; at != end; ++at) {
    if (at->str() == "}") {
      if (!open.empty()) open.pop_back();
      continue;
    }
    const bool named = (*at)[1].length() > 0 && std::find(open.begin(), open.end(), "") == open.end();
    open.push_back(named ? (*at)[1].str() : "");
    if (!named) continue;
    out.push_back({join(open, "::"),
                   1 + static_cast<size_t>(std::count(code.begin(), code.begin() + at->position(), '\n'))});
  }
  return out;
}

// Whether there is anything but directives of the preprocessor and the program's main().
bool defines_something(const std::string& code) {
  static const std::regex directive(R"(^[ \t]*#(?:.*\\\n)*.*$)", std::regex::multiline),
      main(R"(\bint\s+main\s*\()");
  return !trim(std::regex_replace(code, directive, "")).empty() && !std::regex_search(code, main);
}

bool nested(const std::string& name, const std::string& of) {
  return name == of || name.starts_with(of + "::");
}

}  // namespace

std::vector<std::string> wrong_namespaces(const std::filesystem::path& root, const std::string& table) {
  const Rules rules = parse_rules(table);
  std::vector<std::string> out;
  for (const auto& file : sources(root)) {
    const std::string room = room_of(file, rules);
    if (room.empty()) continue;
    const auto& allowed = rules.at(room);
    if (allowed.empty()) throw std::runtime_error("layers: a room without a namespace: " + room);
    const std::string code = code_of(read(root / file)),
                      right = str("; names of ", room, " stand in ", allowed[0]);
    const std::vector<Opened> opened = opened_by(code);
    for (const auto& [name, line] : opened) {
      // The innermost namespace of the table that holds the name: lockstep holds those of all wings.
      std::string whose;
      for (const auto& [other, spaces] : rules)
        for (const auto& space : spaces)
          if (nested(name, space) && space.size() > whose.size()) whose = space;
      if (std::find(allowed.begin(), allowed.end(), whose) == allowed.end())
        out.push_back(str(file, ":", line, ": opens namespace ", name, right));
    }
    if (opened.empty() && defines_something(code)) out.push_back(str(file, ": opens no namespace", right));
  }
  return out;
}

}  // namespace lockstep::layers
