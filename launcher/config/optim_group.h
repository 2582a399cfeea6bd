// A row of the key `optim.groups`: {"params": "**.lora_B.weight", "lr": 1e-3, "weight_decay": 0}.
#pragma once

#include <optional>
#include <string>

#include "core/base/key.h"

namespace lockstep::launcher {

// A missing member has the value of all other parameters.
struct OptimGroup {
  std::string params;
  std::optional<double> lr = {}, weight_decay = {};
  bool operator==(const OptimGroup&) const = default;

  static constexpr const char* kKeyType = "{params, lr, weight_decay} row";
  static bool is_written_as(const Json& v) {
    if (!v.is_object() || !v.contains("params") || !v["params"].is_string()) return false;
    for (const auto& [name, value] : v.items())
      if (name != "params" && !((name == "lr" || name == "weight_decay") && value.is_number())) return false;
    return v.size() > 1;
  }
};
inline void to_json(Json& json, const OptimGroup& row) {
  json = {{"params", row.params}};
  if (row.lr) json["lr"] = *row.lr;
  if (row.weight_decay) json["weight_decay"] = *row.weight_decay;
}
inline void from_json(const Json& json, OptimGroup& row) {
  row = {json.at("params").get<std::string>()};
  if (json.contains("lr")) row.lr = json["lr"].get<double>();
  if (json.contains("weight_decay")) row.weight_decay = json["weight_decay"].get<double>();
}

}  // namespace lockstep::launcher
