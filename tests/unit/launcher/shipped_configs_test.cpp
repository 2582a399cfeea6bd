// Every config in configs/ parses, and the parameters and bytes that configs/README.md states are those of
// its model, on 1 and on 4 ranks.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/models/family.h"
#include "core/optim/adamw.h"
#include "launcher/config/config.h"
#include "launcher/memory/needs.h"
#include "launcher/trainer/options.h"

namespace lockstep {

using namespace launcher;

namespace {

const std::filesystem::path kFolder = LOCKSTEP_CONFIGS;

// Parameters, and bytes of state (weights and moments, fp32) of the fullest of `nproc` ranks. Nothing is
// allocated.
struct Sizes {
  int64_t parameters = 0, state = 0;
};
Sizes sizes(const RunConfig& config, int64_t nproc) {
  LiveMesh mesh = solo_mesh();
  mesh.words = validate(config, nproc);
  State state(mesh, 1);
  models::Model model = models::build(state.root(), config.model.kind, model_options(config));
  AdamW adamw(state / "optim", {.lr = config.optim.lr});
  state.place_by_default(model.placements);
  set_precision(state, config);
  Sizes out;
  for (const auto& spec : state.specs())
    if (spec.role == Role::parameter) out.parameters += numel(spec.shape);
  out.state = state.bytes_per_rank();
  return out;
}

std::string readme() {
  std::ifstream file(kFolder / "README.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ShippedConfigs, ParseAndAreNamedAsTheirFiles) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".json") continue;
    RunConfig config = load_config(entry.path().string());
    EXPECT_EQ(config.name + ".json", entry.path().filename());
    EXPECT_NE(readme().find(str("`", config.name, ".json`")), std::string::npos)
        << config.name << " is not in configs/README.md";
    ++found;
  }
  EXPECT_GE(found, 7);
}

TEST(ShippedConfigs, SizesAreAsStated) {
  struct Row {
    const char* model;
    int64_t parameters, global, micro;
  };
  for (const Row& row : {Row{"gpt2_124m", 124475904, 64, 64}, Row{"gpt2_1558m", 1557686400, 16, 16},
                         Row{"llama_1b5", 1489602560, 16, 16}})
    for (int64_t ranks : {1, 4}) {
      std::string name = str(row.model, ranks == 1 ? "" : "_4gpu");
      SCOPED_TRACE(name);
      RunConfig config = load_config((kFolder / (name + ".json")).string());
      EXPECT_EQ(config.train.device, "cuda");
      EXPECT_EQ(config.train.precision, "bf16");
      EXPECT_EQ(config.model.integer("vocab"), 50304);
      EXPECT_EQ(config.model.integer("context"), 1024);
      EXPECT_EQ(config.batch.global, ranks * row.global);  // the same work for each rank
      EXPECT_EQ(config.batch.micro, row.micro);
      EXPECT_EQ(micro_batches(config), ranks);
      Sizes here = sizes(config, ranks);
      EXPECT_EQ(here.parameters, row.parameters);
      // In bf16 all are split by rows, which 4 divides in every tensor.
      EXPECT_EQ(here.state, 3 * row.parameters * 4 / ranks);
      std::string stated = str("| `", name, ".json` | ", row.parameters, " | ", config.batch.global, " | ",
                               config.batch.micro, " | ", here.state, " |");
      EXPECT_NE(readme().find(stated), std::string::npos) << "missing in configs/README.md: " << stated;
    }
}

// What differs between the config of 1 rank and that of 4 is the name, the batch and the sequences of a
// validation: nothing else.
TEST(ShippedConfigs, FourRanksDifferInTheBatchAlone) {
  for (const char* model : {"gpt2_124m", "gpt2_1558m", "llama_1b5"}) {
    RunConfig one = load_config((kFolder / str(model, ".json")).string()),
              four = load_config((kFolder / str(model, "_4gpu.json")).string());
    EXPECT_EQ(one.batch.global * one.train.eval_batches, four.batch.global * four.train.eval_batches);
    std::vector<std::string> different;
    for (const auto& key : config_keys())
      if (get_key(one, key) != get_key(four, key)) different.push_back(key.path);
    EXPECT_EQ(different, (std::vector<std::string>{"name", "batch.global", "train.eval_batches"})) << model;
  }
}

}  // namespace
}  // namespace lockstep
