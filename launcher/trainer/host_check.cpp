// From a guess to a plan, as far as is needed to know.
#include "launcher/trainer/host_check.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "launcher/memory/host.h"
#include "launcher/trainer/dry_run.h"

namespace lockstep::launcher {

std::string check_host_memory(const RunConfig& config, const State& state, const Trainer& trainer,
                              int64_t sequences, const WorkerPlace& at) {
  if (at.local_rank != 0) return "";
  const HostMemory host = host_memory();
  const auto address_space = address_space_left();
  const auto ranks = at.local_world_size;
  const double guess = rough_bytes(config) + static_cast<double>(host_bounds().libraries);
  const bool plenty =
      !host.bytes || guess * static_cast<double>(ranks) < 0.9 * static_cast<double>(host.bytes);
  if (plenty && (!address_space || guess < 0.9 * static_cast<double>(*address_space))) return "";
  auto refused = [&](const MemoryNeeds& needs) {
    std::string out = does_not_fit_host(config.name, ranks, needs, host);
    if (out.empty() && address_space)
      out = does_not_fit_host(config.name, 1, needs, {*address_space, "what ulimit -v leaves to a process"});
    if (out.empty()) return out;
    out += str("\nof each rank:\n", memory_table(needs, 0));
    out.pop_back();
    return out;
  };
  // The state alone may be too much, and costs no plan.
  if (std::string out = refused(device_needs(
          state, StepBytes{}, {.context = 0, .libraries = 0, .communicator = 0, .workspace = 0}));
      !out.empty())
    return out;
  const PaperStep step(trainer.plan_training(state.mesh().words), state.mesh());
  const MemoryNeeds needs = device_needs(config, state, trainer, step, sequences, host_bounds());
  if (std::string out = refused(needs); !out.empty()) return out;
  const double total = static_cast<double>(needs.total()) * static_cast<double>(ranks);
  if (host.bytes && total > static_cast<double>(host.bytes))
    logs::warn(str("memory may run out: the ranks of this host take up to ", bytes_text(total),
                   ", and there are ", bytes_text(static_cast<double>(host.bytes)), " (", host.source,
                   "); of each rank:\n", memory_table(needs, 0)));
  return "";
}

}  // namespace lockstep::launcher
