// MemoryStore: an object store in memory. Files appear whole when they are closed, nothing is renamed,
// folders are what names have in common.
#pragma once

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "checkpoint/storage/storage.h"

namespace lockstep {

class MemoryStore : public checkpoint::Storage {
 public:
  checkpoint::Commit commit(const std::string&) const override { return checkpoint::Commit::manifest_last; }
  std::unique_ptr<checkpoint::OutFile> create(const std::string& path) override {
    return std::make_unique<Out>(*this, path);
  }
  std::unique_ptr<checkpoint::InFile> open(const std::string& path) override {
    std::lock_guard<std::mutex> hold(guard_);
    const auto found = objects_.find(path);
    if (found == objects_.end())
      throw checkpoint::StorageError(str("cannot open ", path, ": there is no such object"), path, ENOENT);
    return std::make_unique<In>(path, found->second);
  }
  bool exists(const std::string& path) override {
    std::lock_guard<std::mutex> hold(guard_);
    return objects_.count(path) > 0 || any_below(path);
  }
  std::vector<checkpoint::FolderEntry> list(const std::string& folder) override {
    std::lock_guard<std::mutex> hold(guard_);
    std::map<std::string, bool> found;
    const std::string start = folder + "/";
    for (auto at = objects_.lower_bound(start); at != objects_.end() && at->first.starts_with(start); ++at) {
      const std::string rest = at->first.substr(start.size());
      const size_t slash = rest.find('/');
      found[rest.substr(0, slash)] = slash != std::string::npos;
    }
    if (found.empty())
      throw checkpoint::StorageError(str("cannot list ", folder, ": nothing lies there"), folder, ENOENT);
    std::vector<checkpoint::FolderEntry> out;
    for (const auto& [name, is_folder] : found) out.push_back({name, is_folder});
    return out;
  }
  void make_folders(const std::string&) override {}
  void remove(const std::string& path) override {
    std::lock_guard<std::mutex> hold(guard_);
    objects_.erase(path);
  }
  void sync_folder(const std::string&) override {}
  std::shared_ptr<checkpoint::FolderLock> lock(const std::string& folder) override {
    std::lock_guard<std::mutex> hold(guard_);
    auto& slot = locks_[folder];
    if (auto mine = slot.lock()) return mine;
    auto mine = std::make_shared<checkpoint::FolderLock>();
    slot = mine;
    return mine;
  }

 private:
  using Object = std::shared_ptr<const std::string>;
  class Out : public checkpoint::OutFile {
   public:
    Out(MemoryStore& store, std::string path) : store_(store), path_(std::move(path)) {}
    void write(const void* data, size_t bytes) override {
      text_.append(static_cast<const char*>(data), bytes);
    }
    void sync() override {}
    void close() override {
      std::lock_guard<std::mutex> hold(store_.guard_);
      store_.objects_[path_] = std::make_shared<const std::string>(text_);
    }
    int64_t bytes() const override { return static_cast<int64_t>(text_.size()); }

   private:
    MemoryStore& store_;
    std::string path_, text_;
  };
  class In : public checkpoint::InFile {
   public:
    In(std::string path, Object object) : path_(std::move(path)), object_(std::move(object)) {}
    int64_t bytes() const override { return static_cast<int64_t>(object_->size()); }
    void read(int64_t offset, void* out, size_t bytes) const override {
      if (offset + static_cast<int64_t>(bytes) > this->bytes())
        throw checkpoint::StorageError(
            str("cannot read ", path_, ", ", bytes, " bytes at offset ", offset, ": the object ends there"),
            path_, EIO);
      std::memcpy(out, object_->data() + offset, bytes);
    }

   private:
    std::string path_;
    Object object_;
  };
  bool any_below(const std::string& path) const {
    const auto at = objects_.lower_bound(path + "/");
    return at != objects_.end() && at->first.starts_with(path + "/");
  }

  std::mutex guard_;
  std::map<std::string, Object> objects_;
  std::map<std::string, std::weak_ptr<checkpoint::FolderLock>> locks_;
};

}  // namespace lockstep
