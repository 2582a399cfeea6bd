// Errors of NVRTC on their words.
#include "compiler/codegen/cuda/source/module.h"
#include "compiler/codegen/cuda/source/nvrtc.h"
#include "tests/support/own_process.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

std::string compile_nothing() { return compiler::cuda::compile_cubin("", "sm_90"); }

TEST(nvrtc_errors, none) {
  const std::vector<std::pair<std::string, std::string>> absent = {
      {"LOCKSTEP_NVRTC", "/no/such/libnvrtc.so"}};
  expect_words(in_own_process(absent, compile_nothing),
               {"UserError: no NVRTC, the compiler of CUDA kernels", "/no/such/libnvrtc.so",
                "LOCKSTEP_NVRTC names this file"});
  expect_words(in_own_process(absent,
                              [] {
                                std::string why;
                                const bool there = compiler::cuda::nvrtc_available(&why);
                                return str(there, " ", why);
                              }),
               {"0 no NVRTC"});
  expect_words(
      in_own_process(absent, [] { return str(compiler::cuda::cached_cubins({""}, "sm_90").compiled); }),
      {"UserError: no NVRTC"});
}

TEST(nvrtc_errors, a_library_that_is_not_nvrtc) {
  expect_words(in_own_process({{"LOCKSTEP_NVRTC", LOCKSTEP_FAKE_CUDA}}, compile_nothing),
               {"UserError: NVRTC lacks nvrtcVersion", "needs 11.2 or newer"});
}

class nvrtc_log : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!compiler::cuda::nvrtc_available(&why)) GTEST_SKIP() << why;
  }
};

TEST_F(nvrtc_log, shows_the_source_around_the_first_error) {
  std::string source;
  for (int i = 1; i <= 20; ++i)
    source += i == 12 ? "__global__ void broken(float* x) { x[0] = nowhere; }\n" : str("// line ", i, "\n");
  std::string text;
  try {
    compiler::cuda::compile_cubin(source, "sm_90");
  } catch (const UserError& error) { text = error.what(); }
  expect_words(text, {"cannot compile kernels for sm_90", "kernels.cu(12): error", "\"nowhere\"",
                      "\n  > 12: __global__ void broken", "\n    8: // line 8", "\n    16: // line 16",
                      compiler::cuda::nvrtc_version()});
  EXPECT_EQ(text.find("// line 7\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("// line 17\n"), std::string::npos) << text;
}

TEST_F(nvrtc_log, says_that_a_target_is_unknown) {
  std::string text;
  try {
    compiler::cuda::compile_cubin("__global__ void k() {}\n", "sm_999");
  } catch (const UserError& error) { text = error.what(); }
  expect_words(text, {"does not take its flags", "--gpu-architecture=sm_999", "newer than this toolkit"});
}

TEST_F(nvrtc_log, the_first_source_that_fails_is_the_error) {
  ScratchFolder folder;
  std::string text;
  try {
    compiler::cuda::cached_cubins({"__global__ void a() {}\n", "first wrong\n", "second wrong, and longer\n"},
                                  "sm_90", folder.path("k"), {}, 3);
  } catch (const UserError& error) { text = error.what(); }
  expect_words(text, {"> 1: first wrong"});
}

// Compiled beside what its maker goes on with, a source that does not compile is an error where it is asked
// for, and is compiled anew the next time.
TEST_F(nvrtc_log, a_source_that_fails_beside_its_maker_is_an_error_where_it_is_asked_for) {
  ScratchFolder folder;
  const std::string cache = folder.path("k");
  const auto failing = [cache](bool finishes) {
    const std::shared_ptr<cuda::CudaDevice> gpu = cuda::open_device(0);
    std::string out;
    for (int turn = 0; turn < 2; ++turn) try {
        const compiler::cuda::SourceKernel kernel(compiler::cuda::source_module(*gpu, "all wrong\n", cache),
                                                  "any");
        out += str("begun ", turn, ": ");
        if (finishes) compiler::cuda::finish_source_modules(*gpu);
        (void)static_cast<CUfunction>(kernel);
      } catch (const UserError& error) { out += error.what(); }
    if (finishes) compiler::cuda::finish_source_modules(*gpu);  // nothing was begun since
    return out;
  };
  const std::vector<std::pair<std::string, std::string>> fake = {{"LOCKSTEP_CUDA_DRIVER", LOCKSTEP_FAKE_CUDA},
                                                                 {"FAKE_CUDA", "major=9"}};
  for (const bool finishes : {false, true})
    expect_words(in_own_process(fake, [&] { return failing(finishes); }),
                 {"begun 0: NVRTC", "cannot compile kernels for sm_90", "> 1: all wrong", "begun 1: NVRTC"});
}

}  // namespace
}  // namespace lockstep
