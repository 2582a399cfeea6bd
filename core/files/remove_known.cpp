// Opens each folder relative to its parent, so that a name that is replaced in the meantime cannot lead
// elsewhere.
#include "core/files/remove_known.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/files/descriptor.h"

namespace lockstep {

namespace {
constexpr int kDeepest = 16;  // no file of ours is that deep

Descriptor open_folder(int at, const std::string& name) {
  return Descriptor(::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

std::vector<std::string> names_in(const Descriptor& folder) {
  std::vector<std::string> out;
  Descriptor again(::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!again) return out;
  std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(again.get()), &::closedir);
  if (!entries) return out;
  (void)again.take();  // closedir closes it
  while (const dirent* entry = ::readdir(entries.get()))
    if (const std::string name = entry->d_name; name != "." && name != "..") out.push_back(name);
  std::sort(out.begin(), out.end());
  return out;
}

bool is_folder(int at, const std::string& name) {
  struct stat found{};
  return ::fstatat(at, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(found.st_mode);
}

void empty(const Descriptor& folder, const std::string& below, const IsOurs& ours, int depth) {
  for (const std::string& name : names_in(folder)) {
    const Entry entry{below + name, is_folder(folder.get(), name)};
    if (!ours(entry)) continue;
    if (!entry.folder) {
      ::unlinkat(folder.get(), name.c_str(), 0);
      continue;
    }
    if (depth == kDeepest) continue;
    if (const Descriptor inner = open_folder(folder.get(), name); inner)
      empty(inner, entry.path + "/", ours, depth + 1);
    ::unlinkat(folder.get(), name.c_str(), AT_REMOVEDIR);
  }
}

std::string foreign(const Descriptor& folder, const std::string& below, const IsOurs& ours, int depth) {
  for (const std::string& name : names_in(folder)) {
    const Entry entry{below + name, is_folder(folder.get(), name)};
    if (!ours(entry) || depth == kDeepest) return entry.path;
    if (!entry.folder) continue;
    if (const Descriptor inner = open_folder(folder.get(), name); inner)
      if (std::string found = foreign(inner, entry.path + "/", ours, depth + 1); !found.empty()) return found;
  }
  return "";
}
}  // namespace

bool remove_known(const std::string& folder, const IsOurs& ours) {
  const Descriptor opened = open_folder(AT_FDCWD, folder);
  if (!opened) return errno == ENOENT;
  empty(opened, "", ours, 0);
  return ::rmdir(folder.c_str()) == 0;
}

std::string foreign_in(const std::string& folder, const IsOurs& ours) {
  const Descriptor opened = open_folder(AT_FDCWD, folder);
  return opened ? foreign(opened, "", ours, 0) : "";
}

bool is_link(const std::string& path) {
  struct stat found{};
  std::string plain = path;
  while (plain.size() > 1 && plain.back() == '/') plain.pop_back();
  return ::lstat(plain.c_str(), &found) == 0 && S_ISLNK(found.st_mode);
}

bool is_numbered(std::string_view text, std::string_view before, std::string_view behind) {
  if (!text.starts_with(before)) return false;
  text.remove_prefix(before.size());
  if (!text.ends_with(behind)) return false;
  text.remove_suffix(behind.size());
  return !text.empty() && text.size() <= 18 &&
         text.find_first_not_of("0123456789") == std::string_view::npos &&
         (text.size() == 1 || text[0] != '0');
}

}  // namespace lockstep
