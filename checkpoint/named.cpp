// Resolves a path to checkpoints: a run, a folder of step folders, or one step folder.
#include <cerrno>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"

namespace lockstep::checkpoint {

std::string checkpoints_of_run(const std::string& run, Storage& storage) {
  const std::string own = run + "/ckpt", pointer = run + "/" + kElsewhere;
  try {
    if (storage.commit(run) != Commit::rename || !storage.exists(pointer)) return own;
  } catch (const StorageError&) { return own; }  // the reader reports why it cannot be read
  const std::string said = trim(read_text(storage, pointer, 4096));
  if (said.empty() || printable(said) != said)
    throw UserError(str(pointer, " does not say where the checkpoints of the run are; it holds \"",
                        shortened(printable(said), 80), "\": name the folder of the checkpoints themselves"));
  return said;
}

bool is_folder(const std::string& path, Storage& storage) {
  try {
    storage.list(path);
    return true;
  } catch (const StorageError& error) {
    if (error.code == ENOENT || error.code == ENOTDIR || error.code == ELOOP) return false;
    if (error.code == EACCES && storage.commit(path) == Commit::rename) return true;  // it may not be read
    throw;
  }
}

NamedCheckpoints named_checkpoints(const std::string& path, Storage& storage) {
  using Kind = NamedCheckpoints::Kind;
  std::string clean = path;
  while (clean.size() > 1 && clean.back() == '/') clean.pop_back();
  if (storage.exists(clean + "/" + kManifestName)) return {Kind::step, clean};
  if (const std::string of_run = checkpoints_of_run(clean, storage); storage.exists(of_run))
    return {Kind::run, of_run};
  try {
    if (!scan(storage, clean).empty()) return {Kind::folder, clean};
  } catch (const StorageError& error) {
    if (error.code != ENOTDIR) throw;  // a file holds none
  }
  return {Kind::none, clean};
}

std::string newest_checkpoint(const std::string& path, Storage& storage) {
  const NamedCheckpoints named = named_checkpoints(path, storage);
  if (named.kind == NamedCheckpoints::Kind::none) return "";
  if (named.kind == NamedCheckpoints::Kind::step) return named.path;
  const auto found = newest_first(named.path, storage);
  if (const CheckpointSummary* newest = newest_of(found)) {
    tell_passed_over(found, *newest);
    return newest->path;
  }
  throw UserError(str(named.path, " holds no whole checkpoint; name a run that has saved one"));
}

}  // namespace lockstep::checkpoint
