// Chooses this rank's device from train.device.
#pragma once

#include <memory>
#include <string>

#include "compiler/codegen/target.h"
#include "core/mesh/array.h"

namespace lockstep::launcher {

// `word` is train.device: auto, cpu, cuda, cuda:N, plugin:PATH. Rank `local_rank` of this host's
// `local_ranks` takes the GPU of its number (cuda:N: device N, for a run of one rank per host). auto: a GPU
// if there is one for every local rank, else the CPU. UserError: another word, no driver, no device, fewer
// devices than ranks, a device that is too old, a plugin that cannot be loaded.
const compiler::Target& run_target(const std::string& word, int64_t local_rank, int64_t local_ranks);

// Text that names a rank's device, from train.device ("": each rank takes its own): "GPU 1 (NVIDIA H200, PCI
// 0000:17:00.0)"; "" for the CPU.
std::string device_place(const std::string& word, const Device& device, int64_t local_rank);
// The value of CUDA_VISIBLE_DEVICES for this host's GPUs without these numbers, in this process's numbering.
std::string visible_without(const std::vector<int64_t>& ordinals);

// Why this host lacks the devices of train.device for that many ranks, from the driver's count without
// opening a device. "" if it has them, or train.device is not a GPU.
std::string device_not_here(const std::string& word, int64_t local_ranks);

// UserError when train.device names one device (cuda:N) and a host has several ranks.
void refuse_one_device(const std::string& word, int64_t local_ranks);

// Requires equal devices on all ranks: other kinds would start other collectives, and other models would give
// other bits. Collective over `world`. UserError on every rank naming the first rank that differs from rank
// 0, and both devices.
void agree_on_device(Group& world, const std::string& word, const Device& device);

// The device of train.device if this machine has it, else the CPU: for planning, and for text generation from
// another machine's checkpoint.
struct FoundTarget {
  const compiler::Target& target;
  std::string missing;  // why it is the CPU and not the config's device; else empty
};
FoundTarget found_target(const std::string& word, int64_t local_ranks = 1);

// Opens this rank's device after agreement of all ranks, and puts its group into `mesh`: run_target,
// agree_on_device, join_device. Collective over mesh.world; an error of one rank is thrown on all.
const compiler::Target& open_device(LiveMesh& mesh, const std::string& word, int64_t local_rank,
                                    int64_t local_ranks);

// Gives `mesh` groups that work on the device's memory, a plugin's own if it has some. Collective over
// mesh.world; does nothing if the host can address the device's memory.
void join_device(LiveMesh& mesh, const std::string& word, const compiler::Target& target);

}  // namespace lockstep::launcher
