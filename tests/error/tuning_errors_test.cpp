// What is refused of frozen weights, adapters, products in float8 and groups, on its words.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/models/families.h"
#include "core/nn/layers.h"
#include "launcher/trainer/model.h"
#include "launcher/trainer/trainer.h"
#include "tests/support/nn_fixture.h"

namespace lockstep {
namespace {

using launcher::RunConfig;

template <class Act>
std::string refusal(Act act) {
  try {
    act();
  } catch (const UserError& error) { return error.what(); }
  return "accepted";
}

// The message for a small model with these keys.
std::string with(const Json& train, const Json& optim = Json::object()) {
  const Json config = {
      {"model", {{"depth", 2}, {"width", 16}, {"heads", 2}}}, {"train", train}, {"optim", optim}};
  return refusal([&] {
    const RunConfig read =
        launcher::parse_config(config.dump(), "c.json", {}, launcher::DataPaths::may_be_empty);
    State state(solo_mesh(), 1);
    const launcher::Trainer trainer(read, 1, state);
  });
}
const std::string kLayers =
    "blocks.*.attn.qkv.weight, blocks.*.attn.out.weight, blocks.*.mlp.up.weight, blocks.*.mlp.down.weight";

TEST(TuningErrors, Freezing) {
  EXPECT_EQ(with({{"freeze", {"blocks.*", "tokn"}}})
                .find("train.freeze names \"blocks.*\", which matches no weight "
                      "that is trained; there are: token.weight, position.weight, "),
            0u);
  EXPECT_EQ(with({{"freeze", {"**"}}}),
            "train.freeze: all 28 weights are frozen, and nothing is left to train");
  State state(solo_mesh(), 1);
  const Linear layer(state / "a", 2, 3);
  state.materialize();
  EXPECT_NE(refusal([&] {
              state.freeze({"a"});
            }).find("the state is already materialised; freeze weights before materialize() or resume()"),
            std::string::npos);
}

TEST(TuningErrors, Adapters) {
  EXPECT_EQ(with({{"lora", {{"rank", 2}, {"targets", {"blocks.*.attn.q"}}}}}),
            "train.lora: targets names \"blocks.*.attn.q\", which matches no weight of a linear layer; there "
            "are: " +
                kLayers);
  EXPECT_EQ(
      with({{"lora", {{"rank", 2}, {"targets", {"token.weight"}}}}}),
      "train.lora: targets names \"token.weight\", which matches no weight of a linear layer; there are: " +
          kLayers);
  EXPECT_EQ(
      with({{"lora", {{"rank", 2}, {"also", {"nrm"}}}}})
          .find("train.lora: also names \"nrm\", which matches no weight that is trained; there are: token"),
      0u);
  EXPECT_EQ(with({{"lora", {{"rank", 2}, {"also", {"**.up"}}}}}),
            "train.lora: \"blocks.0.mlp.up.weight\" is among the targets and among also; a weight with an "
            "adapter is not trained itself");
  const std::string both = with({{"freeze", {"token"}}, {"lora", {{"rank", 2}}}});
  EXPECT_NE(
      both.find("train.freeze and train.lora are both given, and train.lora freezes all but its adapters; "
                "leave train.freeze out, or name in train.lora.also what is trained beside them"),
      std::string::npos)
      << both;
  const std::string none = with({{"lora", {{"targets", {"**"}}}}});
  EXPECT_NE(
      none.find(
          "train.lora.targets is [\"**\"], but train.lora.rank is 0: there are no adapters; leave it out, "
          "or choose a rank, as in train.lora.rank=8"),
      std::string::npos)
      << none;
}

TEST(TuningErrors, AdaptersOfAProgram) {
  State state(solo_mesh(), 1);
  const Embedding table(state / "table", 4, 2);
  EXPECT_NE(refusal([&] { state.lora({}); }).find("the model has no weights that can have adapters"),
            std::string::npos);
  const Linear layer(state / "a", 2, 3);
  EXPECT_NE(refusal([&] { state.lora({.rank = 0}); }).find("rank is 0; it must be at least 1"),
            std::string::npos);
  EXPECT_NE(refusal([&] { state.lora({.alpha = 0}); }).find("alpha is 0; it must be above 0"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              state.lora({.dropout = 1});
            }).find("dropout is 1; it must be at least 0 and less than 1"),
            std::string::npos);
  state.lora({.rank = 1});
  EXPECT_NE(refusal([&] { state.lora({}); }).find("\"a.weight\" has an adapter already"), std::string::npos);
  state.materialize();
  EXPECT_NE(refusal([&] { state.lora({}); }).find("[lora] tuning_errors_test.cpp:"), std::string::npos);
  State other(solo_mesh(), 1);
  const Linear late(other / "a", 2, 3);
  other.materialize();
  EXPECT_NE(refusal([&] {
              other.lora({});
            }).find("the state is already materialised; add adapters before materialize() or resume()"),
            std::string::npos);
}

TEST(TuningErrors, Float8) {
  auto float8 = [](const Json& keys) { return with({{"precision", "float8"}, {"float8", keys}}); };
  EXPECT_EQ(float8(Json::object()), "accepted");
  EXPECT_EQ(float8({{"skip", {"blocks.*.attn.q"}}}),
            "train.float8: skip names \"blocks.*.attn.q\", which matches no weight that float8 multiplies; "
            "there are: " +
                kLayers);
  EXPECT_EQ(float8({{"skip", {"token"}}})
                .find("train.float8: skip names \"token\", which matches no weight that float8 multiplies"),
            0u)
      << "a head takes no part by itself";
  EXPECT_EQ(float8({{"skip", {"token"}}, {"head", true}}), "accepted");
  EXPECT_EQ(float8({{"skip", {"**"}}}),
            "train.float8: no linear layer is left to multiply in float8: all 8 are skipped; skip fewer, or "
            "compute in bf16");
}

TEST(TuningErrors, Float8OfAProgram) {
  State state(solo_mesh(), 1);
  const Linear odd(state / "odd", 16, 24), layer(state / "a", 16, 32);
  const int line = __LINE__ + 1;
  const std::string early = refusal([&] { state.float8(); });
  EXPECT_EQ(early, str("[float8] tuning_errors_test.cpp:", line,
                       ": layers compute in f32, and float8 products need bf16 layers; call "
                       "compute_dtype(DType::bf16) first"));
  state.compute_dtype(DType::f16);
  EXPECT_NE(
      refusal([&] { state.float8(); }).find("layers compute in f16, and float8 products need bf16 layers"),
      std::string::npos);
  state.compute_dtype(DType::bf16);
  EXPECT_NE(refusal([&] {
              state.float8({.gradients = DType::f16});
            }).find("gradients are f16; choose f8_e5m2 or f8_e4m3"),
            std::string::npos);
  EXPECT_NE(
      refusal([&] {
        state.float8({.skip = {"odd"}});
      }).find("skip names \"odd\", which matches no weight that float8 multiplies; there are: a.weight"),
      std::string::npos);
  EXPECT_NE(refusal([&] {
              state.float8({.skip = {"a"}});
            }).find("no linear layer is left to multiply in float8: all 1 are skipped"),
            std::string::npos);
  State ragged(solo_mesh(), 1), heads(solo_mesh(), 1);
  const Linear small(ragged / "up", 16, 24), decoder(heads / "decoder", 16, 32);
  ragged.compute_dtype(DType::bf16), heads.compute_dtype(DType::bf16);
  EXPECT_NE(
      refusal([&] { ragged.float8(); })
          .find("no linear layer is left to multiply in float8: the sizes of a weight must be multiples of "
                "16, and up.weight is [24,16]; choose such sizes, or compute in bf16"),
      std::string::npos);
  EXPECT_NE(refusal([&] {
              heads.float8();
            }).find("the model has none but heads and embeddings; set head, or compute in bf16"),
            std::string::npos);
  const int word = __LINE__ + 1;
  const std::string unknown = refusal([] { parse_float8_recipe("blockwise"); });
  EXPECT_EQ(unknown, str("[float8] tuning_errors_test.cpp:", word,
                         ": recipe is \"blockwise\"; choose tensorwise | rowwise | delayed"));
  const int steps = __LINE__ + 1;
  const std::string none = refusal([&] { state.float8({.recipe = Float8Recipe::delayed, .history = 0}); });
  EXPECT_EQ(none, str("[float8] tuning_errors_test.cpp:", steps,
                      ": history is 0; it must be between 1 and 65536 steps"));
  EXPECT_FALSE(state.float8_products());
  state.float8();
  EXPECT_TRUE(state.float8_products());
  State split(testing::mesh_of({2}, {"tp"}), 1);
  const Linear part(split / "a", 16, 32);
  split.compute_dtype(DType::bf16);
  EXPECT_NE(
      refusal([&] { split.float8(); })
          .find("the mesh has tp 2, and a weight that tp splits has no scale yet; use dp_shard instead, "
                "or train in bf16"),
      std::string::npos);
}

TEST(TuningErrors, Groups) {
  auto groups = [](const Json& rows, const char* kind = "adamw") {
    return with(Json::object(), {{"kind", kind}, {"groups", rows}});
  };
  EXPECT_EQ(groups({{{"params", "bias"}, {"lr", 1}}}),
            "optim.groups names \"bias\", which matches no weight that is trained; trainrun plan lists the "
            "weights");
  EXPECT_EQ(groups({{{"params", "**"}, {"lr", 1}}, {{"params", "token"}, {"lr", 2}}}),
            "optim.groups names \"token\", which matches no weight that no row above it names; trainrun plan "
            "lists the "
            "weights");
  EXPECT_NE(groups({{{"params", "**"}, {"rate", 1}}}).find("{params, lr, weight_decay} row"),
            std::string::npos);
  EXPECT_NE(groups({{{"params", "**"}, {"lr", 1}}}, "muon").find("but it belongs to optim.kind adamw or sgd"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
