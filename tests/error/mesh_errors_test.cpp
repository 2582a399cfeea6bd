// Config and mesh that cannot work together: every reason at once, and the nearest mesh that works.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "launcher/config/feasible.h"

namespace lockstep {

using namespace launcher;

namespace {

using Words = std::vector<std::string>;

RunConfig config_on(Shape shape, std::vector<std::string> names) {
  RunConfig config;
  config.data.paths = {"a.txt"};
  config.mesh.shape = std::move(shape);
  config.mesh.dim_names = std::move(names);
  return config;
}
std::string refusal(const RunConfig& config, int64_t ranks) {
  try {
    validate(config, ranks);
  } catch (const UserError& error) { return error.what(); }
  return "accepted";
}

TEST(MeshErrors, ASizePerName) {
  EXPECT_NE(
      refusal(config_on({-1}, {"dp_replicate", "dp_shard"}), 4)
          .find(
              "mesh.shape has 1 sizes and mesh.dim_names has 2 names; give one size per name: -1 is what the "
              "others leave, as in [2,-1]"),
      std::string::npos);
}

TEST(MeshErrors, EveryReasonAtOnceAndTheNearestMeshThatWorks) {
  RunConfig config = config_on({2, 6, 2}, {"dp_replicate", "tp", "cp"});
  config.model.kind = "llama";
  config.model.set("heads", 8);
  config.model.set("kv_heads", 4);
  config.model.set("width", 128);
  config.model.set("hidden", 340);
  config.model.set("context", 100);
  EXPECT_EQ(refusal(config, 24),
            "on the mesh [dp_replicate=2, tp=6, cp=2]: 5 reasons\n"
            "  model.heads is 8, not a multiple of the mesh's tp size, 6; 6 and 12 are\n"
            "  model.kv_heads is 4, not a multiple of the mesh's tp size, 6; 6 is\n"
            "  model.hidden is 340, not a multiple of the mesh's tp size, 6; 336 and 342 are\n"
            "  model.context is 100, not a multiple of the mesh's tp size, 6; 96 and 102 are\n"
            "  mesh dim cp has size 2: this version splits no sequences over ranks; make it 1\n"
            "  the nearest mesh that works is [dp_replicate=6, tp=4, cp=1]: --mesh.shape=[6,4,1]");
  config.mesh.shape = {6, 4, 1};
  EXPECT_EQ(refusal(config, 24), "accepted");
}

TEST(MeshErrors, SizesThatAreNotKeys) {
  RunConfig gpt = config_on({1, 8}, {"dp_replicate", "tp"});
  gpt.model.set("heads", 8);
  gpt.model.set("width", 8);
  gpt.model.set("context", 12);
  EXPECT_EQ(mesh_errors(gpt, validate(config_on({1, 4}, {"dp_replicate", "tp"}), 4)), Words{});
  EXPECT_EQ(refusal(gpt, 8),
            "on the mesh [dp_replicate=1, tp=8]: model.context is 12, not a multiple of the mesh's tp size, "
            "8; 8 and 16 are; the "
            "nearest mesh that works is [dp_replicate=2, tp=4]: --mesh.shape=[2,4]");
  RunConfig llama = config_on({1, 128}, {"dp_replicate", "tp"});
  llama.model.kind = "llama";
  llama.model.set("heads", 128);
  llama.model.set("width", 128);
  llama.model.set("context", 128);
  EXPECT_EQ(mesh_errors(llama, {{1, 128}, {"dp_replicate", "tp"}}),
            Words{});  // 8/3 of 128, in steps of 64: 384
  llama.model.set("width", 256);
  EXPECT_EQ(mesh_errors(llama, {{1, 128}, {"dp_replicate", "tp"}}),
            Words{"model.hidden (chosen from model.width) is 704, not a multiple of the mesh's tp size, 128; "
                  "640 and 768 are"});
}

TEST(MeshErrors, ADataDimIsAddedWhereThereIsNone) {
  EXPECT_EQ(refusal(config_on({2}, {"pp"}), 2),
            "on the mesh [pp=2]: mesh dim pp has size 2: this version splits no layers over ranks; make it "
            "1; the nearest mesh that works is "
            "[dp_replicate=2, pp=1]: --mesh.shape=[2,1] --mesh.dim_names=[dp_replicate,pp]");
}

// What does not divide over data ranks only leaves ranks idle.
TEST(MeshErrors, DataDimsTakeAnySize) {
  RunConfig config = config_on({5, 7}, {"dp_replicate", "dp_shard"});
  config.batch.global = 6, config.batch.micro = 2;
  EXPECT_EQ(refusal(config, 35), "accepted");
  EXPECT_EQ(refusal(config_on({1, 1, 1}, {"dp_shard", "pp", "tp"}), 1), "accepted");
}

TEST(MeshErrors, NearestKeepsTheRanksAndIsNearest) {
  RunConfig config = config_on({16, 6, 8}, {"dp_replicate", "dp_shard", "tp"});
  config.model.set("heads", 12);
  config.model.set("width", 192);
  config.model.set("context", 96);
  auto nearest = nearest_working(config, {{16, 6, 8}, {"dp_replicate", "dp_shard", "tp"}});
  ASSERT_TRUE(nearest.has_value());
  EXPECT_EQ(nearest->shape, (Shape{16, 8, 6}));  // two dims by 4 / 3; tp 12 or 4 would move further
  EXPECT_EQ(mesh_errors(config, *nearest), Words{});
}

}  // namespace
}  // namespace lockstep
