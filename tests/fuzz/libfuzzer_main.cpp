// libFuzzer's entry: runs the target named by FUZZ_TARGET, and takes more than a second of processor time as
// a finding.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "tests/fuzz/targets.h"

namespace {
double processor_seconds() {
  timespec at{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const double before = processor_seconds();
  lockstep::fuzz::FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  if (double took = processor_seconds() - before; took > 1) {
    std::fprintf(stderr, "finding: %.1f s for an input of %zu bytes\n", took, size);
    std::abort();
  }
  return 0;
}
