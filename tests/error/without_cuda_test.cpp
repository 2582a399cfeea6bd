// The CUDA target of a program that was built where CUDA's headers were not found.
#include <gtest/gtest.h>

#include "compiler/codegen/cuda/cuda_target.h"
#include "core/base/error.h"

namespace lockstep {
namespace {

TEST(WithoutCuda, SaysHowToGetIt) {
  std::string why;
  EXPECT_FALSE(compiler::cuda_available());
  EXPECT_FALSE(compiler::cuda_available(&why));
  EXPECT_EQ(why, "this program was built without CUDA (its headers were not found then)");
  EXPECT_EQ(compiler::cuda_devices(), 0);
  for (int ordinal : {0, 7}) {
    try {
      compiler::cuda_target(ordinal);
      ADD_FAILURE() << "no error";
    } catch (const UserError& error) {
      EXPECT_EQ(std::string(error.what()),
                "train.device cuda: this program was built without CUDA, because its headers were not found; "
                "install the CUDA toolkit, run "
                "scripts/build.sh again, or use train.device cpu");
    }
  }
}

}  // namespace
}  // namespace lockstep
