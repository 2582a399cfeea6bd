// MemoryTier: checkpoints in the host's memory, between those on the disk: what a run goes on from that
// trainrun restarts. They are checkpoints like others, in a folder of /dev/shm that outlives the ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/save_in_flight.h"
#include "launcher/config/run_config.h"
#include "launcher/supervise/contract.h"

namespace lockstep::launcher {

class MemoryTier {
 public:
  // Bytes of a whole state that are sooner written by the training than beside it: threads that take turns
  // with those of the training cost a step or two, a write of so much into memory 2 ms.
  static constexpr int64_t kWaited = int64_t{4} << 20;

  // `room`: for snapshots, as of RunSaves. The references outlive the object.
  MemoryTier(const CheckpointConfig& policy, const LiveMesh& mesh, const WorkerPlace& at,
             std::shared_ptr<checkpoint::SnapshotRoom> room,
             checkpoint::Storage& storage = checkpoint::file_storage());

  // "" where the ranks were not started by trainrun, which alone can keep it for their successors.
  const std::string& folder() const { return folder_; }
  // Whether it holds a checkpoint, on all ranks alike. Of several hosts, each of which has a folder of its
  // own, it makes what they hold together readable on each (checkpoint/host_folders.h). Collective.
  bool find(const std::vector<Array*>& arrays);
  // The folder, where it is another one on each host; else "".
  std::string apart() const { return hosts_ ? folder_ : ""; }
  // Before the first step: makes the folder where the run is to use it. Collective. UserError on all ranks
  // where /dev/shm has no room for two checkpoints, the newest and the one that is written.
  void open(const std::vector<const Array*>& arrays);

  // Whether it can keep the last step of these ranks for others: since open(), where the run is to use it. Of
  // several hosts at most one is not among the next, and the one behind it has copies of its files.
  bool used() const { return open_; }
  // Whether one is to be begun after step i: at every checkpoint.memory_every steps, and, where one is in
  // flight then or `wait` is set, at the first step behind that. The same on all ranks.
  bool due(int64_t i, bool wait);
  // Begins one, or makes it where checkpoint.async is off, memory for a copy is short, or the state is small
  // (kWaited). A state that is not finite is left to the next save on the disk, which says so. Collective.
  void save(const checkpoint::SaveInfo& info, const std::vector<const Array*>& arrays);
  // Makes one of the last step, behind the one in flight. False where it is not there, on all ranks alike: it
  // does not keep any, or this one did not go well. Collective.
  bool keep(const checkpoint::SaveInfo& info, const std::vector<const Array*>& arrays);
  int64_t vote() const;       // what this rank adds to the vote of a step (RunSaves)
  void heard(int64_t votes);  // goes on where all ranks are done with their part. Collective then
  // Removes what it holds: the run goes back to the disk. Collective.
  void forget();
  // After the last step: on several hosts removes the folder, which trainrun reaches on its own host alone.
  // Collective.
  void end();

 private:
  bool leads() const { return place_.local_rank == 0; }
  void learn_hosts();
  int64_t bytes_of_host(const std::vector<const Array*>& arrays) const;
  int64_t bytes_of_all(const std::vector<const Array*>& arrays) const;  // once, of all ranks
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
  int64_t newest_ = -1;  // the step of the newest that was made here
  std::string told_;     // why the last one was not made
  std::unique_ptr<checkpoint::SaveInFlight> flight_;
};

}  // namespace lockstep::launcher
