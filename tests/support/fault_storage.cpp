// FaultStorage: counting, breaking and undoing.
#include "tests/support/fault_storage.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>

namespace lockstep {

using namespace checkpoint;

class FaultOutFile : public OutFile {
 public:
  FaultOutFile(FaultStorage& storage, std::string path, std::unique_ptr<OutFile> below)
      : storage_(storage), path_(std::move(path)), below_(std::move(below)) {}
  void write(const void* data, size_t bytes) override {
    write_by(bytes, [&](size_t part) { below_->write(data, part); });
  }
  bool anywhere() const override { return below_->anywhere(); }
  void expect(int64_t bytes) override { below_->expect(bytes); }
  void write_at(int64_t offset, const void* data, size_t bytes) override {
    write_by(bytes, [&](size_t part) { below_->write_at(offset, data, part); });
  }
  void sync() override {
    std::lock_guard<std::recursive_mutex> hold(storage_.guard_);
    if (storage_.step("sync", path_)) throw Crash{};
    storage_.unsynced_.erase(path_);
  }
  void close() override {
    std::lock_guard<std::recursive_mutex> hold(storage_.guard_);
    if (storage_.step("close", path_)) throw Crash{};
    below_->close();
  }
  int64_t bytes() const override { return below_->bytes(); }

 private:
  void write_by(size_t bytes, const std::function<void(size_t part)>& write) {
    std::lock_guard<std::recursive_mutex> hold(storage_.guard_);
    if (storage_.step("write", path_)) {
      write(bytes / 2);
      throw Crash{};
    }
    if (storage_.capacity >= 0 && storage_.written_ + static_cast<int64_t>(bytes) > storage_.capacity) {
      int64_t fits = storage_.capacity - storage_.written_;
      write(static_cast<size_t>(fits));
      storage_.written_ += fits;
      throw StorageError(
          str("cannot write ", path_, ": ", std::strerror(ENOSPC), " at byte ", below_->bytes()), path_,
          ENOSPC);
    }
    write(bytes);
    storage_.written_ += static_cast<int64_t>(bytes);
  }

  FaultStorage& storage_;
  std::string path_;
  std::unique_ptr<OutFile> below_;
};

class FaultInFile : public InFile {
 public:
  FaultInFile(FaultStorage& storage, std::unique_ptr<InFile> below)
      : storage_(storage), below_(std::move(below)) {}
  int64_t bytes() const override { return below_->bytes(); }
  void read(int64_t offset, void* out, size_t bytes) const override {
    {
      std::lock_guard<std::recursive_mutex> hold(storage_.guard_);
      storage_.alive();
      storage_.largest_read_ = std::max(storage_.largest_read_, static_cast<int64_t>(bytes));
    }
    below_->read(offset, out, bytes);
  }

 private:
  FaultStorage& storage_;
  std::unique_ptr<InFile> below_;
};

namespace {
bool starts_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}
}  // namespace

void FaultStorage::alive() const {
  if (crashed_) throw Crash{};
}

bool FaultStorage::step(const std::string& what, const std::string& path) {
  alive();
  int64_t number = operations_++;
  journal_.push_back(what + " " + path);
  if (number == crash_at) {
    crashed_ = true;
    return true;
  }
  if (number == fail_at)
    throw StorageError(str("cannot ", what, " ", path, ": ", std::strerror(fail_code)), path, fail_code);
  return false;
}

void FaultStorage::rekey(const std::string& from, const std::string& to) {
  auto moved = [&](std::string& path) {
    if (path == from)
      path = to;
    else if (starts_with(path, from + "/"))
      path = to + path.substr(from.size());
  };
  for (auto& entry : entries_) moved(entry.folder), moved(entry.path), moved(entry.from);
  std::set<std::string> files;
  for (std::string path : unsynced_) {
    moved(path);
    files.insert(path);
  }
  unsynced_ = std::move(files);
}

std::unique_ptr<OutFile> FaultStorage::create(const std::string& path) {
  std::lock_guard<std::recursive_mutex> hold(guard_);
  if (step("create", path)) throw Crash{};
  if (!below_.exists(path)) entries_.push_back({Entry::created, parent_folder(path), path, "", std::nullopt});
  unsynced_.insert(path);
  return std::make_unique<FaultOutFile>(*this, path, below_.create(path));
}
std::unique_ptr<InFile> FaultStorage::open(const std::string& path) {
  std::lock_guard<std::recursive_mutex> hold(guard_);
  alive();
  return std::make_unique<FaultInFile>(*this, below_.open(path));
}
bool FaultStorage::exists(const std::string& path) {
  std::lock_guard<std::recursive_mutex> hold(guard_);
  alive();
  return below_.exists(path);
}
std::vector<FolderEntry> FaultStorage::list(const std::string& folder) {
  std::lock_guard<std::recursive_mutex> hold(guard_);
  alive();
  return below_.list(folder);
}
void FaultStorage::make_folders(const std::string& path) {
  std::lock_guard<std::recursive_mutex> hold(guard_);
  if (step("make_folders", path)) throw Crash{};
  below_.make_folders(path);  // syncs the parents itself
}
void FaultStorage::rename(const std::string& from, const std::string& to) {
  std::lock_guard<std::recursive_mutex> hold(guard_);
  if (step("rename", from + " " + to)) throw Crash{};
  Entry entry{Entry::renamed, parent_folder(to), to, from, std::nullopt};
  if (std::filesystem::is_regular_file(to)) entry.content = read_text(below_, to, 1 << 20);
  below_.rename(from, to);
  rekey(from, to);
  entries_.push_back(std::move(entry));
}
void FaultStorage::remove(const std::string& path) {
  std::lock_guard<std::recursive_mutex> hold(guard_);
  if (step("remove", path)) throw Crash{};
  bool folder = std::filesystem::is_directory(path);
  Entry entry{folder ? Entry::removed_folder : Entry::removed_file, parent_folder(path), path, "",
              std::nullopt};
  if (!folder) entry.content = read_text(below_, path, 1 << 24);
  below_.remove(path);
  unsynced_.erase(path);
  entries_.push_back(std::move(entry));
}
void FaultStorage::sync_folder(const std::string& folder) {
  std::lock_guard<std::recursive_mutex> hold(guard_);
  if (step("sync_folder", folder)) throw Crash{};
  std::set<std::string> settled{
      folder};  // with the folders in it whose removal is now certain: what was in them cannot come back
  for (const auto& entry : entries_)
    if (entry.folder == folder && entry.kind == Entry::removed_folder) settled.insert(entry.path);
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                [&](const Entry& e) { return settled.count(e.folder) > 0; }),
                 entries_.end());
}

void FaultStorage::lose_unsynced() {
  std::lock_guard<std::recursive_mutex> hold(guard_);
  while (!entries_.empty()) {
    Entry entry = entries_.back();
    entries_.pop_back();
    switch (entry.kind) {
      case Entry::created:
        if (below_.exists(entry.path)) below_.remove(entry.path);
        unsynced_.erase(entry.path);
        break;
      case Entry::renamed:
        below_.rename(entry.path, entry.from);
        rekey(entry.path, entry.from);
        if (entry.content) write_text(below_, entry.path, *entry.content);
        break;
      case Entry::removed_file:
        write_text(below_, entry.path, *entry.content);
        break;
      case Entry::removed_folder:
        below_.make_folders(entry.path);
        break;
    }
  }
  for (const auto& path : unsynced_)
    if (std::filesystem::is_regular_file(path))
      std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  unsynced_.clear();
}

}  // namespace lockstep
