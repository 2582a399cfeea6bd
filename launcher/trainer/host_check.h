// Whether the ranks of this host fit in its memory, before they take any.
#pragma once

#include <string>

#include "launcher/memory/host.h"
#include "launcher/supervise/contract.h"
#include "launcher/trainer/trainer.h"

namespace lockstep::launcher {

// What this host has for its ranks, as it is when the object is made.
class HostRoom {
 public:
  explicit HostRoom(const WorkerPlace& at)
      : host_(host_memory()), address_space_(address_space_left()), ranks_(at.local_world_size) {}
  // Whether ranks of about so many bytes fit easily.
  bool plenty(double bytes) const;
  // Why ranks that need this cannot be, with the table; "" where they can.
  std::string refused(const std::string& name, const MemoryNeeds& needs) const;
  // A warning where only the bounds of what libraries take do not fit.
  void warn(const MemoryNeeds& needs) const;

 private:
  HostMemory host_;
  std::optional<int64_t> address_space_;
  int64_t ranks_;
};

// For a run on the CPU: why it cannot be, with the table of what a rank needs; "" where it can. Rank 0 of a
// host looks, for all that are on it; what small models need is not planned again, since a guess is enough.
// Where only the bounds of what libraries take do not fit, the run is warned and tried. UserError from the
// plan.
std::string check_host_memory(const RunConfig& config, const State& state, const Trainer& trainer,
                              int64_t sequences, const WorkerPlace& at);

}  // namespace lockstep::launcher
