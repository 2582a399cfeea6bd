// A row of the key `placements`: {"dim": "tp", "params": "blocks.*.mlp.up.*", "place": "shard(0)"}.
#pragma once

#include <string>

#include "launcher/config/key.h"

namespace lockstep::launcher {

struct PlacementRow {
  std::string dim, params, place;
  bool operator==(const PlacementRow&) const = default;
};
inline void to_json(Json& json, const PlacementRow& row) {
  json = {{"dim", row.dim}, {"params", row.params}, {"place", row.place}};
}
inline void from_json(const Json& json, PlacementRow& row) {
  row = {json.at("dim").get<std::string>(), json.at("params").get<std::string>(),
         json.at("place").get<std::string>()};
}

namespace config_detail {
template <>
struct Kind<PlacementRow> : PlainKind<PlacementRow> {
  static constexpr const char* name = "{dim, params, place} row";
  static bool accepts(const Json& v) {
    if (!v.is_object() || v.size() != 3) return false;
    for (const char* member : {"dim", "params", "place"})
      if (!v.contains(member) || !v[member].is_string()) return false;
    return true;
  }
};
}  // namespace config_detail

}  // namespace lockstep::launcher
