// A step on paper: what it computes and takes of memory, planned for a device without allocating on it, without peers.
#pragma once

#include <cstdint>

#include "compiler/run/certificate.h"
#include "launcher/memory/needs.h"
#include "launcher/worker/build.h"

namespace lockstep {

// A planned step, measured.
struct PaperStep {
  PaperStep(StepPlan planned, const Mesh& mesh);

  StepPlan plan;
  StepExecutables executables;  // without kernels: they can be measured, not run
  int ranks;                    // data ranks
  int64_t reduction;            // bytes of the fullest rank: partial sums, what arrives, buffers of the update
  int64_t exchanged = 0;        // bytes that rank 0 sends
  int64_t batches = 0;          // bytes of the fullest rank's micro-batches
};

// What the fullest rank takes of its device: the training step, and an evaluation of `sequences` (0: none) beside it.
MemoryNeeds device_needs(const RunConfig& config, const State& state, const Trainer& trainer, const PaperStep& step, int64_t sequences,
                         const LibraryBounds& bounds);
// The bounds of a run on the device of `target`. Devices other than CUDA: nothing is known, all are 0.
LibraryBounds library_bounds(const std::string& device, const Target& target);

// The training step of a config on N ranks.
struct PaperRun {
  // UserError as Trainer and plan_step.
  PaperRun(const RunConfig& config, int64_t nproc, const Target& target);

  Mesh words;
  State state;
  Trainer trainer;
  PaperStep step;
};

// The nearest config that takes at most `available` bytes of a device; see nearest_fit.
std::optional<Fit> nearest_config(const RunConfig& config, int64_t nproc, const Target& target, int64_t sequences,
                                  const LibraryBounds& bounds, int64_t available);

}  // namespace lockstep
