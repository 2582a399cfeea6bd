// CUDA kernels compiled to machine code, and their cache. Needs NVRTC, no GPU.
#include "compiler/codegen/cuda/source/nvrtc.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/base/text.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

std::string add_kernel(int number) {
  return str("extern \"C\" __global__ void add_", number,
             "(float* x, int n) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) x[i] += ",
             number, ".0f;\n}\n");
}
bool is_machine_code(const std::string& code) {
  return code.substr(0, 4) ==
         "\x7f"
         "ELF";
}
size_t files_in(const std::string& folder) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    count += entry.path().extension() == ".kernels";  // beside its key
  return count;
}

class nvrtc : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!compiler::cuda::nvrtc_available(&why)) GTEST_SKIP() << why;
  }
  ScratchFolder folder_;
};

TEST_F(nvrtc, compiles_for_several_targets) {
  for (const char* target : {"sm_80", "sm_90", "sm_90a"}) {
    const std::string code = compiler::cuda::compile_cubin(add_kernel(1), target);
    EXPECT_TRUE(is_machine_code(code)) << target;
    EXPECT_NE(code.find("add_1"), std::string::npos);
    EXPECT_EQ(code, compiler::cuda::compile_cubin(add_kernel(1), target))
        << "the same source gives other bytes";
  }
}

TEST_F(nvrtc, takes_extra_flags) {
  const std::string source = "extern \"C\" __global__ void k(int* x) { x[0] = NUMBER; }\n";
  EXPECT_TRUE(is_machine_code(compiler::cuda::compile_cubin(source, "sm_90", {"-DNUMBER=3"})));
}

TEST_F(nvrtc, the_cache_hits_the_second_time) {
  const std::string dir = folder_.path("kernels");
  std::vector<std::string> sources = {add_kernel(1), add_kernel(2), add_kernel(3)};
  const auto cold = compiler::cuda::cached_cubins(sources, "sm_90", dir);
  EXPECT_EQ(cold.compiled, 3);
  ASSERT_EQ(cold.code.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_NE(cold.code[i].find(str("add_", i + 1)), std::string::npos);
  const auto warm = compiler::cuda::cached_cubins(sources, "sm_90", dir, {}, 1);
  EXPECT_EQ(warm.compiled, 0);
  EXPECT_EQ(warm.code, cold.code);
  sources.push_back(add_kernel(4));
  EXPECT_EQ(compiler::cuda::cached_cubins(sources, "sm_90", dir).compiled, 1);
  EXPECT_EQ(compiler::cuda::cached_cubins(sources, "sm_80", dir).compiled, 4)
      << "another target is another key";
  EXPECT_EQ(compiler::cuda::cached_cubins(sources, "sm_90", dir, {"-DX"}).compiled, 4)
      << "another flag is another key";
  EXPECT_EQ(files_in(dir), 12u);
  EXPECT_EQ(compiler::cuda::cached_cubins({}, "sm_90", dir).code.size(), 0u);
}

TEST_F(nvrtc, a_damaged_file_is_compiled_again) {
  const std::string dir = folder_.path("kernels");
  const auto cold = compiler::cuda::cached_cubins({add_kernel(5)}, "sm_90", dir);
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().filename() == "key") continue;  // one of another size is somebody else's
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('\x55');
  }
  const auto again = compiler::cuda::cached_cubins({add_kernel(5)}, "sm_90", dir);
  EXPECT_EQ(again.compiled, 1);
  EXPECT_EQ(again.code, cold.code);
  EXPECT_EQ(compiler::cuda::cached_cubins({add_kernel(5)}, "sm_90", dir).compiled, 0);
}

TEST_F(nvrtc, many_callers_share_one_folder) {
  const std::string dir = folder_.path("kernels");
  const std::vector<std::string> sources = {add_kernel(6), add_kernel(7)};
  std::vector<compiler::cuda::Cubins> made(3);
  std::vector<std::thread> threads;
  for (auto& one : made)
    threads.emplace_back([&] { one = compiler::cuda::cached_cubins(sources, "sm_90", dir, {}, 2); });
  for (auto& thread : threads) thread.join();
  for (const auto& one : made) EXPECT_EQ(one.code, made[0].code);
  EXPECT_EQ(files_in(dir), 2u);
}

TEST_F(nvrtc, works_without_a_folder_to_write_to) {
  const std::string file = folder_.write("file", std::string("not a folder"));
  EXPECT_TRUE(
      is_machine_code(compiler::cuda::cached_cubins({add_kernel(8)}, "sm_90", file + "/kernels").code[0]));
}

}  // namespace
}  // namespace lockstep
