// RunSaves: the saves of a run. One at a time is written in the background; at the end of each step ranks
// agree on its progress. A save in progress is "in flight".
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/save_in_flight.h"
#include "launcher/config/run_config.h"
#include "launcher/loop/saves/saving.h"

namespace lockstep::launcher {

struct SaveOrder {
  std::string folder;  // of step folders
  int64_t keep = 1;
  bool last = false;  // no step follows: it must succeed (Saving), and it is not written in the background
  bool wait = false;  // it has succeeded or failed when save() returns
  std::function<void()> then = {};  // called when it has succeeded
};

// The vote of a step is one number, summed over the ranks (at most kMostRanks), with four counters. They
// count requests to stop, requests to stop and continue at once with other ranks, ranks that finished their
// part of a save, and ranks that finished their part of one to memory.
inline constexpr int64_t kMostVotes = int64_t{1} << 15, kRegroup = int64_t{1} << 16,
                         kReady = int64_t{1} << 32, kReadyInMemory = kReady * kMostVotes;
static_assert(kMostRanks < kMostVotes);

class RunSaves {
 public:
  // `room`: memory for snapshots; it checks whether this rank can allocate more bytes. The references outlive
  // the object.
  RunSaves(const CheckpointConfig& policy, const LiveMesh& mesh,
           std::shared_ptr<checkpoint::SnapshotRoom> room,
           checkpoint::Storage& storage = checkpoint::any_storage());

  // Makes a save or, with checkpoint.async and memory for a snapshot, begins one, after which the arrays may
  // change. First waits for a save in flight, with a log line if that takes a second. Collective. Errors as
  // save_checkpoint and Saving; a NonFiniteError may come from the save in flight.
  void save(const SaveOrder& order, const checkpoint::SaveInfo& info,
            const std::vector<const Array*>& arrays);
  // This rank's contribution to a step's vote: whether its part of a save in flight is done.
  int64_t vote() const { return flight_ && flight_->ready() ? kReady : 0; }
  // The parts of the summed votes for these saves, and for those of a MemoryTier.
  static int64_t ready(int64_t votes) { return votes / kReady % kMostVotes; }
  static int64_t ready_in_memory(int64_t votes) { return votes / kReadyInMemory; }
  // The other parts of the summed votes: requests to stop, and to stop for other ranks.
  static int64_t stops(int64_t votes) { return votes % kRegroup; }
  static int64_t regroups(int64_t votes) { return votes % kReady / kRegroup; }
  // Called after a step with its summed votes: continues the save in flight if all ranks finished their part;
  // collective then. Errors as save().
  void heard(int64_t votes);
  // Whether a save is in flight; the same on all ranks.
  bool in_flight() const { return flight_ != nullptr; }
  bool in_flight(const std::string& folder) const { return flight_ && order_.folder == folder; }
  // Waits until no save is in flight; collective if one is. Errors as save().
  void finish();

 private:
  void advance();

  const LiveMesh& mesh_;
  const bool async_;
  checkpoint::Storage& storage_;
  Saving saving_;
  std::shared_ptr<checkpoint::SnapshotRoom> room_;
  SaveOrder order_;
  int64_t retry_ = 0;
  bool told_ = false;  // the lack of memory for a snapshot was reported
  std::unique_ptr<checkpoint::SaveInFlight> flight_;
};

}  // namespace lockstep::launcher
