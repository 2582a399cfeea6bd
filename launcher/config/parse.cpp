// Parses JSON text and overrides into a RunConfig, and collects all errors.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "core/base/error.h"
#include "core/reading/given_text.h"
#include "core/reading/json_text.h"
#include "core/reading/one_line.h"
#include "launcher/config/config.h"
#include "launcher/config/neighbours.h"
#include "launcher/config/stored.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {

// Errors: the first kShown lines in full, and a count of the rest.
class Problems {
 public:
  template <class Words>
  void add(const Words& words) {
    if (lines_.size() < kShown)
      lines_.push_back(words());
    else
      ++more_;
  }
  void add(std::string line) {
    add([&] { return std::move(line); });
  }
  void more(int64_t count) { more_ += count; }
  bool none() const { return lines_.empty() && !more_; }
  // `note`: printed after them.
  [[noreturn]] void fail(const std::string& where, const std::string& note = "") const {
    if (lines_.size() == 1 && !more_)
      throw UserError(str(where, ": ", lines_[0], note.empty() ? "" : "\n  ", note));
    std::string text = str(where, ": ", static_cast<int64_t>(lines_.size()) + more_, " errors");
    for (const auto& line : lines_) text += "\n  " + line;
    if (more_) text += str("\n  and ", more_, " more");
    if (!note.empty()) text += "\n  " + note;
    throw UserError(text);
  }

 private:
  static constexpr size_t kShown = 20;
  std::vector<std::string> lines_;
  int64_t more_ = 0;
};

// A value as it was written, shortened.
std::string shown(const Json& value) {
  if (value.is_structured() && value.size() > 100)
    return str(value.is_array() ? "a list of " : "a section of ", value.size(), " values");
  return shortened(value.dump(-1, ' ', false, Json::error_handler_t::replace), 120);
}
std::string shown(const std::string& path) { return shortened(one_line(path), 120); }

std::string type_of(const Json& value) {
  if (value.is_boolean()) return "a boolean";
  if (value.is_number_integer()) return "an integer";
  if (value.is_number()) return "a number";
  if (value.is_string()) return "a string";
  if (value.is_array()) return "a list";
  if (value.is_object()) return "a section";
  return "null";
}
std::string with_article(const std::string& type) { return (type == "integer" ? "an " : "a ") + type; }

std::vector<std::string> all_paths() {
  std::vector<std::string> out;
  for (const auto& row : config_keys()) out.push_back(row.path);
  return out;
}
std::string leaf(const std::string& path) { return path.substr(path.rfind('.') + 1); }  // npos + 1 is 0
bool is_section(const std::string& path) {
  for (const auto& row : config_keys())
    if (row.path.rfind(path + ".", 0) == 0) return true;
  return false;
}
// The keys and sections right below a section, "" for the top.
std::vector<std::string> members(const std::string& section) {
  std::string prefix = section.empty() ? "" : section + ".";
  std::vector<std::string> out;
  for (const auto& row : config_keys()) {
    if (row.path.rfind(prefix, 0) != 0) continue;
    std::string rest = row.path.substr(prefix.size());
    rest = rest.substr(0, rest.find('.'));
    if (out.empty() || out.back() != rest) out.push_back(rest);
  }
  return out;
}

bool is_leaf(const std::string& word) {
  const auto paths = all_paths();
  return std::any_of(paths.begin(), paths.end(), [&](const auto& path) { return leaf(path) == word; });
}

// "did you mean optim.lr?" for an unknown path. Tries in order: a joined name of other frameworks
// (batch.size), the same leaf elsewhere, another framework's name, a similar leaf in its section, and for an
// unknown section a similar path.
std::string advice(const std::string& path) {
  constexpr size_t kLongest = 100;  // longest word that may be a misspelt key
  if (path.size() > kLongest) return str("the keys of a config are ", join(members(""), ", "));
  if (path.find('.') != std::string::npos)
    if (auto known = neighbour(join(split(path, '.'), "_")); !known.empty()) return known;
  for (const auto& known : all_paths())
    if (leaf(known) == leaf(path)) return str("did you mean ", known, "?");
  if (auto known = neighbour(path); !known.empty()) return known;
  size_t dot = path.rfind('.');
  std::string section = dot == std::string::npos ? "" : path.substr(0, dot);
  if (!section.empty() && !is_section(section)) {
    if (auto near = nearest(path, all_paths()); !near.empty()) return str("did you mean ", near, "?");
    section = "";
  }
  std::string prefix = section.empty() ? "" : section + ".";
  if (auto near = nearest(leaf(path), members(section)); !near.empty())
    return str("did you mean ", prefix, near, "?");
  return str("the keys of ", section.empty() ? "a config" : section, " are ", join(members(section), ", "));
}

// Sets a key. On a wrong type it reports the error and remembers the path, because checks with other keys
// would see the default.
struct Target {
  RunConfig config;
  Problems errors;
  std::vector<std::string> unset;
  std::vector<std::string> misread;  // "data.": an unknown key below it was meant; "": anywhere
  bool stored = false;               // the config was stored by a run of any version
};
// Marks keys that cannot be checked further after all are read.
std::vector<std::string> unsaid(const Target& target) {
  std::vector<std::string> out = target.unset;
  for (const auto& row : config_keys())
    for (const auto& prefix : target.misread)
      if (row.path.starts_with(prefix) && get_key(target.config, row) == row.fallback)
        out.push_back(row.path);
  return out;
}
void set(Target& target, const ConfigKey& row, const Json& value) {
  RunConfig& config = target.config;
  if (row.set(&config, value)) return;
  target.unset.push_back(row.path);
  if (row.path == "data.sources") target.unset.emplace_back("data.paths");  // replaces the paths
  target.errors.add([&] {
    const bool large = row.type == "integer" && value.is_number();
    return str(row.path, " is ", shown(value),
               large && std::abs(value.get<double>()) >= 0x1p53 ? ", beyond what an integer holds"
                                                                : ", " + type_of(value),
               "; it must be ", with_article(row.type), ", like its default ",
               default_of(config, row).dump());
  });
}

// Former keys without effect, which older runs stored.
bool stored_once(const std::string& path) {
  return path == "compile.mode" || path == "compile.dynamic" || path == "compile.fullgraph";
}

void apply(Target& target, const Json& node, const std::string& prefix) {
  auto& errors = target.errors;
  for (const auto& [name, value] : node.items()) {
    std::string path = prefix + name;
    if (path == "$schema" || (target.stored && stored_once(path))) continue;  // the first is an editor's
    if (const auto* row = find_key(path))
      set(target, *row, value);
    else if (!is_section(path)) {
      if (!prefix.empty() || value.is_object()) target.misread.push_back(prefix);
      errors.add([&] { return str("unknown key ", shown(path), "; ", advice(path)); });
    } else if (value.is_object()) {
      apply(target, value, path + ".");
    } else {
      target.misread.push_back(path + ".");
      errors.add([&, &value = value] {
        return str(path, " is ", shown(value), ", ", type_of(value), "; it must be a section with the keys ",
                   join(members(path), ", "));
      });
    }
  }
}

// The value of a text: JSON, or a number in a form that JSON lacks (".001", "1."), else the text itself.
// UserError when it exceeds a limit.
Json bare(const std::string& text) {
  JsonText read = read_json(text, Comments::refused);
  if (read.beyond) throw UserError(read.errors[0]);
  if (read.readable) return std::move(read.value);
  double number = 0;
  const char* end = text.data() + text.size();
  const auto taken = std::from_chars(text.data(), end, number);
  const bool whole = taken.ec == std::errc() && taken.ptr == end && text.find('.') != std::string::npos;
  return whole ? Json(number) : Json(text);
}

// VALUE of --a.b=VALUE for a key: JSON of its type, else the text itself; lists also as [a,b] or a,b without
// quotes.
Json override_value(const ConfigKey& row, const std::string& text) {
  Json value = bare(text);
  if (row.type == "string") return value.is_string() ? value : Json(text);
  bool words = row.type == "list of strings";
  if (words && value.is_array()) {
    for (auto& element : value)
      if (!element.is_string()) element = element.dump();
    return value;
  }
  if (row.type.rfind("list", 0) != 0 || value.is_array()) return value;
  std::string inner = trim(text);
  if (inner.size() >= 2 && inner.front() == '[' && inner.back() == ']')
    inner = inner.substr(1, inner.size() - 2);
  Json list = Json::array();
  for (const auto& part : split(inner, ','))
    if (auto word = trim(part); !word.empty()) list.push_back(words ? Json(word) : bare(word));
  return list;
}

}  // namespace

std::vector<Override> parse_overrides(const std::vector<std::string>& arguments,
                                      const std::vector<std::string>& flags) {
  std::vector<Override> out;
  Problems errors;
  bool unknown_flag = false;  // without '=', so that the next word may be its value
  for (const auto& argument : arguments) {
    size_t equals = argument.find('=');
    if (!is_utf8(argument)) {
      errors.add(str("\"", shortened(printable(argument), 120), "\" is not UTF-8"));
      continue;
    }
    if (argument.rfind("--", 0) != 0) {
      if (unknown_flag) continue;
      unknown_flag = argument.starts_with("-");
      errors.add(str("\"", shown(argument), "\" is neither a flag nor an override --KEY=VALUE",
                     find_key(argument.substr(0, equals)) ? str("; did you mean --", shown(argument), "?")
                     : argument.ends_with(".json")        ? "; a command takes one config: leave one out"
                                                          : "; leave it out"));
      continue;
    }
    std::string path = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (path == "init_from" || path == "init-from") path = "train.init_from";
    const bool known = find_key(path), section = is_section(path);
    unknown_flag = unknown_flag || (!known && equals == std::string::npos);
    const std::string theirs = known ? "" : neighbour(path);  // another framework's name
    const bool may_be_flag = !known && !section && !is_leaf(path) && theirs.empty() && path.size() < 100 &&
                             path.find('.') == std::string::npos;
    if (auto flag = may_be_flag && path != "init_from" ? nearest(path, flags) : ""; !flag.empty())
      errors.add(str("unknown flag --", path, "; did you mean --", flag, "?"));
    else if (!known)
      errors.add(section ? str("--", path, " is a section; ",
                               theirs.empty()
                                   ? str("name one of its keys: --", path, ".", members(path)[0], "=VALUE")
                                   : theirs)
                         : str("unknown key ", shown(path), " in ", shown(argument), "; ", advice(path)));
    else if (equals == std::string::npos && find_key(path)->fallback.is_boolean())
      out.push_back({path, "true"});
    else if (equals == std::string::npos)
      errors.add(str("--", path, " has no value; write --", path, "=VALUE"));
    else
      out.push_back({path, argument.substr(equals + 1)});
  }
  if (!errors.none()) errors.fail("command line");
  return out;
}

std::vector<std::string> libraries_of(const std::string& text, const std::vector<Override>& overrides) {
  RunConfig config;
  const ConfigKey& key = *find_key("compile.load_ops");
  const JsonText read = read_json(text);
  if (const auto at = Json::json_pointer("/compile/load_ops"); read.readable && read.value.contains(at))
    key.set(&config, read.value[at]);
  for (const Override& entry : overrides)
    if (entry.path == key.path) try {
        key.set(&config, override_value(key, entry.value));
      } catch (const UserError&) {}
  return config.compile.load_ops;
}

namespace {
bool names_a_stream(const Json& value) {
  if (value.is_structured()) return std::any_of(value.begin(), value.end(), names_a_stream);
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  const std::string_view path = std::string_view(text).substr(text.starts_with('@') ? 1 : 0);
  return path == "/dev/stdin" || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/");
}
// A shell's pipe can be read only once, but each rank reads the files that a config names.
void refuse_streams(const RunConfig& config, Problems& errors) {
  for (const ConfigKey& key : config_keys())
    if (const Json value = key.get(&config); names_a_stream(value))
      errors.add(str(key.path, " is ", shown(value),
                     ", a stream of this shell, which gives its bytes once, and each rank reads for itself; "
                     "write them to a file, and name that"));
}
}  // namespace

RunConfig parse_config(const std::string& text, const std::string& where,
                       const std::vector<Override>& overrides, DataPaths paths) {
  Target target;
  auto& errors = target.errors;
  JsonText read = read_json(text);
  for (auto& line : read.errors) errors.add(std::move(line));
  if (!read.readable) errors.fail(where);  // further errors would be about defaults
  if (!read.value.is_object()) {
    errors.add(str("the file holds ", type_of(read.value),
                   "; a config is an object: {\"name\": ..., \"model\": {...}}"));
    errors.fail(where);
  }
  target.stored = is_stored_config(text);
  apply(target, read.value, "");
  errors.more(read.members_left_out);
  for (const auto& entry : overrides) {
    const auto* row = find_key(entry.path);
    if (!row) {
      errors.add(str("unknown key ", shown(entry.path), "; ", advice(entry.path)));
      continue;
    }
    try {
      set(target, *row, override_value(*row, entry.value));
    } catch (const UserError& error) {
      target.unset.push_back(row->path);
      errors.add(str("--", entry.path, ": ", error.what()));
    }
  }
  refuse_streams(target.config, errors);
  const std::vector<std::string> silent = unsaid(target);
  for (auto& line : config_errors(target.config, paths)) {
    bool about_unset = std::any_of(silent.begin(), silent.end(),
                                   [&](const auto& path) { return line.find(path) != std::string::npos; });
    if (!about_unset) errors.add(std::move(line));
  }
  if (!errors.none()) errors.fail(where, unopened_libraries(target.config));
  return target.config;
}

namespace {
// For a missing path: the config with the nearest name next to it, or a config that ships with Lockstep.
std::string other_config(const std::string& path) {
  const fs::path wrong(path), folder = wrong.has_parent_path() ? wrong.parent_path() : fs::path(".");
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    if (at->path().extension() == ".json") names.push_back(at->path().filename().string());
  const std::string near = nearest(wrong.filename().string(), names);
  return near.empty() ? "name a JSON file, as in: trainrun --nproc 2 configs/quickstart.json"
                      : str("nearest: ", (wrong.parent_path() / near).string());
}
}  // namespace

RunConfig load_config(const std::string& path, const std::vector<Override>& overrides, DataPaths paths) {
  const GivenText file = read_given(path, kJsonBytes);
  if (!file.problem.empty())
    throw UserError(str("cannot read the config ", path, ": ", file.problem, "; ",
                        std::filesystem::exists(path + "/config.json")
                            ? str("of this run: ", path, "/config.json")
                            : other_config(path)));
  return parse_config(file.text, path, overrides, paths);
}

}  // namespace lockstep::launcher
