// Which device this rank computes on, from train.device.
#pragma once

#include <memory>
#include <string>

#include "compiler/codegen/target.h"
#include "core/mesh/array.h"

namespace lockstep::launcher {

// `word` is train.device: auto, cpu, cuda, cuda:N, plugin:PATH. Rank `local_rank` of this host's
// `local_ranks` takes the GPU of its number (cuda:N: device N, for a run of one rank per host). auto: the GPU
// where there is one for every local rank, else the CPU. UserError: a word that is none of these, no driver,
// no device, fewer devices than ranks, a device that is too old, a plugin that cannot be loaded.
const compiler::Target& run_target(const std::string& word, int64_t local_rank, int64_t local_ranks);

// Which device of its host a rank computes on, by train.device ("" where each takes its own), for people:
// "GPU 1 (NVIDIA H200, PCI 0000:17:00.0)"; "" where it is the host's processor.
std::string device_place(const std::string& word, const Device& device, int64_t local_rank);
// What CUDA_VISIBLE_DEVICES is to be for the GPUs of this host without these numbers, as this process counts.
std::string visible_without(const std::vector<int64_t>& ordinals);

// Why this host has not what train.device asks of it for so many ranks, by what the driver counts: no device
// is opened. "" where it has, and where train.device is no GPU.
std::string device_not_here(const std::string& word, int64_t local_ranks);

// UserError where train.device names one device (cuda:N) and a host has several ranks.
void refuse_one_device(const std::string& word, int64_t local_ranks);

// Ranks on devices of different kinds would make different collectives, and ranks on different devices other
// bits. Collective over `world`. UserError on every rank, naming the first rank that differs from rank 0 and
// both devices.
void agree_on_device(Group& world, const std::string& word, const Device& device);

// The device of train.device where this machine has it, else the CPU: for planning, and for text from a
// checkpoint of another machine.
struct FoundTarget {
  const compiler::Target& target;
  std::string missing;  // why it is the CPU although the config names another device; else empty
};
FoundTarget found_target(const std::string& word, int64_t local_ranks = 1);

// This rank's device, agreed upon by all ranks before one of them computes, with its group in `mesh`:
// run_target, agree_on_device, join_device. Collective over mesh.world; throws on every rank what one of them
// found.
const compiler::Target& open_device(LiveMesh& mesh, const std::string& word, int64_t local_rank,
                                    int64_t local_ranks);

// Gives `mesh` its groups on the device's memory, a plugin's own where it has some. Collective over
// mesh.world; does nothing where the host addresses the device's memory.
void join_device(LiveMesh& mesh, const std::string& word, const compiler::Target& target);

}  // namespace lockstep::launcher
