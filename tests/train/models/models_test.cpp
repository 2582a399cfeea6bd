// Every family with its own task: equal losses and state as strings on any number of ranks.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/models/families.h"
#include "tests/support/model_run.h"

namespace lockstep {
namespace {

using tests::ModelResult, tests::ModelRun, tests::train_model;

struct Tiny {
  std::string kind;
  Json options;
  bool tp = false;  // has heads that two ranks share
};
void PrintTo(const Tiny& row, std::ostream* out) { *out << row.kind; }
std::vector<Tiny> tiny() {
  const Json decoder = {{"vocab", 17}, {"context", 8}, {"width", 16}, {"depth", 1}, {"heads", 2}};
  auto with = [](Json options, const Json& more) {
    options.update(more);
    return options;
  };
  const Json hidden = with(decoder, {{"hidden", 20}}), image = {{"channels", 2}, {"size", 8}, {"classes", 7}};
  return {
      {"gpt", decoder, true},
      {"llama", hidden, true},
      {"qwen", hidden, true},
      {"gemma", with(hidden, {{"head_dim", 4}, {"kv_heads", 1}, {"logit_softcap", 20}})},
      {"mistral", with(hidden, {{"window", 3}}), true},
      {"bert", decoder, true},
      {"bert_classifier", with(decoder, {{"classes", 7}}), true},
      {"t5", with(hidden, {{"source_context", 6}, {"buckets", 8}, {"max_distance", 6}}), true},
      {"lstm", {{"vocab", 17}, {"context", 4}, {"width", 8}, {"hidden", 6}}},
      {"vit", with(image, {{"patch", 4}, {"width", 16}, {"depth", 1}, {"heads", 2}}), true},
      {"resnet", with(image, {{"layers", 10}, {"width", 4}, {"size", 16}})},
      {"convnext", with(image, {{"depths", {1, 1}}, {"widths", {8, 16}}, {"patch", 2}})},
      {"unet", with(image, {{"width", 4}, {"depth", 1}})},
      {"mixer", with(image, {{"width", 16}, {"depth", 1}})},
      {"dlrm", {{"dense", 5}, {"rows", {7, 3, 11}}, {"width", 4}, {"bottom", {6}}, {"top", {8}}}},
      {"vae", {{"channels", 1}, {"size", 4}, {"hidden", 12}, {"latent", 3}}},
      {"dcgan", {{"channels", 1}, {"size", 16}, {"latent", 5}, {"width", 4}}},
  };
}

class Families : public testing::TestWithParam<Tiny> {};
INSTANTIATE_TEST_SUITE_P(All, Families, testing::ValuesIn(tiny()),
                         [](const auto& given) { return given.param.kind; });

TEST_P(Families, OneSetOfBitsOnEveryMesh) {
  for (DType compute : {DType::f32, DType::bf16}) {
    const ModelRun run{.kind = GetParam().kind, .options = GetParam().options, .compute = compute};
    const ModelResult alone = train_model(run);
    EXPECT_NE(alone.losses.front(), alone.losses.back());
    const Mesh meshes[] = {{{2}, {"dp_replicate"}}, {{3}, {"dp_replicate"}}, {{2}, {"dp_shard"}}};
    for (const Mesh& mesh : meshes) {
      if (compute == DType::bf16 && mesh.dim_names[0] != "dp_shard") continue;
      ModelRun many = run;
      many.mesh = mesh;
      const ModelResult result = train_model(many);
      SCOPED_TRACE(str(mesh.dim_names[0], " ", mesh.shape[0], ", ", name(compute)));
      EXPECT_EQ(alone.losses, result.losses);
      EXPECT_EQ(alone.hash, result.hash);
    }
  }
}

// Each layer of a matrix has an adapter, reads it, and trains nothing else.
TEST_P(Families, AdaptersOfEveryLayerAreTrained) {
  ModelRun run{.kind = GetParam().kind,
               .options = GetParam().options,
               .formula = true,
               .lora = LoraOptions{.rank = 2}};
  if (run.kind == "unet" || run.kind == "dcgan") {  // of convolutions alone
    EXPECT_THROW(train_model(run), UserError);
    return;
  }
  const ModelResult alone = train_model(run);
  size_t adapters = 0, norms = 0;
  for (const auto& [fqn, shape] : alone.state) adapters += fqn.find(".lora_") != std::string::npos;
  for (const auto& [name, norm] : alone.metrics) {
    if (!name.starts_with("norm.")) continue;
    ++norms;
    EXPECT_NE(name.find(".lora_"), std::string::npos) << name;
    EXPECT_GT(norm, 0) << name;
  }
  EXPECT_GT(adapters, 0u);
  EXPECT_EQ(norms, adapters);
  run.formula = false;  // it is written by whole tensors
  const std::string hash = train_model(run).hash;
  run.mesh = {{2}, {"dp_shard"}};
  EXPECT_EQ(train_model(run).hash, hash);
}

// Of the same draws each hidden token lies where it may be told, or where it may not.
TEST(Models, NothingIsToldWhereTheMaskOfSpecialTokensIs) {
  for (const bool evaluation : {false, true}) {
    auto told = [&](auto mask) {
      ModelRun run{.kind = "bert", .options = {{"vocab", 17}, {"context", 16}, {"width", 16}, {"heads", 2}}};
      run.steps = 1, run.evaluation = evaluation;
      run.fields = {{"special_tokens_mask", DType::i32, {16}, 2, true}};
      run.objectives = [&](const models::Model& model, const tasks::Batch& batch) {
        const std::vector<models::Field> fields = {model.inputs[0], run.fields[0]};
        const std::vector<Tensor> values = {batch["ids"], mask(batch["special_tokens_mask"])};
        return tasks::task("masked_lm").objectives(model, tasks::Batch(fields, values), Json::object());
      };
      return train_model(run).metrics.at("tokens");
    };
    const double all = told([](const Tensor& mask) { return mask * 0; }),
                 some = told([](const Tensor& mask) { return mask; }),
                 others = told([](const Tensor& mask) { return 1 - mask; });
    EXPECT_GT(some, 0) << evaluation;
    EXPECT_GT(others, 0) << evaluation;
    EXPECT_EQ(some + others, all) << evaluation;
  }
}

TEST(Models, ImagesOfAnotherSizeAreRefused) {
  State state(solo_mesh(), 1);
  const auto model = models::build(state.root(), "mixer", {{"channels", 2}, {"size", 8}});
  auto builder = std::make_shared<Builder>();
  Tensor x(builder, builder->graph.add_input(InputKind::batch, "images", DType::f32, {3, 2, 8, 6}));
  try {
    model.forward({x});
    ADD_FAILURE() << "accepted";
  } catch (const UserError& e) {
    EXPECT_NE(
        std::string(e.what()).find("the images are f32[3,2,8,6]; they must be floats [images, 2, 8, 8]"),
        std::string::npos)
        << e.what();
  }
}

std::vector<Tiny> with_heads() {
  std::vector<Tiny> out = tiny();
  std::erase_if(out, [](const Tiny& row) { return !row.tp; });
  return out;
}
class Split : public testing::TestWithParam<Tiny> {};
INSTANTIATE_TEST_SUITE_P(All, Split, testing::ValuesIn(with_heads()),
                         [](const auto& given) { return given.param.kind; });

// A product's sums are in other pieces, so losses agree to rounding.
TEST_P(Split, TensorParallelAgrees) {
  ModelRun run{.kind = GetParam().kind, .options = GetParam().options, .steps = 2};
  const ModelResult alone = train_model(run);
  run.mesh = {{2}, {"tp"}};
  const ModelResult split = train_model(run);
  for (size_t i = 0; i < alone.losses.size(); ++i)
    EXPECT_NEAR(std::stod(alone.losses[i]), std::stod(split.losses[i]), 1e-4) << "step " << i + 1;
}

TEST(Models, EveryFamilyIsTried) {
  std::vector<std::string> tried;
  for (const Tiny& row : tiny()) tried.push_back(row.kind);
  EXPECT_EQ(tried, models::family_names());
}

TEST(Models, OptionsThatDoNotFitAreRefusedInTheWordsOfKeys) {
  const struct {
    std::string kind;
    Json options;
    std::string words;
  } cases[] = {
      {"qwen", {{"width", 130}}, "model.width is 130, not a multiple of model.heads, 4; 128 and 132 are"},
      {"gemma", {{"heads", 4}, {"kv_heads", 3}}, "model.heads is 4, not a multiple of model.kv_heads, 3"},
      {"mistral", {{"head_dim", 5}}, "model.head_dim is 5, odd; rotary embedding turns pairs"},
      {"bert", {{"width", 130}}, "model.width is 130, not a multiple of model.heads, 4; 128 and 132 are"},
      {"t5", {{"buckets", 7}}, "model.buckets is 7, not a multiple of two sides of a token, 2; 6 and 8 are"},
      {"t5", {{"max_distance", 9}}, "model.max_distance is 9, with 32 model.buckets it must be above 16"},
      {"vit", {{"size", 30}}, "model.size is 30, not a multiple of model.patch, 4; 28 and 32 are"},
      {"mixer", {{"size", 30}}, "model.size is 30, not a multiple of model.patch, 4; 28 and 32 are"},
      {"resnet", {{"layers", 20}}, "model.layers is 20; choose 10, 18, 34, 50, 101 or 152"},
      {"convnext", {{"depths", {3, 3}}}, "model.depths has 2 stages, model.widths has 4; give both one"},
      {"convnext",
       {{"size", 16}},
       "model.size is 16, less than a pixel after 4 stages; it must be at least 32"},
      {"unet",
       {{"size", 40}},
       "model.size is 40, not a multiple of what 4 halvings (model.depth) need, 16; 32"},
      {"dlrm", {{"rows", Json::array()}}, "model.rows is empty; give the categories of at least one table"},
      {"dcgan", {{"size", 48}}, "model.size is 48, not a power of 2 from 8 on; 32 and 64 are"},
      {"vit", {{"patch", 0}}, "model.patch is 0; it must be at least 1 and at most 65536"},
      {"dlrm", {{"rows", {5, 0}}}, "model.rows is 0; it must be at least 1 and at most 2147483647"},
      {"lstm", {{"hiden", 3}}, "model lstm has no option hiden; did you mean hidden?"},
  };
  for (const auto& given : cases) {
    State state(solo_mesh(), 1);
    try {
      models::build(state.root(), given.kind, given.options);
      ADD_FAILURE() << given.kind << " " << given.options.dump() << " is accepted";
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(given.words), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace lockstep
