// A run on paper: its training step, planned for a device without allocating on it, without peers.
#pragma once

#include <cstdint>
#include <optional>

#include "launcher/trainer/paper_step.h"
#include "launcher/trainer/trainer.h"

namespace lockstep::launcher {

// What the fullest rank takes of its device: the training step, and an evaluation of `sequences` (0: none)
// beside it.
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

// The nearest config that takes at most `available` bytes of a device: with a compile.memory_budget, where
// the config has none and one suffices, which changes no bit; else see nearest_fit.
std::optional<Fit> nearest_config(const RunConfig& config, int64_t nproc, const compiler::Target& target,
                                  int64_t sequences, const LibraryBounds& bounds, int64_t available);

}  // namespace lockstep::launcher
