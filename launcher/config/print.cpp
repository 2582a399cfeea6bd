// The resolved config as JSON, and the reference of keys as Markdown.
#include "core/base/error.h"
#include "launcher/config/config.h"

namespace lockstep::launcher {

Json config_json(const RunConfig& config) {
  Json root = Json::object();
  for (const auto& row : config_keys()) {
    if (!has_meaning(config, row)) continue;
    Json* node = &root;
    for (const auto& part : split(row.path, '.')) node = &(*node)[part];
    *node = get_key(config, row);
  }
  return root;
}

namespace {
// Prints one key per line, and lists of plain values on one line.
void print(std::string& out, const Json& node, const std::string& indent) {
  if (!node.is_object()) {
    out += node.dump();
    return;
  }
  out += "{\n";
  size_t left = node.size();
  for (const auto& [name, value] : node.items()) {
    out += indent + "  " + Json(name).dump() + ": ";
    print(out, value, indent + "  ");
    out += --left ? ",\n" : "\n";
  }
  out += indent + "}";
}
std::string range(const ConfigKey& row) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Rule& rule = row.rule;
  if (!rule.choices.empty()) return join(rule.choices, ", ");
  if (rule.low == -kInfinity && rule.high == kInfinity) return "";
  if (rule.high == kInfinity) return str(rule.low_open ? "> " : ">= ", bound_text(rule.low));
  return str(rule.low_open ? "(" : "[", bound_text(rule.low), ", ", bound_text(rule.high),
             rule.high_open ? ")" : "]");
}
}  // namespace

std::string config_text(const RunConfig& config) {
  std::string out;
  print(out, config_json(config), "");
  return out + "\n";
}

std::string config_reference() {
  std::string out =
      "# Config keys\n\n"
      "A config is one JSON object, with // and /* */ comments if you like; every key has a default, an "
      "unknown key is an error. `--a.b=VALUE` overrides a key from the command "
      "line\n"
      "(VALUE is JSON or a bare string). `--init_from=FILE` is short for `--train.init_from=FILE`.\n";
  std::string section = "-";
  for (const auto& row : config_keys()) {
    std::string own = row.path.substr(0, row.path.find('.') == std::string::npos ? 0 : row.path.find('.'));
    if (own != section) {
      section = own;
      out += str("\n", own.empty() ? "## Top level" : "## " + own,
                 "\n\n| key | type | default | values | meaning |\n| --- | --- | --- | --- | --- |\n");
    }
    out += str("| `", row.path, "` | ", row.type, " | `", row.fallback.dump(), "`");
    for (const auto& other : other_defaults(row))
      out += str("; `", other.text, "` of ", join(other.kinds, ", "));
    out += str(" | ", range(row), " | ", row.kinds.empty() ? "" : join(row.kinds, ", ") + ": ", row.help);
    for (const auto& other : other_meanings(row))
      out += str("; of ", join(other.kinds, ", "), ": ", other.text);
    out += " |\n";
  }
  return out;
}

}  // namespace lockstep::launcher
