// The table of keys, read off a RunConfig that is constructed while the reader is on.
#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "launcher/config/config.h"

namespace lockstep::launcher {

namespace {
std::vector<ConfigKey> read_table() {
  alignas(RunConfig) static unsigned char storage[sizeof(RunConfig)];
  config_detail::Reading reading{reinterpret_cast<const char*>(storage), {}};
  config_detail::reading = &reading;
  auto* object = new (storage) RunConfig;
  config_detail::reading = nullptr;
  object->~RunConfig();
  for (const auto& row : reading.rows)
    LS_CHECK(row.offset < sizeof(RunConfig), "key ", row.path, " names a field of another object");
  return std::move(reading.rows);
}
}  // namespace

std::string bound_text(double bound) {
  return std::abs(bound) < 1e15 && bound == std::floor(bound) ? str(static_cast<int64_t>(bound))
                                                              : number_text(bound);
}

std::span<const ConfigKey> config_keys() {
  static const std::vector<ConfigKey> table = read_table();
  return table;
}

const ConfigKey* find_key(const std::string& path) {
  auto keys = config_keys();
  auto found = std::find_if(keys.begin(), keys.end(), [&](const ConfigKey& row) { return row.path == path; });
  return found == keys.end() ? nullptr : &*found;
}

Json get_key(const RunConfig& config, const ConfigKey& key) {
  return key.get(reinterpret_cast<const char*>(&config) + key.offset);
}

}  // namespace lockstep::launcher
