// Types at namespace scope, found by reading C++ as text: one name, one type.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>

#include "core/base/text.h"
#include "tests/layers/check.h"
#include "tests/layers/code.h"

namespace fs = std::filesystem;

namespace lockstep::layers {

namespace {

// Names of the types that a file defines in named namespaces, with their lines. A class inside of a class, a
// function or an anonymous namespace is nobody else's.
std::map<std::string, size_t> types_of(const std::string& text) {
  static const std::regex opening(
      R"(\bnamespace\s*([\w:]*)\s*\{|\b(?:struct|class|union|enum\s+class|enum)\s+([\w:]+)(?:\s+final)?\s*(?::[^;{()]*)?\{|\{|\})");
  std::map<std::string, size_t> out;
  std::vector<bool> named;  // per open brace: whether it opens a namespace with a name
  const std::string code = code_of(text);
  for (std::sregex_iterator at(code.begin(), code.end(), opening), end; at != end; ++at) {
    const std::string found = at->str();
    if (found == "}") {
      if (!named.empty()) named.pop_back();
      continue;
    }
    const std::string type = (*at)[2];
    const bool outside = std::find(named.begin(), named.end(), false) == named.end();
    if (!type.empty() && outside && type.find(':') == std::string::npos)
      out.emplace(type, 1 + std::count(code.begin(), code.begin() + at->position(), '\n'));
    named.push_back(found.starts_with("namespace") && (*at)[1].length() > 0);
  }
  return out;
}

}  // namespace

std::vector<std::string> types_defined_twice(const fs::path& root) {
  std::map<std::string, std::string> first;
  std::vector<std::string> out, files;
  for (const char* wing : {"core", "compiler", "distributed", "checkpoint", "launcher"})
    if (fs::exists(root / wing))
      for (const auto& entry : fs::recursive_directory_iterator(root / wing))
        if (entry.path().extension() == ".h" || entry.path().extension() == ".cpp")
          files.push_back(entry.path().lexically_relative(root).generic_string());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    std::ifstream in(root / file, std::ios::binary);
    for (const auto& [type, line] : types_of({std::istreambuf_iterator<char>(in), {}}))
      if (auto [known, fresh] = first.emplace(type, str(file, ":", line)); !fresh)
        out.push_back(str(file, ":", line, ": type ", type, " is defined at ", known->second,
                          " too; one name, one type: rename one of them"));
  }
  return out;
}

}  // namespace lockstep::layers
