// RunSaves: the saves of a run. One at a time is written beside the training; ranks agree at the ends of
// steps how far it is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/save_in_flight.h"
#include "launcher/config/run_config.h"
#include "launcher/loop/saving.h"

namespace lockstep::launcher {

struct SaveOrder {
  std::string folder;  // of step folders
  int64_t keep = 1;
  bool last = false;  // no step follows: it must go well (Saving), and there is nothing to write it beside
  bool wait = false;  // it is there, or has failed, when save() returns
  std::function<void()> then = {};  // called when it is there
};

// A vote of a step is one number, summed over the ranks (at most kMostRanks): requests to stop, then those to
// stop and go on at once with other ranks, then ranks that are done with their part of a save, then those
// done with their part of one in memory.
inline constexpr int64_t kMostVotes = int64_t{1} << 15, kRegroup = int64_t{1} << 16,
                         kReady = int64_t{1} << 32, kReadyInMemory = kReady * kMostVotes;
static_assert(kMostRanks < kMostVotes);

class RunSaves {
 public:
  // `room`: for snapshots; it asks whether this rank can take so many bytes more. The references outlive the
  // object.
  RunSaves(const CheckpointConfig& policy, const LiveMesh& mesh,
           std::shared_ptr<checkpoint::SnapshotRoom> room,
           checkpoint::Storage& storage = checkpoint::any_storage());

  // Makes a save, or, under checkpoint.async and with memory for a snapshot, begins one, after which the
  // arrays may change. It waits for the one in flight first, and says so where that takes a second.
  // Collective. As save_checkpoint and Saving; NonFiniteError may be of the one in flight.
  void save(const SaveOrder& order, const checkpoint::SaveInfo& info,
            const std::vector<const Array*>& arrays);
  // What this rank adds to the vote of a step: whether its part of a save in flight is done.
  int64_t vote() const { return flight_ && flight_->ready() ? kReady : 0; }
  // What the ranks' votes add up to of those, and of a MemoryTier's.
  static int64_t ready(int64_t votes) { return votes / kReady % kMostVotes; }
  static int64_t ready_in_memory(int64_t votes) { return votes / kReadyInMemory; }
  // What the ranks' votes add up to without those: requests to stop, and to stop for other ranks.
  static int64_t stops(int64_t votes) { return votes % kRegroup; }
  static int64_t regroups(int64_t votes) { return votes % kReady / kRegroup; }
  // After a step whose votes add up to this: goes on with the save in flight where all ranks are done with
  // their part of it. Collective then. As save().
  void heard(int64_t votes);
  // Whether a save is in flight; the same on all ranks.
  bool in_flight() const { return flight_ != nullptr; }
  bool in_flight(const std::string& folder) const { return flight_ && order_.folder == folder; }
  // Waits until none is. Collective where one is. As save().
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
  bool told_ = false;  // that there is no memory for a snapshot
  std::unique_ptr<checkpoint::SaveInFlight> flight_;
};

}  // namespace lockstep::launcher
