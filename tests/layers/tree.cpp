// A source tree, read as text, the code: walks the folders and parses tables by room.
#include "tests/layers/tree.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "core/base/text.h"

namespace fs = std::filesystem;

namespace lockstep::layers {

namespace {

const Lines& front_headers() {
  static const Lines headers{"lockstep.h", "lockstep_backend.h"};
  return headers;
}

}  // namespace

const Lines& top_folders() {
  static const Lines folders{"core",   "compiler", "distributed", "checkpoint", "launcher",
                             "python", "tests",    "bench",       "examples"};
  return folders;
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Lines lines_of(const std::string& text) {
  Lines out = split(text, '\n');
  if (out.back().empty()) out.pop_back();
  return out;
}

bool is_front(const std::string& header) {
  return header == front_headers()[0] || header == front_headers()[1];
}

Lines files(const fs::path& root, const std::function<bool(const fs::path&)>& wanted) {
  Lines out;
  for (const auto& header : front_headers())
    if (fs::exists(root / header) && wanted(fs::path(header))) out.push_back(header);
  for (const auto& folder : top_folders()) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.is_regular_file() && wanted(entry.path()))
        out.push_back(entry.path().lexically_relative(root).generic_string());
  }
  std::sort(out.begin(), out.end());
  return out;
}
Lines sources(const fs::path& root) {
  return files(root,
               [](const fs::path& path) { return path.extension() == ".h" || path.extension() == ".cpp"; });
}

bool inside(const std::string& file, const std::string& folder) {
  return file == folder || file.starts_with(folder + "/");
}

Rules parse_rules(const std::string& table) {
  Rules out;
  for (auto line : lines_of(table)) {
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    std::istringstream words(line);
    std::string room, arrow, target;
    words >> room >> arrow;
    if (arrow != "->" || out.count(room)) throw std::runtime_error("layers: cannot read the line: " + line);
    for (out[room]; words >> target;) out[room].push_back(target);
  }
  return out;
}

std::string room_of(const std::string& file, const Rules& rules) {
  std::string best;
  for (const auto& [room, targets] : rules) {
    bool holds = room.ends_with("/.") ? fs::path(file).parent_path() == room.substr(0, room.size() - 2)
                                      : inside(file, room);
    if (holds && room.size() > best.size()) best = room;
  }
  return best;
}

bool is_ours(const std::string& header) {
  for (const auto& folder : top_folders())
    if (inside(header, folder)) return true;
  return is_front(header);
}

}  // namespace lockstep::layers
