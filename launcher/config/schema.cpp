// The table of keys as a JSON Schema (draft 2020-12), for editors: completion, meaning and range of each key.
#include "launcher/config/config.h"

namespace lockstep::launcher {

namespace {
// "word:N" and "word:PATH" in a rule's choices allow any number or text after the word.
std::string pattern_of(const std::string& choice) {
  std::string out;
  for (char c : choice)
    out += std::string_view(".+*?()[]{}|^$\\").find(c) == std::string_view::npos ? std::string(1, c)
                                                                                 : str("\\", c);
  if (choice.ends_with(":N")) return out.substr(0, out.size() - 1) + "[0-9]+";
  if (choice.ends_with(":PATH")) return out.substr(0, out.size() - 4) + ".+";
  return out;
}
bool is_open(const std::string& choice) { return choice.ends_with(":N") || choice.ends_with(":PATH"); }

void add_bounds(Json& to, const Rule& rule) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (rule.low != -kInfinity) to[rule.low_open ? "exclusiveMinimum" : "minimum"] = rule.low;
  if (rule.high != kInfinity) to[rule.high_open ? "exclusiveMaximum" : "maximum"] = rule.high;
}

Json value_schema(const std::string& type, const Rule& rule) {
  if (type == "{dim, params, place} row") {
    Json text = {{"type", "string"}};
    return {{"type", "object"},
            {"properties", {{"dim", text}, {"params", text}, {"place", text}}},
            {"required", {"dim", "params", "place"}}};
  }
  if (type == "{paths, weight} row") {
    Json text = {{"type", "string"}};
    return {{"type", "object"},
            {"properties",
             {{"paths", {{"type", "array"}, {"items", text}}},
              {"weight", {{"type", "number"}, {"exclusiveMinimum", 0}}},
              {"text", text},
              {"prompt", text},
              {"completion", text},
              {"messages", text},
              {"label", text},
              {"text_pair", text}}},
            {"required", {"paths"}},
            {"additionalProperties", false}};
  }
  if (type.starts_with("list of ")) {
    std::string of = type.substr(8);
    if (of.ends_with('s')) of.pop_back();
    return {{"type", "array"}, {"items", value_schema(of, rule)}};
  }
  Json out = Json::object();
  if (type == "integer" || type == "number" || type == "boolean" || type == "string") out["type"] = type;
  if (std::any_of(rule.choices.begin(), rule.choices.end(), is_open)) {
    std::vector<std::string> patterns;
    for (const auto& choice : rule.choices) patterns.push_back(pattern_of(choice));
    out["pattern"] = "^(" + join(patterns, "|") + ")$";
  } else if (!rule.choices.empty()) {
    out["enum"] = rule.choices;
  }
  if (type == "integer" || type == "number") add_bounds(out, rule);
  return out;
}
}  // namespace

std::string config_schema() {
  Json root = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
               {"title", "A config of trainrun"},
               {"type", "object"},
               {"properties", {{"$schema", {{"type", "string"}}}}},
               {"additionalProperties", false}};
  for (const auto& row : config_keys()) {
    Json* node = &root;
    const std::vector<std::string> parts = split(row.path, '.');
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      Json& section = (*node)["properties"][parts[i]];
      if (section.is_null())
        section = {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
      node = &section;
    }
    Json key = value_schema(row.type, row.rule);
    key["description"] = (row.kinds.empty() ? "" : join(row.kinds, ", ") + ": ") + row.help;
    key["default"] = row.fallback;
    (*node)["properties"][parts.back()] = std::move(key);
  }
  return root.dump(2) + "\n";
}

}  // namespace lockstep::launcher
