// The GPU's Draws: one kernel over spans of elements, which makes each quad of Philox once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device/cuda/cuda_device.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, of core

// The kernel is compiled when it is first asked for, or comes from the cache in `cache_dir` ("": the default
// folder). One call at a time, on a stream of its own. Lives as long as the device.
std::unique_ptr<Draws> make_draws(CudaDevice& device, const std::string& cache_dir = {});

inline constexpr int64_t kDrawElements = int64_t{1} << 15;  // of a run that one block makes at a time
inline constexpr unsigned kDrawThreads = 256;
// __global__ void draws(const DrawRun*, unsigned long long count, unsigned long long seed, stream, double
// base, scale, int normal), in blocks of kDrawThreads.
std::string draws_source();
// Runs cut into spans of at most kDrawElements, which end where a quad of the tensor ends.
std::vector<DrawRun> spans_of(const std::vector<DrawRun>& runs);

}  // namespace lockstep::compiler::cuda
