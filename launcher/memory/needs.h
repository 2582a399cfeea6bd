// A rank's device memory by parts, and the nearest config that fits. Pure arithmetic: nothing is allocated,
// no device is queried.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/nn/state.h"

namespace lockstep::launcher {

// Upper bounds in bytes of memory that the CUDA driver and libraries use in addition to the program's.
// Measured on one H200 in addition to state, arena and reduction: 0.28 GiB for gpt2_124m, 0.69 GiB for
// gpt2_1558m and 0.13 GiB for llama_1b5 (machine code, library handles, captured programs, and the driver's
// rounding); the context takes about 0.5 GiB more.
struct LibraryBounds {
  int64_t context = int64_t{600} << 20;  // of the driver; allocated before the program queries free memory
  int64_t libraries = int64_t{1} << 30;  // loaded code and rounding afterwards
  int64_t communicator =
      int64_t{1536}
      << 20;  // each, of NCCL: channels and their buffers; 1.28 GiB for 2 H200s with NCCL 2.28.9
  // Workspaces of contractions (32 MiB; in fp32 on Hopper parts of the operands and partial sums, at most 3.5
  // GiB) and of attention's backward pass (scores, at most 4 GiB at a time, or sums of its gradients in f32).
  // 0 if the step was planned on the device itself, because its arena then includes them exactly.
  int64_t workspace = (int64_t{4} << 30) + (int64_t{32} << 20);
  bool own_memory = true;  // the device's memory is separate from its host's
};

// The same for a rank on the CPU, in host memory. Measured in addition to state, arena and reduction: 75 MiB
// (program, MPI, oneDNN, kernels, and data), and less than 1 MiB for each communicator.
inline LibraryBounds host_bounds() {
  return {.context = 0,
          .libraries = int64_t{256} << 20,
          .communicator = int64_t{16} << 20,
          .workspace = 0,
          .own_memory = false};
}

struct MemoryPart {
  std::string name;
  int64_t bytes = 0;
  bool bound = false;  // an upper bound; else exact
};

struct MemoryNeeds {
  std::vector<MemoryPart> parts;
  int64_t on_host = 0;  // moments in host memory, not in any part
  int64_t away = 0;     // activations offloaded there, not in any part
  int64_t lent = 0;     // of the evaluation, inside the training step's memory, not in any part
  int64_t total() const;
  int64_t exact() const;  // without the bounds: the minimum for the run
  std::vector<MemoryPart> largest_first() const;
};

// The known bytes of a step on its fullest rank.
struct StepBytes {
  int64_t arena = 0;       // activations and workspaces of the compiled graphs, without `copies`
  int64_t copies = 0;      // copies of weights in the compute dtype (bf16, fp16, float8), made once per step
  int64_t batches = 0;     // ids and targets of the rank's micro-batches, training and evaluation
  int64_t evaluation = 0;  // the part of the evaluation step outside of the training step's memory
  int64_t lent = 0;        // the part inside of it
  int64_t reduction = 0;   // lanes and buckets of gradients, their exchange, and the buffers of the update
  std::set<std::string> on_host{};  // FQNs of the state in host memory
  int64_t away = 0;                 // of offloaded activations
};

// The number of communicators of a mesh: one per dim with more than one rank, and one for several data dims
// together. An exchange within hosts of `seats` data ranks and across them adds one for each of the two,
// unless a dim has the same ranks.
int64_t communicators(const Mesh& mesh, int seats = 0);

// The parts of the fullest rank of a mesh on a device with library bounds `bounds`. The parts do not overlap.
// The host frees its copy of the state once the device has it.
MemoryNeeds device_needs(const State& state, const StepBytes& step, const LibraryBounds& bounds = {});

// A micro-batch and a mesh that fit, and the bytes of the fullest rank.
struct Fit {
  int64_t micro = 0, ranks = 0, bytes = 0;
  std::string mesh{};    // its text, if it is more than another number of ranks on the same single dim; else
                         // empty
  std::string budget{};  // value of compile.memory_budget with which the config fits unchanged; else empty
  bool operator==(const Fit&) const = default;
};
// The meshes near `mesh`, nearest first: itself; the same ranks with factors of 2 moved from dp_replicate to
// dp_shard (which is added where it is missing), until all are; then 2, 4 and 8 times the ranks: on the
// largest data dim, and all data ranks on dp_shard. Other dims stay unchanged.
std::vector<Mesh> nearby_meshes(const Mesh& mesh);
// The nearest config that takes at most `available` bytes: on the first mesh the largest proper divisor of
// `micro` that fits; else on each of the others, in order, the largest divisor that fits, `micro` itself
// included. `bytes_of` gives the bytes of the fullest rank, nullopt for an invalid config; bytes must not
// fall when micro grows.
std::optional<Fit> nearest_fit(
    int64_t micro, const std::vector<Mesh>& meshes, int64_t available,
    const std::function<std::optional<int64_t>(int64_t micro, const Mesh& mesh)>& bytes_of);

// "batch.micro 2 on 16 ranks, mesh [dp_shard=16] (52.70 GiB)"; "compile.memory_budget 25.0GiB, with the same
// bits (52.70 GiB)".
std::string text(const Fit& fit);

// Bytes in the format of compile.memory_budget, rounded down: "32.5GiB", "26MiB", "920KiB"; at least "1KiB".
std::string budget_word(int64_t bytes);

// The table: a row for each part, largest first, the sum and, unless `available` is 0, the device (described
// by `has`) and the needed share.
std::string memory_table(const MemoryNeeds& needs, int64_t available,
                         const std::string& has = "the device has");
// The start of a refusal: both sizes, and the largest part.
std::string too_large(const std::string& name, int64_t ranks, const MemoryNeeds& needs, int64_t available);
// A full refusal: both sizes, the largest part, and the nearest config that fits.
std::string does_not_fit(const std::string& name, int64_t micro, int64_t ranks, const MemoryNeeds& needs,
                         int64_t available, const std::optional<Fit>& fit);

// "141GB", "80GiB", "1.5 TB", "123456" (bytes). UserError for anything else, and for less than 1 byte.
int64_t parse_memory(const std::string& text);

}  // namespace lockstep::launcher
