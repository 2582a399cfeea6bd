// A row of the key `data.sources`: {"paths": ["a.jsonl"], "weight": 2}, and the members of its records where
// they are not those of `data`: "text", "prompt", "completion", "messages", "label".
#pragma once

#include <string>
#include <vector>

#include "core/base/key.h"

namespace lockstep::launcher {

struct SourceRow {
  std::vector<std::string> paths;
  double weight = 1;
  std::string text = {}, prompt = {}, completion = {}, messages = {}, label = {};  // "": as data says
  bool operator==(const SourceRow&) const = default;

  static constexpr const char* kKeyType = "{paths, weight} row";
  static bool is_written_as(const Json& v) {
    if (!v.is_object() || !v.contains("paths") || !v["paths"].is_array()) return false;
    for (const auto& path : v["paths"])
      if (!path.is_string()) return false;
    for (const auto& [name, value] : v.items()) {
      if (name == "paths") continue;
      const bool member =
          name == "text" || name == "prompt" || name == "completion" || name == "messages" || name == "label";
      if (!(name == "weight" ? value.is_number() : member && value.is_string())) return false;
    }
    return true;
  }
};
inline void to_json(Json& json, const SourceRow& row) {
  json = {{"paths", row.paths}, {"weight", row.weight}};
  for (auto [name, value] : {std::pair{"text", &row.text},
                             {"prompt", &row.prompt},
                             {"completion", &row.completion},
                             {"messages", &row.messages},
                             {"label", &row.label}})
    if (!value->empty()) json[name] = *value;
}
inline void from_json(const Json& json, SourceRow& row) {
  row = {};
  row.paths = json.at("paths").get<std::vector<std::string>>();
  row.weight = json.value("weight", 1.0);
  for (auto [name, value] : {std::pair{"text", &row.text},
                             {"prompt", &row.prompt},
                             {"completion", &row.completion},
                             {"messages", &row.messages},
                             {"label", &row.label}})
    if (json.contains(name)) *value = json[name].get<std::string>();
}

}  // namespace lockstep::launcher
