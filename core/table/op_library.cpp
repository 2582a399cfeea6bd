// Opening libraries of ops.
#include "core/table/op_library.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "core/base/error.h"
#include "core/files/trusted_library.h"

namespace lockstep {

namespace {
struct Libraries {
  std::mutex mutex;
  std::map<std::string, TrustedLibrary> open;  // by absolute path, for the life of the process
};
Libraries& libraries() {
  static Libraries all;
  return all;
}
std::string absolute(const std::string& path) {
  std::error_code none;
  const auto out = std::filesystem::absolute(path, none).lexically_normal();
  return none ? path : out.string();
}
}  // namespace

bool has_loaded_ops(const std::string& path) {
  std::lock_guard lock(libraries().mutex);
  return libraries().open.count(absolute(path)) > 0;
}

void load_ops(const std::string& path) {
  const std::string
      subject = "[load_ops] ",
      exported = "; build the program with its symbols exported (CMake: ENABLE_EXPORTS; else -rdynamic)";
  if (path.empty())
    throw UserError("[load_ops] the path of the library is empty; write one, as ./libmine.so");
  Libraries& all = libraries();
  std::lock_guard lock(all.mutex);
  if (path.find('/') != std::string::npos && all.open.count(absolute(path))) return;
  TrustedLibrary opened = open_trusted_library(path, subject, "", exported);
  using Entry = const OpLibrary* (*)();
  const auto entry = reinterpret_cast<Entry>(opened.find("lockstep_op_library"));
  if (!entry)
    throw UserError(str(subject, path,
                        ": it has no entry \"lockstep_op_library\"; is it a library of ops? "
                        "(LOCKSTEP_OP_LIBRARY in core/table/op_library.h defines it)"));
  const OpLibrary* library = entry();
  if (!library || !library->abi || std::strcmp(library->abi, LOCKSTEP_OP_LIBRARY_VERSION) != 0)
    throw UserError(str(subject, path, " was built against \"", library && library->abi ? library->abi : "",
                        "\", this program is \"", LOCKSTEP_OP_LIBRARY_VERSION,
                        "\"; rebuild it with this version's headers and compiler"));
  if (library->table() != op_table_address())
    throw UserError(str(subject, path,
                        " has an op table of its own, so that this program would not see its ops", exported));
  if (!library->add) throw UserError(str(subject, path, ": its `add` is null"));
  library->add();
  all.open.emplace(absolute(path), std::move(opened));
}

}  // namespace lockstep
