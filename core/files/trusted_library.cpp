// Maps a library through the descriptor that was checked.
#include "core/files/trusted_library.h"

#include <dlfcn.h>

#include <deque>
#include <mutex>
#include <utility>

#include "core/base/error.h"
#include "core/files/trusted_path.h"

namespace lockstep {

void* TrustedLibrary::find(const char* symbol) const { return dlsym(handle, symbol); }

TrustedLibrary open_trusted_library(const std::string& path, const std::string& subject,
                                    const std::string& word, const std::string& advice) {
  if (path.find('/') == std::string::npos)
    throw UserError(str(subject, path,
                        " names no place, and a library's owner is checked before it is opened; write a "
                        "path, as in ",
                        word, "./", path, " or ", word, "/usr/lib/", path));
  TrustedOpen opened = open_trusted_file(path);
  if (opened.distrusted())
    throw UserError(str(subject, path, " is not opened: ", opened.why,
                        ". Its code would run as you: put it where only you or root can write"));
  if (!opened) throw UserError(str(subject, path, ": ", opened.why));
  const std::string name = str("/proc/self/fd/", opened.file.get());
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::string why = dlerror();
    if (why.starts_with(name)) why = path + why.substr(name.size());
    throw UserError(str(subject, path, ": ", why, advice));
  }
  // The path under /proc is the loader's name for the library. The descriptor stays open as long as the
  // library is mapped: otherwise another library could get the same path, and the loader would return this
  // one.
  static std::mutex mutex;
  static std::deque<Descriptor> mapped;
  std::lock_guard lock(mutex);
  mapped.push_back(std::move(opened.file));
  return {library};
}

}  // namespace lockstep
