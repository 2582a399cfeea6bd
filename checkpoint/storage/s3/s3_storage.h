// S3Storage: checkpoints as objects of a bucket, s3://BUCKET/PREFIX.
#pragma once

#include <map>
#include <mutex>

#include "checkpoint/storage/s3/client.h"
#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint::s3 {

// Objects appear whole, so a checkpoint is there when its manifest is (Commit::manifest_last). A folder is
// what keys have in common: there when something lies in it. A file that is open reads the object as it was,
// or fails with ESTALE where it was replaced, ENOENT where it was removed.
class S3Storage : public Storage {
 public:
  explicit S3Storage(Settings settings) : client_(std::move(settings)) {}

  Commit commit(const std::string&) const override { return Commit::manifest_last; }
  std::unique_ptr<OutFile> create(const std::string& path) override;
  std::unique_ptr<InFile> open(const std::string& path) override;
  bool exists(const std::string& path) override;
  std::vector<FolderEntry> list(const std::string& folder) override;
  void make_folders(const std::string&) override {}
  void remove(const std::string& path) override;
  void sync_folder(const std::string&) override {}
  // The object FOLDER/.lock (lock.h). Whoever gets it gives up what uploads in parts were left below it.
  std::shared_ptr<FolderLock> lock(const std::string& folder) override;

 private:
  void give_up_uploads(const Address& folder);
  Client client_;
  std::mutex guard_;
  std::map<std::string, std::weak_ptr<FolderLock>> held_;  // of this process
};

}  // namespace lockstep::checkpoint::s3
