// What reads bytes without a bound, throws on numbers, or waits for a pipe: where it may stand, with reasons.
#include <algorithm>
#include <map>
#include <set>

#include "core/base/text.h"
#include "tests/layers/check.h"
#include "tests/layers/code.h"
#include "tests/layers/tree.h"

namespace fs = std::filesystem;

namespace lockstep::layers {

namespace {

struct Unbounded {
  std::string word;                 // by which the list of permissions names it
  std::vector<std::string> tokens;  // of the code
  const char* instead;
};
const std::vector<Unbounded>& unbounded() {
  static const char
      *number = "throws, or stops at what is no number: use whole_number (core/reading)",
      *json =
          "has no bound of depth, and searches an object for each of its keys: use read_json or "
          "bounded_json (core/reading)";
  static const std::vector<Unbounded> out = {
      {"regex",
       {"std::regex", "std::smatch", "regex_search", "regex_match"},
       "calls itself once per character: use find_sentence (core/reading)"},
      {"stoi",
       {"std::stoi", "std::stol", "std::stoul", "std::stoull", "std::stoll", "std::stof", "std::stod"},
       number},
      {"atoi", {"std::atoi", "std::atol", "std::atoll", "std::atof"}, number},
      {"strtol", {"strtol(", "strtoll(", "strtoul(", "strtoull(", "strtod(", "strtof("}, number},
      {"sscanf", {"sscanf("}, number},
      {"parse", {"Json::parse", "json::parse"}, json},
      {"property_tree", {"property_tree"}, "calls itself once per element: use a reader of events"},
      {"ifstream",
       {"std::ifstream", "std::fstream"},
       "waits for a FIFO: use read_plain (core/files/plain_file.h) or read_given (core/reading)"},
  };
  return out;
}

bool is_product(const std::string& file) {
  return !inside(file, "tests") && !inside(file, "bench") && !inside(file, "examples");
}

// Where a token stands as a word of its own; 0: nowhere.
size_t line_of(const std::string& code, const std::string& token) {
  for (size_t at = code.find(token); at != std::string::npos; at = code.find(token, at + 1)) {
    const char before = at ? code[at - 1] : ' ',
               behind = at + token.size() < code.size() ? code[at + token.size()] : ' ';
    const bool goes_on =
        token.back() != '(' && (std::isalnum(static_cast<unsigned char>(behind)) || behind == '_');
    if (std::isalnum(static_cast<unsigned char>(before)) || before == '_' || goes_on) continue;
    return 1 + static_cast<size_t>(
                   std::count(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  }
  return 0;
}

}  // namespace

Lines unbounded_readers(const fs::path& root, const std::string& allowed) {
  Lines out;
  std::map<std::string, bool> permitted;  // "FILE WORD": used
  for (const auto& line : lines_of(allowed)) {
    if (trim(line).empty() || line[0] == '#') continue;
    const size_t colon = line.find(':');
    const std::string what = line.substr(0, colon);
    if (colon == std::string::npos || trim(line.substr(colon + 1)).empty())
      out.push_back(str(what, ": may stay for no reason; write it behind a colon"));
    permitted[what] = false;
  }
  for (const auto& file : sources(root)) {
    if (!is_product(file)) continue;
    const std::string code = code_of(read(root / file));
    for (const Unbounded& one : unbounded())
      for (const std::string& token : one.tokens) {
        const size_t line = line_of(code, token);
        if (line == 0) continue;
        if (auto found = permitted.find(str(file, " ", one.word)); found != permitted.end())
          found->second = true;
        else
          out.push_back(str(file, ":", line, ": ", token, " ", one.instead,
                            "; where no stranger writes what it reads, give it a line with the reason"));
      }
  }
  for (const auto& [what, used] : permitted)
    if (!used) out.push_back(str(what, ": is not there any more; take the line out"));
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace lockstep::layers
