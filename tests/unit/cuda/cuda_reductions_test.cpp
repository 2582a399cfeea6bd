// The kernels of the GPU's Reductions compile, for every kind of tree; their tables fit in a kernel's
// parameters.
#include <gtest/gtest.h>

#include "compiler/codegen/cuda/source/nvrtc.h"
#include "compiler/codegen/cuda/sums/reductions_source.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {
namespace {

TEST(CudaReductions, KernelsCompile) {
  std::string why;
  if (!nvrtc_available(&why)) GTEST_SKIP() << why;
  for (const char* target : {"sm_80", "sm_90"}) {
    EXPECT_GT(compile_cubin(common_source(), target).size(), 1000u);
    for (int lefts : {0, 1, 10}) EXPECT_GT(compile_cubin(accumulate_source(lefts), target).size(), 1000u);
    EXPECT_GT(compile_cubin(sum_source({0, 1, 1}, {false, true}), target).size(), 1000u);
  }
  for (const std::vector<int>& merges : std::vector<std::vector<int>>{{0}, {0, 1}, {0, 1, 0, 2, 0, 1, 0, 3}})
    for (const std::vector<bool>& halves :
         std::vector<std::vector<bool>>{{}, {true}, {false, true}, std::vector<bool>(merges.size(), true)}) {
      if (halves.size() > merges.size()) continue;
      EXPECT_GT(compile_cubin(sum_source(merges, halves), "sm_90").size(), 1000u);
    }
}

TEST(CudaReductions, TheTreeIsWrittenAsDocumented) {
  EXPECT_NE(sum_source({0, 1, 0, 2}).find("#define LS_TREE(c) ((x[0].c + x[1].c) + (x[2].c + x[3].c))\n"),
            std::string::npos);
  EXPECT_NE(sum_source({0, 1, 1}).find("#define LS_TREE(c) ((x[0].c + x[1].c) + x[2].c)\n"),
            std::string::npos);
  EXPECT_NE(sum_source({0, 0, 2}).find("#define LS_TREE(c) (x[0].c + (x[1].c + x[2].c))\n"),
            std::string::npos);
  for (const std::vector<int>& merges : std::vector<std::vector<int>>{{}, {0, 0}, {1, 0}, {0, 2}})
    EXPECT_THROW(sum_source(merges), InternalError);
}

}  // namespace
}  // namespace lockstep::compiler::cuda
