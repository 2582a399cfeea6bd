// S3Storage: checkpoints as objects of a bucket, s3://BUCKET/PREFIX.
#pragma once

#include <map>
#include <mutex>

#include "checkpoint/storage/s3/client.h"
#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint::s3 {

// Objects appear atomically, so a checkpoint exists when its manifest does (Commit::manifest_last). A folder
// is a common prefix of keys: it exists while it has an object. An open file reads the object as it was when
// opened, or fails with ESTALE if it was replaced and ENOENT if it was removed.
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
  // The object FOLDER/.lock (lock.h). The process that gets it aborts the unfinished multipart uploads below
  // the folder.
  std::shared_ptr<FolderLock> lock(const std::string& folder) override;

 private:
  void give_up_uploads(const Address& folder);
  Client client_;
  std::mutex guard_;
  std::map<std::string, std::weak_ptr<FolderLock>> held_;  // of this process
};

}  // namespace lockstep::checkpoint::s3
