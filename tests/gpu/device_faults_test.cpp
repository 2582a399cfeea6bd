// Kernels that fault. A fault makes the device useless to its process, so each has a process of its own,
// which has to end by itself, with a PeerError.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "compiler/codegen/cuda/source/nvrtc.h"
#include "core/base/error.h"
#include "core/device/cuda/cuda_device.h"

namespace lockstep {
namespace {

constexpr const char* kSource = R"(
extern "C" __global__ void fault(int* nowhere) { *nowhere = 1; }
extern "C" __global__ void stop(int*) { asm("trap;"); }
)";

class device_faults : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!cuda::available(&why) || !compiler::cuda::nvrtc_available(&why)) GTEST_SKIP() << why;
    GTEST_FLAG_SET(death_test_style,
                   "threadsafe");  // the child starts the program again: a driver does not survive a fork
  }
  // Two launches, each waited for: both have to give an error, and what is destroyed afterwards must not wait
  // for the device.
  static void run(const std::string& name) {
    alarm(60);
    const auto start = std::chrono::steady_clock::now();
    int errors = 0;
    {
      auto gpu = cuda::open_device(0);
      auto kernels = gpu->load(compiler::cuda::compile_cubin(kSource, gpu->target()));
      auto stream = gpu->make_stream();
      Buffer data(1 << 20, gpu->memory()), pinned(1 << 20, gpu->staging());
      int* nowhere = reinterpret_cast<int*>(16);
      void* args[] = {&nowhere};
      for (int attempt = 0; attempt < 2; ++attempt) try {
          cuda::launch(kernels->function(name), 1, 1, 1, 1, 0, *stream, args, name);
          stream->record()->synchronize();
          stream->synchronize();
        } catch (const PeerError& error) {
          ++errors;
          std::fprintf(stderr, "PeerError: %s\n", error.what());
        }
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::fprintf(stderr, "errors %d, %s\n", errors, seconds < 30 ? "soon" : "late");
    std::exit(0);
  }
};

TEST_F(device_faults, a_bad_address) {
  EXPECT_EXIT(run("fault"), testing::ExitedWithCode(0),
              "CUDA_ERROR_ILLEGAL_ADDRESS.*last checkpoint(.|\n)*errors 2, soon");
}
TEST_F(device_faults, a_trap) {
  EXPECT_EXIT(run("stop"), testing::ExitedWithCode(0), "last checkpoint(.|\n)*errors 2, soon");
}

}  // namespace
}  // namespace lockstep
