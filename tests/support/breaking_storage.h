// BreakingStorage: any storage, of which one operation that changes something fails, or is the last one that
// its process begins.
#pragma once

#include <mutex>
#include <string>

#include "checkpoint/storage/storage.h"

namespace lockstep {

// Counts create, write, sync, close, make_folders, rename, remove and sync_folder.
class BreakingStorage : public checkpoint::Storage {
 public:
  struct Ended {};  // the process is gone; no std::exception, so that nothing handles it

  explicit BreakingStorage(checkpoint::Storage& below) : below_(below) {}
  int64_t end_at = -1;   // nothing of this operation, nor of later ones, is done
  int64_t fail_at = -1;  // this one fails with EIO, once
  int64_t operations() const { return operations_; }
  const std::string& last() const { return last_; }

  checkpoint::Commit commit(const std::string& path) const override { return below_.commit(path); }
  std::unique_ptr<checkpoint::OutFile> create(const std::string& path) override {
    step("create", path);
    return std::make_unique<Out>(*this, path, below_.create(path));
  }
  std::unique_ptr<checkpoint::InFile> open(const std::string& path) override { return below_.open(path); }
  bool exists(const std::string& path) override { return below_.exists(path); }
  std::vector<checkpoint::FolderEntry> list(const std::string& folder) override {
    return below_.list(folder);
  }
  void make_folders(const std::string& path) override { step("make", path), below_.make_folders(path); }
  void rename(const std::string& from, const std::string& to) override {
    step("rename", from);
    below_.rename(from, to);
  }
  void remove(const std::string& path) override { step("remove", path), below_.remove(path); }
  void sync_folder(const std::string& folder) override { step("sync", folder), below_.sync_folder(folder); }
  std::shared_ptr<checkpoint::FolderLock> lock(const std::string& folder) override {
    return below_.lock(folder);
  }

 private:
  class Out : public checkpoint::OutFile {
   public:
    Out(BreakingStorage& storage, std::string path, std::unique_ptr<checkpoint::OutFile> below)
        : storage_(storage), path_(std::move(path)), below_(std::move(below)) {}
    void write(const void* data, size_t bytes) override {
      storage_.step("write", path_);
      below_->write(data, bytes);
    }
    bool anywhere() const override { return below_->anywhere(); }
    void expect(int64_t bytes) override { below_->expect(bytes); }
    void write_at(int64_t offset, const void* data, size_t bytes) override {
      storage_.step("write", path_);
      below_->write_at(offset, data, bytes);
    }
    void sync() override { storage_.step("sync", path_), below_->sync(); }
    void close() override { storage_.step("close", path_), below_->close(); }
    int64_t bytes() const override { return below_->bytes(); }

   private:
    BreakingStorage& storage_;
    std::string path_;
    std::unique_ptr<checkpoint::OutFile> below_;
  };
  void step(const char* what, const std::string& path) {
    std::lock_guard<std::mutex> hold(guard_);
    const int64_t number = operations_;
    if (end_at >= 0 && number >= end_at) throw Ended{};
    ++operations_;
    last_ = str(what, " ", path);
    if (number == fail_at)
      throw checkpoint::StorageError(str("cannot ", what, " ", path, ": told to by a test"), path, 5);
  }

  checkpoint::Storage& below_;
  std::mutex guard_;
  int64_t operations_ = 0;
  std::string last_;
};

}  // namespace lockstep
