// Checkpoints: the public API. A checkpoint is complete or invisible; any rank count and layout can load what
// any other saved.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/storage/storage.h"
#include "core/base/error.h"
#include "core/mesh/array.h"

namespace lockstep::checkpoint {

struct SaveInfo {
  int64_t step = 0;              // >= 0
  Json config;                   // the resolved config of the run
  std::string certificate;       // numerics certificate
  Json extra;                    // scalars that the run wants back (finite numbers: JSON has no NaN)
  bool allow_nonfinite = false;  // save NaN and infinity too
};

// Thrown when a state contains NaN or infinity; it is not saved.
class NonFiniteError : public UserError {
 public:
  explicit NonFiniteError(const std::string& message) : UserError(message) {}
};

struct SavedInfo {
  std::string path;  // DIR/step-N
  std::string state_hash;
  int64_t bytes = 0;  // of all ranks' files
  bool kept = false;  // step-N already existed, complete and with the same bits, and was left unchanged
};

// Saves the arrays as DIR/step-N by the protocol at the head of commit.cpp, makes `latest` name it, and
// removes all but the newest `keep` checkpoints (keep < 1 keeps all). Collective over mesh.world: every rank
// passes its own parts of the same arrays in the same order, Replicate or Shard. Returns on all ranks when
// the checkpoint is on the device; until then the older ones are whole. UserError on all ranks when the
// folder is in use by another process. NotSaved on all ranks when a write fails (with file, byte and cause);
// the unfinished folder is removed, and the save may be tried again. NonFiniteError on all ranks, before
// anything is touched, when a value of the arrays is NaN or infinite, naming the first. PeerError on all
// ranks, before anything is touched, when their steps or certificates differ, or when they have started
// different collectives.
SavedInfo save_checkpoint(const std::string& dir, const SaveInfo& info,
                          const std::vector<const Array*>& arrays, const LiveMesh& mesh, int keep,
                          Storage& storage = any_storage());

// Locks the folder (created when needed) for this process until the lock is released: a second job gets a
// UserError that names the first. Each save takes the same lock, so a run that holds it on rank 0 also keeps
// others out between its saves.
std::shared_ptr<FolderLock> lock_checkpoints(const std::string& dir, Storage& storage = any_storage());

struct LoadedInfo {
  int64_t step = 0;
  Json config;
  std::string certificate;
  Json extra;
  std::string state_hash;  // recomputed from the loaded arrays, and equal to the manifest's
  std::string path;
};

// Loads the newest whole checkpoint of DIR into the arrays (allocated, of any layout). nullopt when DIR holds
// none. All ranks load the same one. A checkpoint that is damaged or contains NaN or infinity is named in a
// warning, and the next older one is tried; when none is usable, a UserError names each with its reason.
// UserError, without falling back, when the newest does not fit the arrays: all missing, extra and mis-shaped
// tensors are listed. Nothing in DIR is changed.
std::optional<LoadedInfo> load_latest(const std::string& dir, const std::vector<Array*>& arrays,
                                      const LiveMesh& mesh, Storage& storage = any_storage());

// What a partial load skipped, each as "FQN TYPE": tensors of the model that keep their values, and unused
// tensors of the checkpoint. A tensor whose type differs between the two is in both lists.
struct LeftOut {
  std::vector<std::string> of_model, of_checkpoint, other_type;
  size_t loaded = 0;
  bool none() const { return of_model.empty() && of_checkpoint.empty() && other_type.empty(); }
};

// load_latest over several folders: loads the newest step of all. When the first folder is empty, another
// folder with only damaged checkpoints counts as empty too, with a warning. `apart`: the one folder that
// differs from host to host and has the files that the host's ranks need (host_folders.h). With `left`, only
// tensors with the same name and type on both sides are loaded; `left` lists the rest, whose arrays stay
// unchanged. UserError when no tensor matches.
std::optional<LoadedInfo> load_newest(const std::vector<std::string>& dirs, const std::vector<Array*>& arrays,
                                      const LiveMesh& mesh, Storage& storage = any_storage(),
                                      const std::string& apart = "", LeftOut* left = nullptr);

// Loads exactly this step folder. UserError (DamagedError when bytes are missing or wrong) naming file,
// tensor and offset. Values that are not finite are loaded, with a warning that names the first.
LoadedInfo load_checkpoint(const std::string& step_dir, const std::vector<Array*>& arrays,
                           const LiveMesh& mesh, Storage& storage = any_storage());

// Fills the arrays from safetensors of any origin, by FQN: a file, an index of several, or a folder with
// either (TensorFiles). Collective. UserError listing every missing, extra and mis-shaped tensor at once, or
// the first value that is NaN or infinite. Narrower floats are widened exactly (bf16 in the file, f32 in the
// model).
void load_safetensors(const std::string& file, const std::vector<Array*>& arrays, const LiveMesh& mesh,
                      Storage& storage = any_storage());

// The functions below need no mesh and are called on one rank.

struct CheckpointSummary {
  std::string path;
  int64_t step = 0;
  int64_t bytes = 0;  // of the data files
  int64_t tensors = 0;
  int64_t elements = 0;
  std::string mesh;  // of the run that wrote it
  std::string state_hash, certificate, producer;
  bool newest = false;  // the newest one with a sound structure: readers use it, and a run continues from it
  // "" when the manifest and the files' sizes and headers are sound; chunks are not read
  std::string problem;
};
// All step folders of DIR by ascending step. Empty when DIR does not exist. A folder that its run removes
// during the call is left out.
std::vector<CheckpointSummary> list_checkpoints(const std::string& dir, Storage& storage = any_storage());
// The same in commit order, newest first: a run that was rewound to an earlier step commits small steps last.
// The file `latest`, which is for people and other tools, is ignored.
std::vector<CheckpointSummary> newest_first(const std::string& dir, Storage& storage = any_storage());
// The entry of either list that is `newest`; null when none has a sound structure.
const CheckpointSummary* newest_of(const std::vector<CheckpointSummary>& checkpoints);
// Warns, once a process, of each damaged checkpoint with a later step than `taken`, which is read instead.
void tell_passed_over(const std::vector<CheckpointSummary>& checkpoints, const CheckpointSummary& taken);

// The checkpoint folder of a run folder: the path in its file `ckpt.at`, which a run with checkpoint.dir
// writes, else RUN/ckpt. UserError when that file is empty.
inline constexpr const char* kElsewhere = "ckpt.at";
std::string checkpoints_of_run(const std::string& run, Storage& storage = any_storage());
// Whether a path is a folder: on an object store, whether any object has it as a prefix.
bool is_folder(const std::string& path, Storage& storage = any_storage());

// What a path names: a run's checkpoints (PATH/ckpt, or the path in its ckpt.at), a folder of step folders
// such as a run's ckpt or best, or one step folder.
struct NamedCheckpoints {
  enum class Kind { none, run, folder, step } kind = Kind::none;
  std::string path;  // PATH/ckpt; the folder; the step folder; for `none` the given path
};
NamedCheckpoints named_checkpoints(const std::string& path, Storage& storage = any_storage());
// The newest step folder with a sound structure under a path; "" when the path has no step folders. Damaged
// ones with later steps are reported. UserError when step folders exist and none is sound.
std::string newest_checkpoint(const std::string& path, Storage& storage = any_storage());

// A storage on which the files of a step folder stay readable even if its run removes it: up to 256 of them
// are opened now. Pass it to the functions below. VanishedError when the folder is not there, DamagedError
// and UserError as read_manifest.
std::unique_ptr<Storage> hold_checkpoint(const std::string& step_dir, Storage& storage = any_storage());

// Every problem of a step folder: manifest, files, headers, each chunk's checksum, the state hash, stray
// files. Empty when whole. Streams. VanishedError when the folder was removed before its files were open.
std::vector<std::string> verify_checkpoint(const std::string& step_dir, Storage& storage = any_storage());

// The first problem of a step folder's manifest, of its files' sizes or of their headers; "" when they are
// sound. Chunks are not read. VanishedError when the folder is not there.
std::string structure_problem(const std::string& step_dir, Storage& storage = any_storage());

// The manifest of a step folder; VanishedError when there is no folder, DamagedError when there is no
// manifest or it is damaged, UserError when a newer Lockstep wrote it.
Manifest read_manifest(const std::string& step_dir, Storage& storage = any_storage());

// One whole tensor, as an array of a mesh of one rank. UserError naming the nearest FQN when there is none;
// DamagedError as in load_checkpoint.
Array read_tensor(const std::string& step_dir, const std::string& fqn, Storage& storage = any_storage());

}  // namespace lockstep::checkpoint
