// The checkpoint folder: step-N, step-N.tmp (being written), step-N.old (set aside while its successor takes
// the name; step-N.old.K where that name is taken), latest, .lock.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "checkpoint/format/manifest.h"
#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint {

inline constexpr int64_t kMaxManifestBytes = int64_t{1} << 30;

// A folder that a reader may trust, or the reason why it may not.
struct StepFolder {
  std::string name, path;
  int64_t step = 0;
  int64_t serial = 0;  // of the manifest; the largest number when it cannot be read, so that readers see it
                       // first and report it
  std::shared_ptr<const Manifest> manifest;  // null when it cannot be read
  std::string problem;
  bool refused = false;  // the manifest has a newer format, or permission to read it is missing
  bool linked = false;   // a link to a checkpoint: it can be read, but no run continues from it
};

std::string step_name(int64_t step);                      // "step-20"
std::optional<int64_t> step_of(const std::string& name);  // of "step-20"; nullopt for other names

// Whether an entry of a step folder is the checkpoint's: its manifest lists it, or it has a name that a save
// gives (core/files/checkpoint_names.h). Where folders are renamed, a manifest that is there lists every file
// of ranks. Asked before anything of the folder is removed.
std::function<bool(const FolderEntry&)> own_files(Storage& storage, const std::string& step_dir);
// The first entry that is not; "" where there is none. Nobody knows what it is for, so that no tool removes
// it.
std::string stranger_in(Storage& storage, const std::string& step_dir);

// The manifest of a step folder. VanishedError when the folder is not there, DamagedError when it has no
// manifest or one of another step, UserError and DamagedError as parse_manifest.
Manifest load_manifest(Storage& storage, const std::string& step_dir);
Manifest read_manifest_text(const std::string& text, const std::string& step_dir);  // the same of its text
std::string load_manifest_text(Storage& storage, const std::string& step_dir);

// All step folders, newest first: by commit order, then by step. A step-N.old counts when step-N is missing,
// and a link step-N counts when it leads to a checkpoint. Empty when `dir` does not exist. A folder that its
// run removes during the scan is left out; if `dir` changes during the scan, the scan is repeated.
std::vector<StepFolder> scan(Storage& storage, const std::string& dir);

// "" when all files of the folder are there with their sizes and headers; else the first problem. Does not
// read the chunks. VanishedError when the folder was removed during the call.
std::string structure_problem(Storage& storage, const StepFolder& folder);

// The step folder that `latest` names, a hint that no reader needs. "" when the file is missing, or when it
// is a folder or FIFO, cannot be read or names no step; `problem` then says why.
std::string read_latest(Storage& storage, const std::string& dir, std::string* problem = nullptr);

}  // namespace lockstep::checkpoint
