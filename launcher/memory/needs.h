// What a rank takes of its device's memory, part by part, and the nearest config that fits. Arithmetic alone: nothing is allocated, no
// device is asked.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/nn/state.h"

namespace lockstep {

// What the driver and the libraries take beside what the program allocates, on CUDA: upper bounds, bytes.
struct LibraryBounds {
  int64_t context = int64_t{600} << 20;       // the driver's context, and the code of libraries and kernels
  int64_t workspace = int64_t{32} << 20;      // of cuBLASLt
  int64_t communicator = int64_t{300} << 20;  // each, of NCCL: channels and their buffers
};

struct MemoryPart {
  std::string name;
  int64_t bytes = 0;
  bool bound = false;  // an upper bound; else exact
};

struct MemoryNeeds {
  std::vector<MemoryPart> parts;
  int64_t total() const;
};

// What is known of a step on its fullest rank, bytes.
struct StepBytes {
  int64_t arena = 0;      // activations, inputs and workspaces of the compiled graphs
  int64_t reduction = 0;  // lanes and buckets of gradients, their exchange, and the buffers of the update
};

// Communicators of a mesh: one for each dim of more than one rank, and one for the data dims together where there are several of them.
int64_t communicators(const Mesh& mesh);

// The parts of the fullest rank of a mesh on a device whose libraries take `bounds`. Weights that are computed with in bf16 have a copy of
// 2 bytes per element (precision "bf16").
MemoryNeeds device_needs(const State& state, const StepBytes& step, const std::string& precision, const LibraryBounds& bounds = {});

// A micro-batch and a number of ranks that fit, and the bytes of the fullest rank.
struct Fit {
  int64_t micro = 0, ranks = 0, bytes = 0;
  bool operator==(const Fit&) const = default;
};
// The nearest config that takes at most `available` bytes: on the same ranks the largest proper divisor of `micro` that fits; else on 2, 4
// and 8 times the ranks the largest divisor that fits, `micro` itself included. `bytes_of` gives the bytes of the fullest rank, nullopt for
// a config that cannot be; bytes must not fall when micro grows.
std::optional<Fit> nearest_fit(int64_t micro, int64_t ranks, int64_t available,
                               const std::function<std::optional<int64_t>(int64_t micro, int64_t ranks)>& bytes_of);

// The table: a row for each part, the sum, and where `available` is not 0, the device and the share that is used.
std::string memory_table(const MemoryNeeds& needs, int64_t available);
// Why a run is refused: both sizes, the largest part, and the nearest config that fits.
std::string does_not_fit(const std::string& name, int64_t micro, int64_t ranks, const MemoryNeeds& needs, int64_t available,
                         const std::optional<Fit>& fit);

// "141GB", "80GiB", "1.5 TB", "123456" (bytes). UserError for anything else, and for less than 1 byte.
int64_t parse_memory(const std::string& text);

}  // namespace lockstep
