// A Storage on which one step folder stays readable after its removal: all files are opened up front and read
// through their descriptors.
#include <cerrno>
#include <map>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/format/damage.h"

namespace lockstep::checkpoint {

namespace {
// A run has one file per rank. Files beyond this count are opened when they are read, so that descriptors do
// not run out.
constexpr size_t kHeldFiles = 256;

class SharedFile : public InFile {
 public:
  explicit SharedFile(std::shared_ptr<const InFile> file) : file_(std::move(file)) {}
  int64_t bytes() const override { return file_->bytes(); }
  // An object that the store removes or replaces is lost even to readers that have it open.
  void read(int64_t offset, void* out, size_t bytes) const override try {
    file_->read(offset, out, bytes);
  } catch (const StorageError& error) {
    if (error.code == ENOENT || error.code == ESTALE)
      throw VanishedError(str(error.path, " was removed while it was read"));
    throw;
  }

 private:
  std::shared_ptr<const InFile> file_;
};

class HeldStorage : public Storage {
 public:
  HeldStorage(const std::string& step_dir, Storage& below) : below_(below) {
    hold(step_dir + "/" + kManifestName);
    const Manifest manifest = load_manifest(*this, step_dir);
    for (const auto& file : manifest.files)
      if (held_.size() <= kHeldFiles) hold(step_dir + "/" + file.name);
  }
  std::unique_ptr<InFile> open(const std::string& path) override {
    auto found = held_.find(path);
    return found == held_.end() ? below_.open(path) : std::make_unique<SharedFile>(found->second);
  }
  std::unique_ptr<OutFile> create(const std::string& path) override { return below_.create(path); }
  bool exists(const std::string& path) override { return below_.exists(path); }
  std::vector<FolderEntry> list(const std::string& folder) override { return below_.list(folder); }
  void make_folders(const std::string& path) override { below_.make_folders(path); }
  Commit commit(const std::string& path) const override { return below_.commit(path); }
  void rename(const std::string& from, const std::string& to) override { below_.rename(from, to); }
  void remove(const std::string& path) override { below_.remove(path); }
  void sync_folder(const std::string& folder) override { below_.sync_folder(folder); }
  std::shared_ptr<FolderLock> lock(const std::string& folder) override { return below_.lock(folder); }

 private:
  // A file that cannot be opened is skipped here; its reader reports the reason.
  void hold(const std::string& path) {
    try {
      held_.emplace(path, below_.open(path));
    } catch (const StorageError&) {}
  }
  Storage& below_;
  std::map<std::string, std::shared_ptr<const InFile>> held_;
};
}  // namespace

std::unique_ptr<Storage> hold_checkpoint(const std::string& step_dir, Storage& storage) {
  return std::make_unique<HeldStorage>(step_dir, storage);
}

}  // namespace lockstep::checkpoint
