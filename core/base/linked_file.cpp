// Where links lead.
#include "core/base/linked_file.h"

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

std::string linked_away(const std::string& path) {
  std::error_code failed;
  if (!fs::is_symlink(fs::symlink_status(path, failed))) return "";
  const fs::path parent = fs::path(path).parent_path();
  const fs::path folder = fs::canonical(parent.empty() ? "." : parent, failed);
  if (failed) return "";  // it cannot be reached, as opening it will tell
  const fs::path real = fs::canonical(path, failed);
  if (failed) return "";  // it leads nowhere
  if (is_below(real, folder)) return "";
  fs::path root = folder;
  while (root.has_relative_path() && root.filename() != "snapshots") root = root.parent_path();
  if (root.filename() == "snapshots" && real.parent_path() == root.parent_path() / "blobs") return "";
  return real.string();
}

void refuse_linked_away(const std::string& path) {
  const std::string to = linked_away(path);
  if (!to.empty())
    throw UserError(str(path, " is a link to ", to,
                        ", outside of its folder: it is not read, since what a model's "
                        "folder holds is copied into the run and into what is exported; put the file itself "
                        "there if it belongs to the model"));
}

}  // namespace lockstep
