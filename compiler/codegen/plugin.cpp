// Opens a backend's library and checks its version.
#include "compiler/codegen/plugin.h"

#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "core/base/error.h"
#include "core/files/trusted_library.h"

namespace lockstep::compiler {

namespace {
const Plugin& plugin_in(const TrustedLibrary& library, const std::string& path) {
  using Entry = const Plugin* (*)();
  auto entry = reinterpret_cast<Entry>(library.find("lockstep_backend"));
  if (!entry)
    throw UserError(
        str("train.device plugin:", path,
            ": it has no entry \"lockstep_backend\"; is it a Lockstep backend? (LOCKSTEP_BACKEND in "
            "lockstep_backend.h defines it)"));
  const Plugin* plugin = entry();
  if (!plugin || !plugin->abi || std::strcmp(plugin->abi, LOCKSTEP_PLUGIN_VERSION) != 0)
    throw UserError(str("train.device plugin:", path, " was built against \"",
                        plugin && plugin->abi ? plugin->abi : "", "\", this program is \"",
                        LOCKSTEP_PLUGIN_VERSION, "\"; rebuild it with this version's headers and compiler"));
  if (!plugin->open) throw UserError(str("train.device plugin:", path, ": its `open` is null"));
  return *plugin;
}
}  // namespace

const Plugin& load_plugin(const std::string& path) {
  if (path.empty())
    throw UserError("train.device \"plugin:\" names no library; write plugin:PATH, as in plugin:./libfoo.so");
  static std::mutex mutex;
  // Kept for the life of the process.
  static std::map<std::string, std::pair<TrustedLibrary, const Plugin*>> known;
  std::lock_guard lock(mutex);
  if (auto found = known.find(path); found != known.end()) return *found->second.second;
  TrustedLibrary opened = open_trusted_library(path, "train.device plugin:", "plugin:");
  const Plugin& plugin = plugin_in(opened, path);
  known.emplace(path, std::pair(std::move(opened), &plugin));
  return plugin;
}

}  // namespace lockstep::compiler
