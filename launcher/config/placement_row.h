// A row of the key `placements`: {"dim": "tp", "params": "blocks.*.mlp.up.*", "place": "shard(0)"}.
#pragma once

#include <string>

#include "core/base/key.h"

namespace lockstep::launcher {

struct PlacementRow {
  std::string dim, params, place;
  bool operator==(const PlacementRow&) const = default;

  static constexpr const char* kKeyType = "{dim, params, place} row";
  static bool is_written_as(const Json& v) {
    if (!v.is_object() || v.size() != 3) return false;
    for (const char* member : {"dim", "params", "place"})
      if (!v.contains(member) || !v[member].is_string()) return false;
    return true;
  }
};
inline void to_json(Json& json, const PlacementRow& row) {
  json = {{"dim", row.dim}, {"params", row.params}, {"place", row.place}};
}
inline void from_json(const Json& json, PlacementRow& row) {
  row = {json.at("dim").get<std::string>(), json.at("params").get<std::string>(),
         json.at("place").get<std::string>()};
}

}  // namespace lockstep::launcher
