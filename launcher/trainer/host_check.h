// Checks that the ranks of this host fit in its memory before they allocate any.
#pragma once

#include <string>

#include "launcher/memory/host.h"
#include "launcher/supervise/worker/contract.h"
#include "launcher/trainer/trainer.h"

namespace lockstep::launcher {

// The memory available to this host's ranks at construction.
class HostRoom {
 public:
  explicit HostRoom(const WorkerPlace& at)
      : host_(host_memory()), address_space_(address_space_left()), ranks_(at.local_world_size) {}
  // Whether ranks of about this size fit easily.
  bool plenty(double bytes) const;
  // Why ranks with these needs do not fit, with the table; "" if they fit.
  std::string refused(const std::string& name, const MemoryNeeds& needs) const;
  // Warns if only the bounds of libraries do not fit.
  void warn(const MemoryNeeds& needs) const;

 private:
  HostMemory host_;
  std::optional<int64_t> address_space_;
  int64_t ranks_;
};

// For a run on the CPU: why it does not fit, with the table of a rank's needs; "" if it fits. Rank 0 of a
// host checks for all its ranks; for small models an estimate replaces the plan. If only the bounds of
// libraries do not fit, it warns and the run continues. UserError from the plan.
std::string check_host_memory(const RunConfig& config, const State& state, const Trainer& trainer,
                              int64_t sequences, const WorkerPlace& at);

}  // namespace lockstep::launcher
