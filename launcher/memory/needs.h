// What a rank takes of its device's memory, part by part, and the nearest config that fits. Arithmetic alone:
// nothing is allocated, no device is asked.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/nn/state.h"

namespace lockstep::launcher {

// What the driver and the libraries take beside what the program allocates, on CUDA: upper bounds, bytes.
// Measured on one H200 beside state, arena and reduction: 0.28 GiB for gpt2_124m, 0.69 GiB for gpt2_1558m and
// 0.13 GiB for llama_1b5 (machine code, library handles, captured programs, and what the driver rounds up);
// the context takes about 0.5 GiB more.
struct LibraryBounds {
  int64_t context = int64_t{600} << 20;  // of the driver; taken before the program asks what is free
  int64_t libraries = int64_t{1} << 30;  // what is loaded and rounded up afterwards
  int64_t communicator =
      int64_t{1536}
      << 20;  // each, of NCCL: channels and their buffers; 1.28 GiB for 2 H200s with NCCL 2.28.9
  // Of contractions (32 MiB; in fp32 on Hopper parts of the operands and pieces of sums, at most 3.5 GiB) and
  // of attention's backward pass (scores, at most 4 GiB at a time, or sums of its gradients in f32); 0 where
  // the step was planned on the device itself: its arena then holds them to the byte.
  int64_t workspace = (int64_t{4} << 30) + (int64_t{32} << 20);
  bool own_memory = true;  // the device has memory beside its host's
};

// The same of a rank on the CPU, in its host's memory. Measured beside state, arena and reduction: 75 MiB
// (program, MPI, oneDNN, kernels, and what the data takes), and less than 1 MiB for each communicator.
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
  int64_t on_host = 0;  // moments that lie in the host's memory, in no part
  int64_t away = 0;     // activations that wait there, in no part
  int64_t lent = 0;     // of the evaluation, in the training step's memory, in no part
  int64_t total() const;
  int64_t exact() const;  // without the parts that are bounds: with less than this the run cannot be
  std::vector<MemoryPart> largest_first() const;
};

// What is known of a step on its fullest rank, bytes.
struct StepBytes {
  int64_t arena = 0;       // activations and workspaces of the compiled graphs, without `copies`
  int64_t copies = 0;      // of weights in what layers compute in (bf16, fp16, float8), made once per step
  int64_t batches = 0;     // ids and targets of the rank's micro-batches, training and evaluation
  int64_t evaluation = 0;  // of the evaluation step, what has no room in the training step's memory
  int64_t lent = 0;        // of it, what has
  int64_t reduction = 0;   // lanes and buckets of gradients, their exchange, and the buffers of the update
  std::set<std::string> on_host{};  // FQNs of the state that lies in the host's memory
  int64_t away = 0;                 // of activations that wait there
};

// Communicators of a mesh: one for each dim of more than one rank, one for the data dims together where there
// are several of them, and with an exchange inside hosts of `seats` data ranks and across them one for each
// of the two, unless a dim has its ranks.
int64_t communicators(const Mesh& mesh, int seats = 0);

// The parts of the fullest rank of a mesh on a device whose libraries take `bounds`. Nothing is in two of
// them. The host gives back what it holds of the state once the device has it.
MemoryNeeds device_needs(const State& state, const StepBytes& step, const LibraryBounds& bounds = {});

// A micro-batch and a mesh that fit, and the bytes of the fullest rank.
struct Fit {
  int64_t micro = 0, ranks = 0, bytes = 0;
  std::string mesh{};    // its words, where they are more than a number of ranks on one dim of the same name;
                         // else empty
  std::string budget{};  // of compile.memory_budget, under which the config fits as it is; else empty
  bool operator==(const Fit&) const = default;
};
// The meshes near `mesh`, nearest first: itself; the same ranks with factors of 2 moved from dp_replicate to
// dp_shard (which is added where it is missing), until all are; then 2, 4 and 8 times the ranks: on the
// largest data dim, and all data ranks on dp_shard. Dims outside the data dims stay.
std::vector<Mesh> nearby_meshes(const Mesh& mesh);
// The nearest config that takes at most `available` bytes: on the first mesh the largest proper divisor of
// `micro` that fits; else on each of the others, in order, the largest divisor that fits, `micro` itself
// included. `bytes_of` gives the bytes of the fullest rank, nullopt for a config that cannot be; bytes must
// not fall when micro grows.
std::optional<Fit> nearest_fit(
    int64_t micro, const std::vector<Mesh>& meshes, int64_t available,
    const std::function<std::optional<int64_t>(int64_t micro, const Mesh& mesh)>& bytes_of);

// "batch.micro 2 on 16 ranks, mesh [dp_shard=16] (52.70 GiB)"; "compile.memory_budget 25.0GiB, with the same
// bits (52.70 GiB)".
std::string text(const Fit& fit);

// Bytes as compile.memory_budget takes them, rounded down: "32.5GiB", "26MiB", "920KiB"; at least "1KiB".
std::string budget_word(int64_t bytes);

// The table: a row for each part, the largest first, the sum, and where `available` is not 0, the device (in
// the words `has`) and the share that is needed.
std::string memory_table(const MemoryNeeds& needs, int64_t available,
                         const std::string& has = "the device has");
// The start of why a run is refused: both sizes, and the largest part.
std::string too_large(const std::string& name, int64_t ranks, const MemoryNeeds& needs, int64_t available);
// Why a run is refused: both sizes, the largest part, and the nearest config that fits.
std::string does_not_fit(const std::string& name, int64_t micro, int64_t ranks, const MemoryNeeds& needs,
                         int64_t available, const std::optional<Fit>& fit);

// "141GB", "80GiB", "1.5 TB", "123456" (bytes). UserError for anything else, and for less than 1 byte.
int64_t parse_memory(const std::string& text);

}  // namespace lockstep::launcher
