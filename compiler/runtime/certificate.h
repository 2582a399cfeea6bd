// The executables of a step, and the numerics certificate: a hash of everything that decides which bits a
// step computes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/program/build.h"
#include "compiler/runtime/executable.h"

namespace lockstep {

struct StepExecutables {
  std::unique_ptr<Executable> count, seed, body;
  std::vector<std::unique_ptr<Executable>> fragments;
  int64_t arena_bytes() const;
};
// Without plan.kernels the executables can be described and measured, not run.
// `group_of`: for collectives of model dims.
StepExecutables make_executables(const StepPlan& plan, const GroupOf& group_of = {});

// hash(graphs, constants of the updates, kernels, library algorithms, the target's library_version(), tree,
// micro-batches, lanes, precision). No thread count, bucket size or instruction set of our own kernels: none
// of them changes a bit. The number of data ranks is in it where numerics are "free" alone. Equal
// certificates promise equal bits.
std::string certificate_of(const StepPlan& plan, const StepExecutables& executables, int data_ranks);
std::string certificate_of(const StepPlan& plan, const StepBlocks& blocks, int data_ranks);

}  // namespace lockstep
