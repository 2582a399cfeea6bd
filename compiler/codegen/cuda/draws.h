// The GPU's Draws: one kernel over spans of elements, which computes each Philox quad once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device/cuda/cuda_device.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, from core

// The kernel is compiled at its first use, or comes from the cache in `cache_dir` ("": the default folder).
// One call at a time, on its own stream. Lives as long as the device.
std::unique_ptr<Draws> make_draws(CudaDevice& device, const std::string& cache_dir = {});

inline constexpr int64_t kDrawElements = int64_t{1} << 15;  // of a run, per block at a time
inline constexpr unsigned kDrawThreads = 256;
// Source of __global__ void draws(const DrawRun*, unsigned long long count, unsigned long long seed, stream,
// double base, scale, int normal). Blocks have kDrawThreads threads.
std::string draws_source();
// Runs cut into spans of at most kDrawElements; each ends at the end of a Philox quad.
std::vector<DrawRun> spans_of(const std::vector<DrawRun>& runs);

}  // namespace lockstep::compiler::cuda
