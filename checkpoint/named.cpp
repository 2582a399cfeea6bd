// What a path names of checkpoints: a run, a folder of step folders, or one of these.
#include <cerrno>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"

namespace lockstep::checkpoint {

NamedCheckpoints named_checkpoints(const std::string& path, Storage& storage) {
  using Kind = NamedCheckpoints::Kind;
  std::string clean = path;
  while (clean.size() > 1 && clean.back() == '/') clean.pop_back();
  if (storage.exists(clean + "/" + kManifestName)) return {Kind::step, clean};
  if (storage.exists(clean + "/ckpt")) return {Kind::run, clean + "/ckpt"};
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
  if (const CheckpointSummary* newest = newest_of(found)) return newest->path;
  throw UserError(str(named.path, " holds no whole checkpoint; name a run that has saved one"));
}

}  // namespace lockstep::checkpoint
