// Resolves links and compares the result with the folder.
#include "core/files/linked_file.h"

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {
bool is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}
}  // namespace

std::string linked_away(const std::string& path, const std::string& folder) {
  std::error_code failed;
  const fs::path named = fs::canonical(folder.empty() ? "." : folder, failed);
  if (failed) return "";  // unreachable: opening it will report that
  const fs::path real = fs::canonical(path, failed);
  if (failed) return "";  // a dangling link
  if (is_below(real, named)) return "";
  fs::path root = named;
  while (root.has_relative_path() && root.filename() != "snapshots") root = root.parent_path();
  if (root.filename() == "snapshots" && real.parent_path() == root.parent_path() / "blobs") return "";
  return real.string();
}

void refuse_linked_away(const std::string& path, const std::string& folder) {
  const std::string to = linked_away(path, folder);
  if (!to.empty())
    throw UserError(str(path, " leads by a link to ", to, ", outside of ", folder.empty() ? "." : folder,
                        ": it is not read, since what a model's "
                        "folder holds is copied into the run and into what is exported; put the file itself "
                        "there if it belongs to the model"));
}

}  // namespace lockstep
