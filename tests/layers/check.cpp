// The rules of the house, checked by reading files as text.
#include "tests/layers/check.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "core/base/text.h"
#include "tests/layers/tree.h"

namespace fs = std::filesystem;

namespace lockstep::layers {

namespace {

// What an #include line names, with its delimiters; "" for any other line.
std::string included(const std::string& line) {
  std::string text = trim(line);
  if (text.empty() || text[0] != '#') return "";
  text = trim(text.substr(1));
  if (!text.starts_with("include")) return "";
  text = trim(text.substr(7));
  size_t close = text.find(text[0] == '<' ? '>' : '"', 1);
  return close == std::string::npos ? "" : text.substr(0, close + 1);
}

}  // namespace

Lines wrong_arrows(const fs::path& root, const std::string& table) {
  const Rules rules = parse_rules(table);
  Lines out;
  for (const auto& file : sources(root)) {
    const std::string room = room_of(file, rules);
    if (room.empty()) {
      out.push_back(str(file, ": is in no room of layers.txt; put it into one, or give its folder a line"));
      continue;
    }
    const std::string own = room.ends_with("/.") ? "" : room;
    Lines lines = lines_of(read(root / file));
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string token = included(lines[i]);
      if (token.empty()) continue;
      const std::string header = token.substr(1, token.size() - 2),
                        at = str(file, ":", i + 1, ": includes ", token);
      if (token[0] == '<') {
        if (is_ours(header) && !is_front(header)) out.push_back(str(at, "; our headers stand in quotes"));
        continue;
      }
      if (!is_ours(header) || !fs::exists(root / header) ||
          header != fs::path(header).lexically_normal().generic_string()) {
        out.push_back(str(at, "; no such header when spelled from the root"));
        continue;
      }
      bool allowed =
          !own.empty() ? inside(header, own) : fs::path(header).parent_path() == fs::path(file).parent_path();
      for (const auto& target : rules.at(room)) allowed = allowed || inside(header, target);
      if (!allowed)
        out.push_back(str(at, "; ", room, " may include ",
                          rules.at(room).empty() ? "itself only" : join(rules.at(room), ", ")));
    }
  }
  return out;
}

Lines without_purpose(const fs::path& root) {
  Lines out;
  for (const auto& file : sources(root)) {
    std::string first = read(root / file);
    first = first.substr(0, first.find('\n'));
    std::istringstream words(first.starts_with("// ") ? first.substr(3) : "");
    if (std::distance(std::istream_iterator<std::string>(words), {}) < 2)
      out.push_back(str(file, ":1: is no purpose comment; say in one line what this file is: // ..."));
  }
  return out;
}

Lines too_long(const fs::path& root, const std::string& allowed) {
  Lines out;
  std::set<std::string> listed;
  for (const auto& line : lines_of(allowed)) {
    if (trim(line).empty() || line[0] == '#') continue;
    size_t colon = line.find(':');
    if (colon == std::string::npos || trim(line.substr(colon + 1)).empty())
      out.push_back(str("long_files.txt: \"", line, "\" gives no reason"));
    listed.insert(line.substr(0, colon));
  }
  for (const auto& file : sources(root)) {
    const size_t lines = lines_of(read(root / file)).size();
    const bool is_listed = listed.erase(file) > 0;
    if (lines > 400 && !is_listed)
      out.push_back(
          str(file, ": has ", lines, " lines; split it at 400, or list it in long_files.txt with a reason"));
    if (lines <= 400 && is_listed)
      out.push_back(str("long_files.txt: ", file, " has ", lines, " lines; take it off the list"));
  }
  for (const auto& file : listed) out.push_back(str("long_files.txt: ", file, " does not exist"));
  std::sort(out.begin(), out.end());
  return out;
}

Lines too_wide(const fs::path& root) {
  constexpr std::ptrdiff_t kColumns = 120;
  Lines out;
  for (const auto& file : files(root, [](const fs::path& path) { return path.extension() == ".py"; })) {
    const Lines lines = lines_of(read(root / file));
    for (size_t i = 0; i < lines.size(); ++i) {
      const auto columns = std::count_if(lines[i].begin(), lines[i].end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
      });
      if (columns > kColumns)
        out.push_back(str(file, ":", i + 1, ": has ", columns, " columns; wrap it at ", kColumns));
    }
  }
  return out;
}

namespace {
using Units = std::map<std::string, std::set<std::string>>;

std::string unit_of(const std::string& file) { return fs::path(file).replace_extension().generic_string(); }

// Which units each one includes.
Units included_units(const fs::path& root) {
  Units out;
  for (const auto& file : sources(root)) {
    auto& targets = out[unit_of(file)];
    for (const auto& line : lines_of(read(root / file))) {
      const std::string token = included(line),
                        header = token.empty() ? "" : token.substr(1, token.size() - 2);
      if (is_ours(header) && unit_of(header) != unit_of(file)) targets.insert(unit_of(header));
    }
  }
  return out;
}

std::set<std::string> reached_from(const std::string& unit, const Units& units) {
  std::set<std::string> out;
  Lines open{unit};
  while (!open.empty()) {
    auto found = units.find(open.back());
    open.pop_back();
    if (found == units.end()) continue;
    for (const auto& target : found->second)
      if (out.insert(target).second) open.push_back(target);
  }
  return out;
}
}  // namespace

Lines include_circles(const fs::path& root, const std::string& known) {
  Lines out;
  std::set<std::string> listed;
  for (const auto& line : lines_of(known)) {
    if (trim(line).empty() || line[0] == '#') continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos || trim(line.substr(colon + 1)).empty())
      out.push_back(str("circles.txt: \"", line, "\" gives no reason"));
    listed.insert(line.substr(0, colon));
  }
  const Units units = included_units(root);
  std::map<std::string, std::set<std::string>> reached;
  for (const auto& [unit, targets] : units) reached[unit] = reached_from(unit, units);
  std::set<std::string> done;
  for (const auto& [unit, all] : reached) {
    if (!all.count(unit) || done.count(unit)) continue;
    Lines circle;
    for (const auto& other : all)
      if (reached[other].count(unit)) circle.push_back(other), done.insert(other);
    const std::string names = join(circle, " ");
    if (listed.erase(names) == 0)
      out.push_back(str(names,
                        ": include one another in a circle; put what both sides need into a file of its own, "
                        "or list them in circles.txt with a reason"));
  }
  for (const auto& names : listed)
    out.push_back(str("circles.txt: ", names, ": is no circle any more; take it off the list"));
  std::sort(out.begin(), out.end());
  return out;
}

Lines not_built(const fs::path& root) {
  Lines lists = files(root, [](const fs::path& path) { return path.filename() == "CMakeLists.txt"; });
  lists.push_back("CMakeLists.txt");
  std::set<std::string> named, globs;  // files, and folders of which all sources are built
  for (const auto& list : lists) {
    const std::string folder = fs::path(list).parent_path().generic_string();
    for (auto line : lines_of(read(root / list))) {
      line = line.substr(0, line.find('#'));
      std::replace_if(
          line.begin(), line.end(), [](char c) { return c == '(' || c == ')' || c == '"' || c == ';'; }, ' ');
      std::istringstream words(line);
      for (std::string word; words >> word;) {
        for (const std::string base : {"${CMAKE_SOURCE_DIR}/", "${PROJECT_SOURCE_DIR}/"})
          if (word.starts_with(base)) named.insert(word.substr(base.size()));
        const std::string here = "${CMAKE_CURRENT_SOURCE_DIR}/";
        if (word.starts_with(here)) word = word.substr(here.size());
        const fs::path path = (fs::path(folder) / word).lexically_normal();
        if (path.filename() == "*.cpp") globs.insert(path.parent_path().generic_string());
        named.insert(path.generic_string());
      }
    }
  }
  Lines out;
  for (const auto& file : sources(root))
    if (file.ends_with(".cpp") && !named.count(file) &&
        !globs.count(fs::path(file).parent_path().generic_string()))
      out.push_back(str(file, ": no CMakeLists.txt names it; add it to its room's or test's sources"));
  return out;
}

Lines nameless_folders(const fs::path& root) {
  const std::set<std::string> nameless{"utils", "common", "misc", "helpers", "internal"};
  Lines out;
  for (const auto& folder : top_folders()) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.is_directory() && nameless.count(entry.path().filename().string()))
        out.push_back(str(entry.path().lexically_relative(root).generic_string(),
                          ": says nothing; a helper lives in the room whose word it uses"));
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace lockstep::layers
