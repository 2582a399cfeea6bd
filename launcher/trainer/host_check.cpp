// HostCheck: estimates memory, and plans only if the estimate is not enough.
#include "launcher/trainer/host_check.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "launcher/trainer/dry_run.h"

namespace lockstep::launcher {

bool HostRoom::plenty(double bytes) const {
  return (!host_.bytes || bytes * static_cast<double>(ranks_) < 0.9 * static_cast<double>(host_.bytes)) &&
         (!address_space_ || bytes < 0.9 * static_cast<double>(*address_space_));
}

std::string HostRoom::refused(const std::string& name, const MemoryNeeds& needs) const {
  std::string out = does_not_fit_host(name, ranks_, needs, host_);
  if (out.empty() && address_space_)
    out = does_not_fit_host(name, 1, needs, {*address_space_, "what ulimit -v leaves to a process"});
  if (out.empty()) return out;
  out += str("\nof each rank:\n", memory_table(needs, 0));
  out.pop_back();
  return out;
}

void HostRoom::warn(const MemoryNeeds& needs) const {
  const double total = static_cast<double>(needs.total()) * static_cast<double>(ranks_);
  if (host_.bytes && total > static_cast<double>(host_.bytes))
    logs::warn(str("memory may run out: the ranks of this host take up to ", bytes_text(total),
                   ", and there are ", bytes_text(static_cast<double>(host_.bytes)), " (", host_.source,
                   "); of each rank:\n", memory_table(needs, 0)));
}

std::string check_host_memory(const RunConfig& config, const State& state, const Trainer& trainer,
                              int64_t sequences, const WorkerPlace& at) {
  if (at.local_rank != 0) return "";
  const HostRoom room(at);
  if (room.plenty(rough_bytes(config) + static_cast<double>(host_bounds().libraries))) return "";
  // The state may be too large by itself, which needs no plan to find out.
  if (std::string out = room.refused(
          config.name,
          device_needs(
              state, StepBytes{},
              {.context = 0, .libraries = 0, .communicator = 0, .workspace = 0, .own_memory = false}));
      !out.empty())
    return out;
  const PaperStep step(trainer.plan_training(state.mesh().words), state.mesh());
  const MemoryNeeds needs = device_needs(config, state, trainer, step, sequences, host_bounds());
  std::string out = room.refused(config.name, needs);
  if (out.empty()) room.warn(needs);
  return out;
}

}  // namespace lockstep::launcher
