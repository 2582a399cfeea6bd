// Looking at checkpoints without a mesh: list, verify, one tensor.
#include <algorithm>
#include <cerrno>
#include <mutex>
#include <set>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/format/damage.h"
#include "checkpoint/io/read_chunks.h"
#include "core/base/log.h"
#include "core/base/steady_seconds.h"

namespace lockstep::checkpoint {

Manifest read_manifest(const std::string& step_dir, Storage& storage) {
  return load_manifest(storage, step_dir);
}

std::string structure_problem(const std::string& step_dir, Storage& storage) {
  StepFolder folder;
  folder.name = last_part(step_dir);
  folder.path = step_dir;
  try {
    folder.manifest = std::make_shared<Manifest>(load_manifest(storage, step_dir));
  } catch (const VanishedError&) { throw; } catch (const UserError& e) {
    return e.what();
  }
  return structure_problem(storage, folder);
}

namespace {
// How long a reader looks again if its run removes each checkpoint before it is read: a run that saves every
// few milliseconds, and a reader that a busy host seldom lets run.
constexpr double kMostSeconds = 5;

// Empty for a folder that is removed during the call.
std::optional<CheckpointSummary> summary_of(Storage& storage, const StepFolder& folder) {
  CheckpointSummary row;
  row.path = folder.path;
  row.step = folder.step;
  try {
    row.problem = structure_problem(storage, folder);
  } catch (const VanishedError&) { return {}; }
  if (const Manifest* manifest = folder.manifest.get()) {
    for (const auto& file : manifest->files) row.bytes += file.bytes;
    for (const auto& tensor : manifest->tensors) row.elements += numel(tensor.shape);
    row.tensors = static_cast<int64_t>(manifest->tensors.size());
    row.mesh = text(manifest->mesh);
    row.state_hash = manifest->state_hash;
    row.certificate = manifest->certificate;
    row.producer = manifest->producer;
  }
  return row;
}
}  // namespace

std::vector<CheckpointSummary> newest_first(const std::string& dir, Storage& storage) {
  std::vector<CheckpointSummary> out;
  const double until = steady_seconds() + kMostSeconds;
  do {  // if all listed ones vanished, newer ones exist
    auto folders = scan(storage, dir);
    if (folders.empty()) break;
    for (const auto& folder : folders)
      if (auto row = summary_of(storage, folder)) out.push_back(std::move(*row));
  } while (out.empty() && steady_seconds() < until);
  const auto newest =
      std::find_if(out.begin(), out.end(), [](const auto& row) { return row.problem.empty(); });
  if (newest != out.end()) newest->newest = true;
  return out;
}

const CheckpointSummary* newest_of(const std::vector<CheckpointSummary>& checkpoints) {
  for (const auto& one : checkpoints)
    if (one.newest) return &one;
  return nullptr;
}

void tell_passed_over(const std::vector<CheckpointSummary>& checkpoints, const CheckpointSummary& taken) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  for (const auto& one : checkpoints)
    if (!one.problem.empty() && one.step > taken.step && told.insert(one.path).second)
      logs::info(
          str(one.path, " is damaged: ", one.problem, "; ", last_part(taken.path), " is taken in its place"));
}

std::vector<CheckpointSummary> list_checkpoints(const std::string& dir, Storage& storage) {
  auto out = newest_first(dir, storage);
  std::stable_sort(out.begin(), out.end(),
                   [](const CheckpointSummary& a, const CheckpointSummary& b) { return a.step < b.step; });
  return out;
}

std::vector<std::string> verify_checkpoint(const std::string& step_dir, Storage& below) {
  Manifest manifest;
  std::unique_ptr<Storage> held;
  try {
    held = hold_checkpoint(step_dir, below);
    manifest = load_manifest(*held, step_dir);
  } catch (const VanishedError&) { throw; } catch (const UserError& e) {
    return {e.what()};
  }
  StateHash hash;
  auto problems = verify_chunks(*held, step_dir, manifest, 0, 1, &hash);
  if (problems.empty() && hash.hex() != manifest.state_hash)
    problems.push_back(str(step_dir, "/", kManifestName, ": the state hash is ", manifest.state_hash,
                           ", but the tensors give ", hash.hex()));
  try {
    // A save that writes into the same folder owns such files.
    for (const auto& entry :
         below.commit(step_dir) == Commit::rename ? below.list(step_dir) : std::vector<FolderEntry>())
      if (entry.name != kManifestName && !manifest.find_file(entry.name))
        problems.push_back(str(step_dir, "/", entry.name, " is a stray file: the manifest does not list it"));
  } catch (const StorageError& e) {
    if (e.code != ENOENT) problems.push_back(e.what());  // ENOENT: removed since it was opened
  }
  return problems;
}

Array read_tensor(const std::string& step_dir, const std::string& fqn, Storage& storage) {
  Manifest manifest = load_manifest(storage, step_dir);
  const TensorRecord* record = manifest.find(fqn);
  if (!record) {
    std::vector<std::string> names;
    for (const auto& tensor : manifest.tensors) names.push_back(tensor.fqn);
    std::string near = nearest(fqn, names);
    throw UserError(str(step_dir, " has no tensor \"", fqn, "\"",
                        near.empty() ? str("; it has ", names.size(), " others") : str("; nearest: ", near)));
  }
  Array out = make_array(fqn, record->dtype, record->shape, Layout{}, Mesh{}, 0);
  read_arrays(storage, step_dir, manifest, {&out});
  return out;
}

}  // namespace lockstep::checkpoint
