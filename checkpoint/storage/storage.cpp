// Helpers on top of Storage: read and write texts, remove folders, split paths.
#include "checkpoint/storage/storage.h"

#include <cerrno>

#include "core/files/remove_known.h"

namespace lockstep::checkpoint {

bool StorageError::access_denied() const {
  return code == EACCES || code == EPERM || code == EROFS || code == EMFILE || code == ENFILE ||
         code == ENOMEM;
}

void Storage::rename(const std::string& from, const std::string& to) {
  throw StorageError(str("cannot rename ", from, " to ", to, ": this storage renames nothing"), from,
                     ENOTSUP);
}

void OutFile::write_at(int64_t offset, const void*, size_t) {
  throw InternalError(str("a write at byte ", offset, " of a file that is written front to back"));
}

namespace {
std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}
}  // namespace

std::string parent_folder(const std::string& path) {
  std::string clean = without_trailing_slashes(path);
  size_t slash = clean.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : without_trailing_slashes(clean.substr(0, slash));
}

std::string last_part(const std::string& path) {
  std::string clean = without_trailing_slashes(path);
  size_t slash = clean.rfind('/');
  return slash == std::string::npos ? clean : clean.substr(slash + 1);
}

std::string read_text(Storage& storage, const std::string& path, int64_t limit) {
  auto file = storage.open(path);
  if (file->bytes() > limit)
    throw StorageError(str(path, " has ", file->bytes(), " bytes; at most ", limit, " are read"), path,
                       EFBIG);
  std::string text(file->bytes(), '\0');
  file->read(0, text.data(), text.size());
  return text;
}

void write_text(Storage& storage, const std::string& path, const std::string& text) {
  auto file = storage.create(path);
  file->write(text.data(), text.size());
  file->sync();
  file->close();
}

void remove_folder(Storage& storage, const std::string& folder) {
  if (is_link(folder)) return storage.remove(folder);
  for (const auto& entry : storage.list(folder)) {
    std::string path = folder + "/" + entry.name;
    if (entry.folder)
      remove_folder(storage, path);
    else
      storage.remove(path);
  }
  storage.remove(folder);
}

}  // namespace lockstep::checkpoint
