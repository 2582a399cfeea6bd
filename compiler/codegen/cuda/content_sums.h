// The GPU's ContentSums: one kernel over spans of elements; 128-bit sums are the same in any order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device/cuda/cuda_device.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, from core

// The kernel is compiled at its first use, or comes from the cache in `cache_dir` ("": the default folder).
// One call at a time, on its own stream. It keeps a table of at most kSpansOfALaunch spans in device memory
// and in staging memory. Lives as long as the device.
std::unique_ptr<ContentSums> make_content_sums(CudaDevice& device, const std::string& cache_dir = {});

// The kernel's parameters and results, as its source declares them.
struct ContentSpan {
  const std::byte* data;
  uint64_t index, key, exponent;
  int64_t count;
  uint64_t element;
};
struct ContentPart {
  uint64_t lo, hi, nonfinite, first;
};
inline constexpr int64_t kSpanElements = int64_t{1} << 17;
inline constexpr size_t kSpansOfALaunch = size_t{1} << 16;
inline constexpr unsigned kContentThreads = 256;
// Source of __global__ void content_sums(const ContentSpan*, unsigned long long count, ContentPart*
// of_each_block). Blocks have kContentThreads threads.
std::string content_source();
// Runs cut into spans of at most kSpanElements.
std::vector<ContentSpan> spans_of(const std::vector<ContentRun>& runs);
void add(ContentSum& sum, const ContentPart& part);

}  // namespace lockstep::compiler::cuda
