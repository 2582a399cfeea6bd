// A step on paper: what it computes and takes of memory, planned for a device without allocating on it,
// without peers.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/program/build.h"
#include "compiler/program/folds.h"
#include "launcher/config/config.h"
#include "launcher/memory/needs.h"

namespace lockstep::launcher {

// A planned step: what its fullest rank does and holds.
struct PaperStep {
  PaperStep(compiler::StepPlan planned, const LiveMesh& mesh);  // its words and its hosts

  compiler::StepPlan plan;
  compiler::StepProgram program;  // of rank 0, which runs as many micro-batches as any; without kernels
  int seats;                      // data ranks of a host, where gradients go inside hosts first; else 0
  int ranks;                      // data ranks
  compiler::HeldBytes held;       // of the fullest rank
  std::vector<int64_t> fullest;   // ranks of which one holds so much, rank 0 among them
  // Per StartCollective of `program`: bytes that a rank sends, the most of fullest_ranks(); those of the
  // parts of one collective stand at the first.
  std::vector<int64_t> sent;
  int64_t ranks_per_node;  // 0: one host, or not known
  int64_t batches = 0;     // bytes of the fullest rank's micro-batches
};
// What `rank` does in the step.
compiler::StepProgram program_of(const PaperStep& step, const Mesh& mesh, int64_t rank);

// Data ranks of which one holds as much as any rank does. Of all ranks whose lanes form subtrees of the same
// sizes, and whose hosts' do where gradients go inside hosts of `seats` first: the first, because it owns the
// most rows. A few, however many ranks there are; rank 0 is the first of them.
std::vector<int> fullest_ranks(const compiler::LanePlan& plan, int seats = 0);

// What the fullest rank takes of its device: the training step, and the evaluation (null: none), which lies
// in its memory where that has room.
MemoryNeeds device_needs(const RunConfig& config, const State& state, const PaperStep& step,
                         const PaperStep* evaluation, const LibraryBounds& bounds);
// For a device that is the host: snapshots of saves that are written beside the training, where the run makes
// any, one of those on the disk and one of those in memory (checkpoint.memory_every); and a rank's share of
// the checkpoints in memory, the newest and the one that is written. They are no part of what a rank must
// have: where there is no room for a snapshot the run waits for its saves, and of /dev/shm the run itself
// asks (launcher/loop/memory_tier.h).
void add_snapshot(MemoryNeeds& needs, const RunConfig& config, const State& state);
// The bounds of a run on the device of `target`. Of devices of a plugin nothing is known: all are 0.
LibraryBounds library_bounds(const RunConfig& config, const compiler::Target& target);

}  // namespace lockstep::launcher
