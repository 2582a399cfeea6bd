// MemoryTier: keeps checkpoints in the host's memory, between those on the disk, from which trainrun restarts
// a run. They are normal checkpoints in a folder of /dev/shm that outlives the ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/save_in_flight.h"
#include "launcher/config/run_config.h"
#include "launcher/supervise/worker/contract.h"

namespace lockstep::launcher {

class MemoryTier {
 public:
  // A state of up to this many bytes is written by the training threads themselves: background threads would
  // cost a step or two, while this write to memory takes 2 ms.
  static constexpr int64_t kWaited = int64_t{4} << 20;

  // `room`: memory for snapshots, as in RunSaves. The references outlive the object.
  MemoryTier(const CheckpointConfig& policy, const LiveMesh& mesh, const WorkerPlace& at,
             std::shared_ptr<checkpoint::SnapshotRoom> room,
             checkpoint::Storage& storage = checkpoint::file_storage());

  // `folder`: "" if trainrun did not start the ranks; only trainrun can keep it for their successors.
  const std::string& folder() const { return folder_; }
  // Whether it has a checkpoint; the same on all ranks. With several hosts, which have separate folders,
  // first copies the files that each host needs from the others (checkpoint/host_folders.h). Collective.
  bool find(const std::vector<Array*>& arrays);
  // The folder if it differs from host to host; else "".
  std::string apart() const { return hosts_ ? folder_ : ""; }
  // Before the first step: creates the folder if the run uses it. Collective. UserError on all ranks when
  // /dev/shm has no room for two checkpoints, the newest and the one being written.
  void open(const std::vector<const Array*>& arrays);

  // Whether it can pass the last step of these ranks to the next ones: after open(), if the run uses it. At
  // most one of several hosts may be missing then; the host after it has copies of its files.
  bool used() const { return open_; }
  // Whether to begin one after step i: every checkpoint.memory_every steps or, if a save is in progress then
  // or `wait` is set, at the first step after that. The same on all ranks.
  bool due(int64_t i, bool wait);
  // Begins one, or makes it at once if checkpoint.async is off, memory for a copy is short, or the state is
  // small (kWaited). A state that is not finite is left to the next save to the disk, which reports it.
  // Collective.
  void save(const checkpoint::SaveInfo& info, const std::vector<const Array*>& arrays);
  // Saves the last step, after any save in progress. False, on all ranks, if there is no such checkpoint:
  // none are kept, or this one failed. Collective.
  bool keep(const checkpoint::SaveInfo& info, const std::vector<const Array*>& arrays);
  int64_t vote() const;       // this rank's contribution to the vote of a step (RunSaves)
  void heard(int64_t votes);  // continues once all ranks have finished their part; collective then
  // Removes its checkpoints, because the run returns to one on the disk. Collective.
  void forget();
  // After the last step: on several hosts removes the folder, because trainrun can only remove its own
  // host's. Collective.
  void end();

 private:
  bool leads() const { return place_.local_rank == 0; }
  void learn_hosts();
  int64_t bytes_of_host(const std::vector<const Array*>& arrays) const;
  // total over all ranks, each element once
  int64_t bytes_of_all(const std::vector<const Array*>& arrays) const;
  void advance();

  const int64_t every_;
  bool beside_;  // the training
  const LiveMesh& mesh_;
  const WorkerPlace place_;
  checkpoint::Storage& storage_;
  std::string folder_;
  std::shared_ptr<const checkpoint::HostFolders> hosts_;  // null: one host
  std::shared_ptr<checkpoint::SnapshotRoom> room_;
  std::shared_ptr<checkpoint::FolderLock> lock_;
  bool open_ = false, late_ = false;
  int64_t newest_ = -1;  // step of the newest one made here
  std::string told_;     // the last reported failure
  std::unique_ptr<checkpoint::SaveInFlight> flight_;
};

}  // namespace lockstep::launcher
