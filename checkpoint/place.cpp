// Places: implements the two kinds of commit, by rename and manifest last.
#include "checkpoint/place.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <mutex>
#include <set>

#include "checkpoint/folder.h"
#include "checkpoint/format/damage.h"
#include "core/base/log.h"
#include "core/files/checkpoint_names.h"
#include "core/files/private_file.h"
#include "core/files/remove_known.h"

namespace lockstep::checkpoint {

namespace {
bool renames(Storage& storage, const std::string& dir) { return storage.commit(dir) == Commit::rename; }

// A run finds the same folder at each save.
void warn_once(const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> said;
  std::lock_guard lock(mutex);
  if (said.insert(line).second) logs::warn(line);
}

// Does `work` for a path. A failure is reported once and does not stop other work.
void alone(const std::string& path, const std::function<void()>& work) {
  try {
    work();
  } catch (const StorageError& error) {
    warn_once(str(path, " stays, and removing it is tried again at the next save: ", error.what()));
  }
}

// `path`, or PATH.K when a foreign file already has that name.
std::string free_name(Storage& storage, const std::string& path) {
  std::string out = path;
  for (int k = 1; storage.exists(out) || is_link(out); ++k) out = str(path, ".", k);
  return out;
}

void commit_by_rename(Storage& storage, const std::string& dir, const std::string& name,
                      const std::string& manifest_text) {
  const std::string path = dir + "/" + name, temporary = path + ".tmp",
                    aside = free_name(storage, path + ".old");
  write_text(storage, temporary + "/" + kManifestName, manifest_text);  // 4
  storage.sync_folder(temporary);
  const bool replaces = storage.exists(path);  // 5
  if (replaces) {
    storage.rename(path, aside);
    storage.sync_folder(dir);
  }
  storage.rename(temporary, path);
  storage.sync_folder(dir);  // 6
  if (replaces) remove_step(storage, aside);
}

// The entries of a folder. Empty when it does not exist: an object store has no empty folders.
std::vector<FolderEntry> entries_of(Storage& storage, const std::string& folder) {
  try {
    return storage.list(folder);
  } catch (const StorageError& error) {
    if (error.code != ENOENT) throw;
    return {};
  }
}

// Removes the files that no manifest lists: files of an interrupted save, or of a replaced manifest. If the
// manifest cannot be read, nothing is removed, so that a person can examine the damage.
void remove_unlisted(Storage& storage, const std::string& step_dir) {
  Manifest manifest;
  try {
    manifest = load_manifest(storage, step_dir);
  } catch (const VanishedError&) {  // without a manifest it never was a checkpoint
  } catch (const UserError&) { return; }
  for (const auto& entry : entries_of(storage, step_dir)) {
    const bool listed = entry.name == kManifestName || manifest.find_file(entry.name);
    if (!listed && !entry.folder && is_checkpoint_file(entry.name))
      storage.remove(step_dir + "/" + entry.name);
  }
}

// Clears a non-folder from the path of a save: a link is removed (not its target); a foreign file is renamed
// and keeps its bytes.
void clear_way(Storage& storage, const std::string& path) {
  if (is_link(path)) return storage.remove(path);
  const std::string other = free_name(storage, path + ".foreign");
  storage.rename(path, other);
  logs::warn(str(path, " stood where a save writes, and is none of its folders: it is ", other, " now"));
}

// Other versions write latest.tmp; its text distinguishes it from a foreign file.
bool is_draft_of_latest(Storage& storage, const std::string& name, const std::string& path) {
  constexpr int64_t kMost = 64;  // bytes of such a text
  if (name != "latest.tmp" || is_link(path)) return name == draft_of("latest");
  try {
    return is_step_folder(trim(read_text(storage, path, kMost)));
  } catch (const StorageError&) {
    return false;  // it is larger, or cannot be read
  }
}

void tidy_renamed(Storage& storage, const std::string& dir) {
  auto entries = storage.list(dir);
  std::set<std::string> names;
  for (const auto& entry : entries) names.insert(entry.name);
  std::reverse(entries.begin(), entries.end());  // the last of several set aside is the newest
  for (const auto& entry : entries) {
    const std::string path = dir + "/" + entry.name, plain = without_old(entry.name);
    if (!entry.folder && is_draft_of_latest(storage, entry.name, path)) storage.remove(path);
    if (!is_step_folder(entry.name) || step_of(entry.name)) continue;
    if (!entry.folder) {
      if (entry.name == plain) clear_way(storage, path);
      continue;
    }
    if (entry.name != plain && !names.count(plain) && storage.exists(path + "/" + kManifestName)) {
      storage.rename(path, dir + "/" + plain);
      storage.sync_folder(dir);
      names.insert(plain);
    } else {
      alone(path, [&] { remove_step(storage, path); });
    }
  }
}
}  // namespace

std::string writing_folder(Storage& storage, const std::string& dir, const std::string& name) {
  return dir + "/" + name + (renames(storage, dir) ? ".tmp" : "");
}

std::string file_tag(Storage& storage, const std::string& dir, const std::string& there) {
  if (renames(storage, dir) || there.empty()) return "";
  return str(".", parse_manifest(there, dir).serial + 1);
}

void commit_folder(Storage& storage, const std::string& dir, const std::string& name,
                   const std::string& manifest_text) {
  if (renames(storage, dir)) return commit_by_rename(storage, dir, name, manifest_text);
  const std::string path = dir + "/" + name;
  write_text(storage, path + "/" + kManifestName, manifest_text);
  remove_unlisted(storage, path);
}

void remove_unfinished(Storage& storage, const std::string& dir, const std::string& name) {
  const std::string folder = writing_folder(storage, dir, name);
  if (!storage.exists(folder)) return;
  renames(storage, dir) ? remove_step(storage, folder) : remove_unlisted(storage, folder);
}

void remove_step(Storage& storage, const std::string& step_dir) {
  if (is_link(step_dir)) return storage.remove(step_dir);
  std::vector<FolderEntry> entries;
  try {
    entries = storage.list(step_dir);
  } catch (const StorageError& error) {
    if (error.code != ENOTDIR) throw;
    return warn_once(str(step_dir, " is left: it is no folder of a checkpoint; move it away"));
  }
  const auto own = own_files(storage, step_dir);
  std::string left;
  for (const auto& entry : entries)
    if (const std::string path = step_dir + "/" + entry.name; own(entry)) {
      storage.remove(path);
    } else {
      left = entry.name;
      if (!entry.folder && is_checkpoint_file(left)) {  // nothing will list its neighbours any more
        const std::string other = free_name(storage, path + ".foreign");
        storage.rename(path, other);
        left = last_part(other);
      }
    }
  if (left.empty()) return storage.remove(step_dir);
  warn_once(str(step_dir, " is left: it holds ", printable(left),
                ", which is no file of a checkpoint; move it away"));
}

namespace {
// Why a checkpoint due for removal stays, or "".
std::string kept_because(Storage& storage, const std::string& path) {
  if (is_link(path)) return "it is a link; remove it, or move it away";
  if (const std::string stranger = stranger_in(storage, path); !stranger.empty())
    return str("it holds ", printable(stranger),
               ", which is no file of a checkpoint; move it away, and the next save removes the folder");
  if (const std::string going = path + ".tmp"; renames(storage, path) && storage.exists(going))
    return str(going,
               " is there, and holds no file of a checkpoint; move it away, and the next save removes "
               "the folder");
  return "";
}
}  // namespace

void remove_checkpoints(Storage& storage, const std::string& dir, const std::vector<std::string>& step_dirs) {
  std::vector<std::string> going;
  for (const auto& path : step_dirs)
    alone(path, [&] {
      if (const std::string why = kept_because(storage, path); !why.empty())
        return warn_once(str(path, " is kept: ", why));
      if (renames(storage, dir))
        storage.rename(path, path + ".tmp");
      else
        storage.remove(path + "/" + kManifestName);
      going.push_back(path);
    });
  if (going.empty()) return;
  if (renames(storage, dir)) storage.sync_folder(dir);
  for (const auto& path : going)
    if (const std::string gone = path + ".tmp"; renames(storage, dir))
      alone(gone, [&] { remove_step(storage, gone); });
    else
      alone(path, [&] { remove_unlisted(storage, path); });
}

void replace_text(Storage& storage, const std::string& path, const std::string& text) {
  if (!renames(storage, path)) return write_text(storage, path, text);
  write_text(storage, draft_of(path), text);
  storage.rename(draft_of(path), path);
  storage.sync_folder(parent_folder(path));
}

void tidy(Storage& storage, const std::string& dir) {
  if (renames(storage, dir)) return tidy_renamed(storage, dir);
  for (const auto& entry : entries_of(storage, dir))
    if (entry.folder && step_of(entry.name)) remove_unlisted(storage, dir + "/" + entry.name);
}

void write_latest(Storage& storage, const std::string& dir, const std::string& step_folder_name) {
  replace_text(storage, dir + "/latest", step_folder_name + "\n");
}

void retain(Storage& storage, const std::string& dir, int keep) {
  if (keep < 1) return;
  std::vector<std::string> doomed;
  int kept = 0;
  for (const auto& folder : scan(storage, dir))
    if (!folder.linked && structure_problem(storage, folder).empty() && ++kept > keep)
      doomed.push_back(folder.path);
  remove_checkpoints(storage, dir, doomed);
}

}  // namespace lockstep::checkpoint
