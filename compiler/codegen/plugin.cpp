// Opening a backend's library.
#include "compiler/codegen/plugin.h"

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "core/base/error.h"
#include "core/base/trusted_path.h"

namespace lockstep::compiler {

namespace {
// A library that was opened: the file stays open, since its path under /proc is the loader's name for it.
struct Opened {
  Descriptor file;
  void* library = nullptr;
};

// The bytes that were checked are the bytes that are mapped: the loader is given the open file, not the path.
Opened open_library(const std::string& path) {
  if (path.find('/') == std::string::npos)
    throw UserError(str("train.device plugin:", path,
                        " names no place, and a library's owner is checked before it is opened; write a "
                        "path, as in plugin:./",
                        path, " or plugin:/usr/lib/", path));
  TrustedOpen opened = open_trusted_file(path);
  if (opened.distrusted())
    throw UserError(str("train.device plugin:", path, " is not opened: ", opened.why,
                        ". Its code would run as you: put it where you or root alone can write"));
  if (!opened) throw UserError(str("train.device plugin:", path, ": ", opened.why));
  const std::string name = str("/proc/self/fd/", opened.file.get());
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::string why = dlerror();
    if (why.starts_with(name)) why = path + why.substr(name.size());
    throw UserError(str("train.device plugin:", path, ": ", why));
  }
  return {std::move(opened.file), library};
}

const Plugin& plugin_in(void* library, const std::string& path) {
  using Entry = const Plugin* (*)();
  auto entry = reinterpret_cast<Entry>(dlsym(library, "lockstep_backend"));
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
  static std::map<std::string, std::pair<Opened, const Plugin*>> known;  // for the life of the process
  std::lock_guard lock(mutex);
  if (auto found = known.find(path); found != known.end()) return *found->second.second;
  Opened opened = open_library(path);
  const Plugin& plugin = plugin_in(opened.library, path);
  known.emplace(path, std::pair(std::move(opened), &plugin));
  return plugin;
}

}  // namespace lockstep::compiler
