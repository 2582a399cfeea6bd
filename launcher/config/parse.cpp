// From JSON text and overrides to a RunConfig, collecting every error on the way.
#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "launcher/config/config.h"

namespace lockstep {

namespace {

using Errors = std::vector<std::string>;

[[noreturn]] void fail(const std::string& where, const Errors& errors) {
  if (errors.size() == 1) throw UserError(str(where, ": ", errors[0]));
  std::string text = str(where, ": ", errors.size(), " errors");
  for (const auto& line : errors) text += "\n  " + line;
  throw UserError(text);
}

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

// "did you mean optim.lr?" for a path that is no key: the same leaf elsewhere, then a near leaf in its section, then (no such section) a
// near path.
std::string advice(const std::string& path) {
  for (const auto& known : all_paths())
    if (leaf(known) == leaf(path)) return str("did you mean ", known, "?");
  size_t dot = path.rfind('.');
  std::string section = dot == std::string::npos ? "" : path.substr(0, dot);
  if (!section.empty() && !is_section(section)) {
    if (auto near = nearest(path, all_paths()); !near.empty()) return str("did you mean ", near, "?");
    section = "";
  }
  std::string prefix = section.empty() ? "" : section + ".";
  if (auto near = nearest(leaf(path), members(section)); !near.empty()) return str("did you mean ", prefix, near, "?");
  return str("the keys of ", section.empty() ? "a config" : section, " are ", join(members(section), ", "));
}

// Sets a key; where the type is wrong, says so and remembers the path, because checks with other keys would then speak of the default.
struct Target {
  RunConfig config;
  Errors errors;
  std::vector<std::string> unset;
};
void set(Target& target, const ConfigKey& row, const Json& value) {
  auto& [config, errors, unset] = target;
  if (row.set(reinterpret_cast<char*>(&config) + row.offset, value)) return;
  unset.push_back(row.path);
  errors.push_back(str(row.path, " is ", value.dump(), ", ", type_of(value), "; it must be ", with_article(row.type), ", like its default ",
                       row.fallback.dump()));
}

void apply(Target& target, const Json& node, const std::string& prefix) {
  auto& errors = target.errors;
  for (const auto& [name, value] : node.items()) {
    std::string path = prefix + name;
    if (const auto* row = find_key(path))
      set(target, *row, value);
    else if (!is_section(path))
      errors.push_back(str("unknown key ", path, "; ", advice(path)));
    else if (value.is_object())
      apply(target, value, path + ".");
    else
      errors.push_back(
          str(path, " is ", value.dump(), ", ", type_of(value), "; it must be a section with the keys ", join(members(path), ", ")));
  }
}

Json bare(const std::string& text) {
  Json value = Json::parse(text, nullptr, false);
  return value.is_discarded() ? Json(text) : value;
}

// VALUE of --a.b=VALUE for a key: JSON of its type, else the text itself; lists also as [a,b] or a,b without quotes.
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
  if (inner.size() >= 2 && inner.front() == '[' && inner.back() == ']') inner = inner.substr(1, inner.size() - 2);
  Json list = Json::array();
  for (const auto& part : split(inner, ','))
    if (auto word = trim(part); !word.empty()) list.push_back(words ? Json(word) : bare(word));
  return list;
}

// Parses JSON; a key that is given twice in one section is an error too, because only one of the two could hold.
Json parse_json(const std::string& text, Errors& errors) {
  std::vector<std::set<std::string>> seen;
  auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) seen.emplace_back();
    if (event == Json::parse_event_t::object_end) seen.pop_back();
    if (event == Json::parse_event_t::key && !seen.back().insert(parsed.get<std::string>()).second)
      errors.push_back(str("key \"", parsed.get<std::string>(), "\" is given twice in one section; keep one"));
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::parse_error& error) {
    std::string words = error.what();  // "[json.exception.parse_error.101] parse error at line 3, column 5: ..."
    if (auto end = words.find("] "); end != std::string::npos) words = words.substr(end + 2);
    errors.push_back(words);
    return Json::object();
  }
}

}  // namespace

std::vector<Override> parse_overrides(const std::vector<std::string>& arguments, const std::vector<std::string>& flags) {
  std::vector<Override> out;
  Errors errors;
  for (const auto& argument : arguments) {
    size_t equals = argument.find('=');
    if (argument.rfind("--", 0) != 0) {
      errors.push_back(str("\"", argument, "\" is neither a flag nor an override --KEY=VALUE"));
      continue;
    }
    std::string path = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (path == "init_from" || path == "init-from") path = "train.init_from";
    auto flag = path.find('.') == std::string::npos && path != "init_from" ? nearest(path, flags) : "";
    if (!find_key(path) && !is_section(path) && !flag.empty())
      errors.push_back(str("unknown flag --", path, "; did you mean --", flag, "?"));
    else if (!find_key(path))
      errors.push_back(is_section(path) ? str("--", path, " is a section; name one of its keys: --", path, ".", members(path)[0], "=VALUE")
                                        : str("unknown key ", path, " in ", argument, "; ", advice(path)));
    else if (equals == std::string::npos)
      errors.push_back(str("--", path, " has no value; write --", path, "=VALUE"));
    else
      out.push_back({path, argument.substr(equals + 1)});
  }
  if (!errors.empty()) fail("command line", errors);
  return out;
}

RunConfig parse_config(const std::string& text, const std::string& where, const std::vector<Override>& overrides) {
  Target target;
  auto& errors = target.errors;
  Json root = parse_json(text, errors);
  if (!root.is_object())
    errors.push_back(str("the file holds ", type_of(root), "; a config is an object: {\"name\": ..., \"model\": {...}}"));
  else
    apply(target, root, "");
  for (const auto& entry : overrides) {
    const auto* row = find_key(entry.path);
    if (row)
      set(target, *row, override_value(*row, entry.value));
    else
      errors.push_back(str("unknown key ", entry.path, "; ", advice(entry.path)));
  }
  for (auto& line : config_errors(target.config)) {
    bool about_unset =
        std::any_of(target.unset.begin(), target.unset.end(), [&](const auto& path) { return line.find(path) != std::string::npos; });
    if (!about_unset) errors.push_back(std::move(line));
  }
  if (!errors.empty()) fail(where, errors);
  return target.config;
}

RunConfig load_config(const std::string& path, const std::vector<Override>& overrides) {
  std::ifstream file(path);
  std::stringstream text;
  if (!file || !(text << file.rdbuf()))
    throw UserError(str("cannot read the config ", path, "; name a JSON file, as in: trainrun --nproc 2 configs/quickstart.json"));
  return parse_config(text.str(), path, overrides);
}

}  // namespace lockstep
