// any_storage: sends each path to the storage that its scheme names.
#include "checkpoint/storage/s3/s3_storage.h"
#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint {

namespace {
// Created on the first path that needs it, which is when missing environment variables are reported.
Storage& object_store() {
  static s3::S3Storage storage(s3::settings_of_environment());
  return storage;
}

class AnyStorage : public Storage {
 public:
  explicit AnyStorage(Storage& files) : files_(files) {}
  Commit commit(const std::string& path) const override { return storage_of(path).commit(path); }
  std::unique_ptr<OutFile> create(const std::string& path) override { return storage_of(path).create(path); }
  std::unique_ptr<InFile> open(const std::string& path) override { return storage_of(path).open(path); }
  bool exists(const std::string& path) override { return storage_of(path).exists(path); }
  std::vector<FolderEntry> list(const std::string& folder) override {
    return storage_of(folder).list(folder);
  }
  void make_folders(const std::string& path) override { storage_of(path).make_folders(path); }
  void rename(const std::string& from, const std::string& to) override { storage_of(from).rename(from, to); }
  void remove(const std::string& path) override { storage_of(path).remove(path); }
  void sync_folder(const std::string& folder) override { storage_of(folder).sync_folder(folder); }
  std::shared_ptr<FolderLock> lock(const std::string& folder) override {
    return storage_of(folder).lock(folder);
  }

 private:
  Storage& storage_of(const std::string& path) const {
    return path.starts_with(s3::kScheme) ? object_store() : files_;
  }
  Storage& files_;
};
}  // namespace

Storage& any_storage() {
  static AnyStorage storage(file_storage());
  return storage;
}
Storage& any_shared_storage() {
  static AnyStorage storage(shared_file_storage());
  return storage;
}

}  // namespace lockstep::checkpoint
