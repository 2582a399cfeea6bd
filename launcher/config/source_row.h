// A row of the key `data.sources`: {"paths": ["a.jsonl"], "weight": 2}, and the members of its records that
// differ from those of `data`: "text", "prompt", "completion", "messages", "label", "text_pair".
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "core/base/key.h"

namespace lockstep::launcher {

struct SourceRow {
  std::vector<std::string> paths;
  double weight = 1;
  std::string text = {}, prompt = {}, completion = {}, messages = {}, label = {},
              text_pair = {};  // "": that of `data`
  bool operator==(const SourceRow&) const = default;

  struct Member {
    const char* name;
    std::string SourceRow::* of;
  };
  static const Member kMembers[6];

  static constexpr const char* kKeyType = "{paths, weight} row";
  static bool is_written_as(const Json& v) {
    if (!v.is_object() || !v.contains("paths") || !v["paths"].is_array()) return false;
    for (const auto& path : v["paths"])
      if (!path.is_string()) return false;
    for (const auto& [name, value] : v.items()) {
      if (name == "paths") continue;
      const bool member = std::any_of(std::begin(kMembers), std::end(kMembers),
                                      [&](const auto& m) { return name == m.name; });
      if (!(name == "weight" ? value.is_number() : member && value.is_string())) return false;
    }
    return true;
  }
};
inline constexpr SourceRow::Member SourceRow::kMembers[6] = {{"text", &SourceRow::text},
                                                             {"prompt", &SourceRow::prompt},
                                                             {"completion", &SourceRow::completion},
                                                             {"messages", &SourceRow::messages},
                                                             {"label", &SourceRow::label},
                                                             {"text_pair", &SourceRow::text_pair}};

inline void to_json(Json& json, const SourceRow& row) {
  json = {{"paths", row.paths}, {"weight", row.weight}};
  for (const auto& [name, of] : SourceRow::kMembers)
    if (const std::string& value = row.*of; !value.empty()) json[name] = value;
}
inline void from_json(const Json& json, SourceRow& row) {
  row = {};
  row.paths = json.at("paths").get<std::vector<std::string>>();
  row.weight = json.value("weight", 1.0);
  for (const auto& [name, of] : SourceRow::kMembers)
    if (json.contains(name)) row.*of = json[name].get<std::string>();
}

}  // namespace lockstep::launcher
