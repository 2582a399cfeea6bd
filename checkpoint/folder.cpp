// The checkpoint folder: names, scanning, tidying, retention.
#include "checkpoint/folder.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

#include "checkpoint/format/damage.h"
#include "checkpoint/io/read_chunks.h"
#include "core/files/checkpoint_names.h"
#include "core/files/remove_known.h"

namespace lockstep::checkpoint {

namespace {
bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && std::string_view(text).substr(text.size() - end.size()) == end;
}
}  // namespace

std::string step_name(int64_t step) { return str("step-", step); }

std::optional<int64_t> step_of(const std::string& name) {
  if (name.rfind("step-", 0) != 0 || name.size() == 5 || name.size() > 5 + 18) return std::nullopt;
  int64_t step = 0;
  for (char c : name.substr(5)) {
    if (c < '0' || c > '9') return std::nullopt;
    step = step * 10 + (c - '0');
  }
  if (step_name(step) != name) return std::nullopt;
  return step;
}

std::string load_manifest_text(Storage& storage, const std::string& step_dir) {
  std::string path = step_dir + "/" + kManifestName;
  try {
    return read_text(storage, path, kMaxManifestBytes);
  } catch (const StorageError& e) {
    if (e.code == ENOENT || e.code == ENOTDIR) {
      if (!storage.exists(step_dir)) throw VanishedError(str(step_dir, " does not exist"));
      if (storage.commit(step_dir) == Commit::manifest_last)
        throw VanishedError(str(step_dir, " has no ", kManifestName,
                                ": it is being written, or was removed, or a save of it was interrupted"));
      throw DamagedError(
          str(step_dir, " has no ", kManifestName, ": not a checkpoint, or one whose manifest was removed"));
    }
    if (e.code == EFBIG) throw DamagedError(e.what());
    throw;
  }
}

namespace {
// The manifests parsed last. A run scans its folder at each save and finds the same ones; for a small state,
// parsing them would take most of the time of a save to memory.
class LatelyParsed {
 public:
  Manifest parse(const std::string& text, const std::string& path) {
    if (text.size() > kLongest) return parse_manifest(text, path);
    {
      std::lock_guard lock(mutex_);
      for (const auto& [known, manifest] : kept_)
        if (known == text) return *manifest;
    }
    auto manifest = std::make_shared<const Manifest>(parse_manifest(text, path));
    std::lock_guard lock(mutex_);
    kept_.emplace_front(text, manifest);
    if (kept_.size() > kMost) kept_.pop_back();
    return *manifest;
  }

 private:
  static constexpr size_t kLongest = 1 << 20, kMost = 4;
  std::mutex mutex_;
  std::deque<std::pair<std::string, std::shared_ptr<const Manifest>>> kept_;
};
}  // namespace

Manifest read_manifest_text(const std::string& text, const std::string& step_dir) {
  static LatelyParsed lately;
  Manifest out = lately.parse(text, step_dir + "/" + kManifestName);
  const std::string plain = without_old(last_part(step_dir));
  if (auto step = step_of(plain); step && *step != out.step)
    throw DamagedError(
        str(step_dir, "/", kManifestName, " is of step ", out.step, ", but the folder is named ", plain));
  return out;
}
Manifest load_manifest(Storage& storage, const std::string& step_dir) {
  return read_manifest_text(load_manifest_text(storage, step_dir), step_dir);
}

std::function<bool(const FolderEntry&)> own_files(Storage& storage, const std::string& step_dir) {
  std::shared_ptr<const Manifest> manifest;
  try {
    manifest = std::make_shared<const Manifest>(load_manifest(storage, step_dir));
  } catch (const UserError&) {}  // the names alone tell
  const bool all_listed = manifest && storage.commit(step_dir) == Commit::rename;
  return [manifest, all_listed](const FolderEntry& entry) {
    if (entry.folder) return false;
    if (manifest && manifest->find_file(entry.name)) return true;
    return is_checkpoint_file(entry.name) && !(all_listed && ends_with(entry.name, ".safetensors"));
  };
}

std::string stranger_in(Storage& storage, const std::string& step_dir) {
  const auto own = own_files(storage, step_dir);
  for (const FolderEntry& entry : storage.list(step_dir))
    if (!own(entry)) return entry.name;
  return "";
}

namespace {
// A link to anything else belongs to the user, and so does one whose target cannot be read.
bool leads_to_checkpoint(Storage& storage, const std::string& link) {
  try {
    return storage.exists(link + "/" + kManifestName);
  } catch (const StorageError&) { return false; }
}

// One scan of the folder. `moving`: it changed during the scan, or has traces of checkpoints that the scan
// did not see.
std::vector<StepFolder> scan_now(Storage& storage, const std::string& dir, bool& moving) {
  std::vector<StepFolder> out;
  moving = false;
  if (!storage.exists(dir)) return out;
  auto entries = storage.list(dir);
  std::set<std::string> names;
  for (const auto& entry : entries) names.insert(entry.name);
  for (const auto& entry : entries) {
    const std::string plain = without_old(entry.name);
    auto step = step_of(plain);
    if (entry.name == "latest" ||
        (ends_with(entry.name, ".tmp") && step_of(entry.name.substr(0, entry.name.size() - 4))))
      moving = true;
    if (!step || (plain != entry.name && names.count(plain))) continue;
    StepFolder folder;
    folder.name = entry.name;
    folder.path = dir + "/" + entry.name;
    folder.linked = !entry.folder && is_link(folder.path) && leads_to_checkpoint(storage, folder.path);
    if (!entry.folder && !folder.linked) continue;
    folder.step = *step;
    folder.serial = std::numeric_limits<int64_t>::max();
    try {
      folder.manifest = std::make_shared<Manifest>(load_manifest(storage, folder.path));
      folder.serial = folder.manifest->serial;
    } catch (const VanishedError&) {
      moving = true;
      continue;
    } catch (const DamagedError& e) { folder.problem = e.what(); } catch (const StorageError& e) {
      folder.problem = e.what();
      folder.refused = e.access_denied();
    } catch (const UserError& e) {
      folder.problem = e.what();
      folder.refused = true;
    }
    out.push_back(std::move(folder));
  }
  std::stable_sort(out.begin(), out.end(), [](const StepFolder& a, const StepFolder& b) {
    return a.serial != b.serial ? a.serial > b.serial : a.step > b.step;
  });
  return out;
}
}  // namespace

std::vector<StepFolder> scan(Storage& storage, const std::string& dir) {
  for (int look = 1;; ++look) {
    bool moving = false;
    auto out = scan_now(storage, dir, moving);
    // A run that keeps one checkpoint renames two folders at each save: a scan between the two renames sees
    // neither.
    if (!out.empty() || !moving || look == 100) return out;
    std::this_thread::sleep_for(std::chrono::milliseconds(look % 3));
  }
}

std::string structure_problem(Storage& storage, const StepFolder& folder) {
  if (!folder.manifest) return folder.problem;
  for (const auto& file : folder.manifest->files) try {
      open_shard(storage, folder.path, file, *folder.manifest);
    } catch (const VanishedError&) { throw; } catch (const UserError& e) {
      return e.what();
    }
  return "";
}

std::string read_latest(Storage& storage, const std::string& dir, std::string* problem) {
  std::string path = dir + "/latest", name;
  try {
    if (!storage.exists(path)) return "";
    name = trim(read_text(storage, path, 4096));
  } catch (const StorageError& e) {
    if (problem && e.code != ENOENT) *problem = e.what();
    return "";
  }
  if (step_of(name)) return name;
  if (problem) *problem = str(path, " names no step");
  return "";
}

}  // namespace lockstep::checkpoint
