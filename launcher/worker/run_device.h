// Which device this rank computes on, from train.device.
#pragma once

#include <memory>
#include <string>

#include "compiler/codegen/target.h"
#include "core/mesh/array.h"

namespace lockstep {

// `word` is train.device: auto, cpu, cuda, cuda:N, plugin:PATH. Rank `local_rank` of this host's `local_ranks` takes the GPU of its number
// (cuda:N: device N, for a run of one rank per host). auto: the GPU where there is one for every local rank, else the CPU.
// UserError: no driver, no device, fewer devices than ranks, a device that is too old, a plugin that cannot be loaded.
const Target& run_target(const std::string& word, int64_t local_rank, int64_t local_ranks);

// Gives `mesh` the group of its data ranks on the device's memory. Collective over mesh.data; does nothing where the host addresses the
// device's memory.
void join_device(LiveMesh& mesh, const std::string& word, const Target& target);

}  // namespace lockstep
