// PaperStep: a step's computation and memory, planned for a device without allocating on it, and without
// peers.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/program/build/build.h"
#include "compiler/program/show/folds.h"
#include "launcher/config/config.h"
#include "launcher/memory/needs.h"

namespace lockstep::launcher {

// A planned step: the program and memory of its fullest rank.
struct PaperStep {
  PaperStep(compiler::StepPlan planned, const LiveMesh& mesh);  // text of the plan, and its hosts

  compiler::StepPlan plan;
  compiler::StepProgram program;  // of rank 0, which has the most micro-batches; without kernels
  int seats;                      // data ranks per host if gradients are exchanged within hosts first; else 0
  int ranks;                      // data ranks
  compiler::HeldBytes held;       // of the fullest rank
  std::vector<int64_t> fullest;   // candidates for the fullest rank, including rank 0
  // Per StartCollective of `program`: bytes that a rank sends, the maximum over fullest_ranks(); those of a
  // collective's parts count for the first part.
  std::vector<int64_t> sent;
  int64_t ranks_per_node;  // 0: one host, or unknown
  int64_t batches = 0;     // bytes of the fullest rank's micro-batches
};
// The program of `rank`'s step.
compiler::StepProgram program_of(const PaperStep& step, const Mesh& mesh, int64_t rank);

// A few data ranks that include the fullest one; rank 0 is the first. Ranks are grouped by the subtree sizes
// of their lanes and, if gradients go within hosts of `seats` ranks first, of their host's lanes. The first
// rank of each group owns the most rows.
std::vector<int> fullest_ranks(const compiler::LanePlan& plan, int seats = 0);

// Device memory of the fullest rank: the training step, and the evaluation (null: none), which uses the
// step's memory if that has room.
MemoryNeeds device_needs(const RunConfig& config, const State& state, const PaperStep& step,
                         const PaperStep* evaluation, const LibraryBounds& bounds);
// Optional memory if the device is the host: snapshots for background saves, one for the disk and one for
// memory (checkpoint.memory_every), and a rank's share of two checkpoints in memory (the newest and the one
// being written). They are not required: without room for a snapshot the run waits for its saves, and the run
// itself checks /dev/shm (launcher/loop/saves/memory_tier.h).
void add_snapshot(MemoryNeeds& needs, const RunConfig& config, const State& state);
// The library bounds of a run on the device of `target`; all 0 for a plugin's device, whose bounds are
// unknown.
LibraryBounds library_bounds(const RunConfig& config, const compiler::Target& target);

}  // namespace lockstep::launcher
