// Opening a backend's library.
#include "compiler/codegen/plugin.h"

#include <dlfcn.h>

#include <cstring>

#include "core/base/error.h"

namespace lockstep {

const Plugin& load_plugin(const std::string& path) {
  if (path.empty()) throw UserError("train.device \"plugin:\" names no library; write plugin:PATH, as in plugin:./libfoo.so");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw UserError(str("train.device plugin:", path, ": ", dlerror()));
  using Entry = const Plugin* (*)();
  auto entry = reinterpret_cast<Entry>(dlsym(library, "lockstep_backend"));
  if (!entry)
    throw UserError(str("train.device plugin:", path, ": it has no entry \"lockstep_backend\"; is it a Lockstep backend? (LOCKSTEP_BACKEND in "
                        "lockstep_backend.h defines it)"));
  const Plugin* plugin = entry();
  if (!plugin || !plugin->abi || std::strcmp(plugin->abi, LOCKSTEP_PLUGIN_VERSION) != 0)
    throw UserError(str("train.device plugin:", path, " was built against \"", plugin && plugin->abi ? plugin->abi : "", "\", this program is \"",
                        LOCKSTEP_PLUGIN_VERSION, "\"; rebuild it with this version's headers and compiler"));
  if (!plugin->open) throw UserError(str("train.device plugin:", path, ": its `open` is null"));
  return *plugin;
}

}  // namespace lockstep
