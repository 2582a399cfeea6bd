// A step on paper: what it computes and takes of memory, planned for a device without allocating on it,
// without peers.
#pragma once

#include <cstdint>

#include "compiler/runtime/certificate.h"
#include "launcher/memory/needs.h"
#include "launcher/trainer/trainer.h"

namespace lockstep {

// A planned step, measured.
struct PaperStep {
  PaperStep(StepPlan planned, const LiveMesh& mesh);  // its words and its hosts

  StepPlan plan;
  StepExecutables executables;       // without kernels: they can be measured, not run
  int ranks;                         // data ranks
  int64_t tail;                      // bytes of the fullest rank: buffers of the update
  int64_t reduction;                 // bytes of the fullest rank: partial sums, what arrives, and `tail`
  std::vector<int64_t> sent;         // per exchange: bytes that a rank sends, the most of fullest_ranks()
  std::vector<int64_t> sent_across;  // of these, to other hosts; -1: to all ranks alike
  int64_t ranks_per_node;            // 0: one host, or not known
  int64_t batches = 0;               // bytes of the fullest rank's micro-batches
};

// Data ranks of which one holds as much of any bucket as any rank does: of all ranks whose lanes form
// subtrees of the same sizes, the first, because it owns the most rows. A few, however many ranks there are.
std::vector<int> fullest_ranks(const LanePlan& plan);

// What the fullest rank takes of its device: the training step, and an evaluation of `sequences` (0: none)
// beside it.
MemoryNeeds device_needs(const RunConfig& config, const State& state, const Trainer& trainer,
                         const PaperStep& step, int64_t sequences, const LibraryBounds& bounds);
// The bounds of a run on the device of `target`. Of devices of a plugin nothing is known: all are 0.
LibraryBounds library_bounds(const RunConfig& config, const Target& target);

// The training step of a config on N ranks.
struct PaperRun {
  // UserError as Trainer and plan_step.
  PaperRun(const RunConfig& config, int64_t nproc, const Target& target, const Roofline* roofline = nullptr);

  Mesh words;
  State state;
  Trainer trainer;
  PaperStep step;
};

// The nearest config that takes at most `available` bytes of a device; see nearest_fit.
std::optional<Fit> nearest_config(const RunConfig& config, int64_t nproc, const Target& target,
                                  int64_t sequences, const LibraryBounds& bounds, int64_t available);

}  // namespace lockstep
