// Dry run: plans a run's training step for a device without allocating on it, and without peers.
#pragma once

#include <cstdint>
#include <optional>

#include "launcher/trainer/paper_step.h"
#include "launcher/trainer/trainer.h"

namespace lockstep::launcher {

// Device memory of the fullest rank: the training step plus an evaluation of `sequences` (0: none).
MemoryNeeds device_needs(const RunConfig& config, const State& state, const Trainer& trainer,
                         const PaperStep& step, int64_t sequences, const LibraryBounds& bounds);

// The training step of a config on N ranks.
struct PaperRun {
  // UserError as Trainer and plan_step.
  PaperRun(const RunConfig& config, int64_t nproc, const compiler::Target& target,
           const Roofline* roofline = nullptr);

  Mesh words;
  State state;
  Trainer trainer;
  PaperStep step;
};

// The nearest config that takes at most `available` bytes of a device: with a compile.memory_budget if the
// config has none and one suffices (it changes no bit); else see nearest_fit.
std::optional<Fit> nearest_config(const RunConfig& config, int64_t nproc, const compiler::Target& target,
                                  int64_t sequences, const LibraryBounds& bounds, int64_t available);

}  // namespace lockstep::launcher
