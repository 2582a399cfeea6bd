// train.precision and train.float8 of a config, against each other, the device and the mesh, each on its
// words.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "launcher/config/config.h"

namespace lockstep::launcher {
namespace {

std::string with(const std::vector<std::string>& words) {
  try {
    parse_config(R"({"data": {"paths": ["a"]}})", "c.json", parse_overrides(words, {}));
    return "accepted";
  } catch (const UserError& error) { return error.what(); }
}

TEST(PrecisionConfigErrors, OfADevice) {
  EXPECT_EQ(with({"--train.precision=float16"}),
            "c.json: train.precision is \"float16\"; choose fp32 | tf32 | bf16 | fp16 | float8; did you mean "
            "fp16?");
  EXPECT_NE(with({"--train.precision=fp8_hybrid"}).find("; did you mean float8?"), std::string::npos);
  EXPECT_EQ(with({"--train.precision=tf32", "--train.device=cpu"}),
            "c.json: train.precision is \"tf32\", which the CPU does not have; choose fp32, which is more "
            "exact, or bf16, or run on a CUDA device");
}

TEST(PrecisionConfigErrors, KeysOfFloat8) {
  EXPECT_EQ(with({"--train.float8.head=true", "--train.precision=bf16"}),
            "c.json: train.float8.head is true, but train.precision is \"bf16\"; leave it out, or choose "
            "train.precision=float8");
  EXPECT_EQ(with({"--train.float8.recipe=rowwise"}),
            "c.json: train.float8.recipe is \"rowwise\", but train.precision is \"fp32\"; leave it out, or "
            "choose train.precision=float8");
  EXPECT_EQ(
      with({"--train.precision=float8", "--train.float8.recipe=row_wise"}),
      "c.json: train.float8.recipe is \"row_wise\"; choose tensorwise | rowwise | delayed; did you mean "
      "rowwise?");
  EXPECT_EQ(
      with({"--train.precision=float8", "--train.float8.history=4"}),
      "c.json: train.float8.history is 4, but train.float8.recipe is \"tensorwise\", whose scales have no "
      "history; leave it out, or choose train.float8.recipe=delayed");
  EXPECT_EQ(with({"--train.float8.history=4", "--train.precision=bf16"}),
            "c.json: train.float8.history is 4, but train.precision is \"bf16\"; leave it out, or choose "
            "train.precision=float8");
  EXPECT_EQ(with({"--train.precision=float8", "--mesh.shape=[2,2]", "--mesh.dim_names=[dp_shard,tp]"}),
            "c.json: train.precision is \"float8\" and mesh.shape gives tp 2: a weight that tp splits has no "
            "scale yet; give these ranks to dp_shard, or choose train.precision=bf16");
}

}  // namespace
}  // namespace lockstep::launcher
