// Every refusal of core/nn and core/optim, on its words: the thing, both values, the line, the way out.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "core/base/error.h"
#include "core/nn/metric.h"
#include "core/optim/adamw.h"
#include "core/optim/clip.h"
#include "core/optim/sgd.h"
#include "tests/support/nn_fixture.h"

using namespace lockstep;
using lockstep::testing::mesh_of;
using lockstep::testing::Tracing;

namespace {
// The message of the UserError that `what` throws; a failure when it throws none.
std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const UserError& e) { return e.what(); }
  ADD_FAILURE() << "no UserError";
  return "";
}
void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const auto& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << "no \"" << word << "\" in: " << message;
}
std::string here(int line) { return str("nn_errors_test.cpp:", line); }

struct Small {
  State state{mesh_of({2}, {"tp"}), 1};
  models::Gpt gpt{state.root(), {.vocab = 16, .context = 8, .width = 12, .depth = 1, .heads = 2}};
};
}  // namespace

TEST(StateErrors, NamesOnce) {
  State state(solo_mesh(), 1);
  int first = __LINE__ + 1;
  Linear a(state / "head", 4, 3);
  int second = __LINE__ + 1;
  expect_words(refusal([&] { Linear b(state / "head", 4, 5); }),
               {"\"head.weight\" is recorded twice", "f32[3,4] at " + here(first),
                "f32[5,4] at " + here(second), "give one of the two another path"});
}

TEST(StateErrors, Paths) {
  State state(solo_mesh(), 1);
  for (const char* part : {"", "a.b", "a b", "*", "{x}"})
    expect_words(refusal([&] { state / "blocks" / part; }),
                 {str("\"", part, "\" under \"blocks\""), "letters, digits, _ and -"});
}

// What a file of tensors cannot hold under its name is refused where it is made, not at the first save.
TEST(StateErrors, NamesThatNoFileHolds) {
  State state(solo_mesh(), 1);
  const Init init = init::ones();
  const int line = __LINE__ + 1;
  expect_words(refusal([&] { state.root().parameter("__metadata__", {2}, init); }),
               {"state \"__metadata__\" at " + here(line),
                "has the name that safetensors files keep for themselves; give it another one"});
  (state / "a").parameter("__metadata__", {2}, init);  // below a path it is another name
  for (const char* fqn : {"", ".", "a.", ".a", "a..b", "a/b", "a b", "a\"b", "a\nb", "\xff", "é"}) {
    Spec spec{fqn, DType::f32, {2}, init, Role::parameter, true, "", {"x.cpp", 7, ""}};
    expect_words(refusal([&] { state.record(spec); }),
                 {"\" at x.cpp:7 is no path: parts of letters, digits, _ and -, with points between them"});
  }
}

TEST(StateErrors, Sizes) {
  State state(solo_mesh(), 1);
  int line = __LINE__ + 1;
  expect_words(refusal([&] { Linear(state / "head", 0, 3); }),
               {"\"head.weight\" at " + here(line), "f32[3,0] has a size of 0", "at least 1"});
}

TEST(StateErrors, OrderOfThings) {
  Small small;
  small.state.materialize();
  int line = __LINE__ + 1;
  expect_words(refusal([&] { Linear(small.state / "late", 4, 3); }),
               {"\"late.weight\" at " + here(line), "already materialised", "before materialize()"});
  line = __LINE__ + 1;
  expect_words(refusal([&] { small.state.place({{"tp", "**", Replicate()}}); }),
               {"[place] " + here(line), "already materialised", "before materialize()"});
}

TEST(StateErrors, UnknownNames) {
  Small small;
  expect_words(
      refusal([&] { small.state.layout("blocks.0.attn.qvk.weight"); }),
      {"no tensor \"blocks.0.attn.qvk.weight\" among its 16", "did you mean \"blocks.0.attn.qkv.weight\"?"});
  small.state.materialize();
  expect_words(refusal([&] { small.state.array("tokn.weight"); }),
               {"no tensor \"tokn.weight\"", "did you mean \"token.weight\"?"});
}

TEST(PlaceErrors, RulesThatMatchNothing) {
  Small small;
  int line = __LINE__ + 1;
  auto message = refusal([&] { small.state.place({{"tp", "blocks.*.atn.qkv.weight", Shard(0, 3)}}); });
  expect_words(message, {"{\"tp\", \"blocks.*.atn.qkv.weight\", Shard(0,groups=3)} at " + here(line),
                         "no tensor has a name like", "nearest: \"blocks.0.attn.qkv.weight\""});
  // Also for a mesh dim that this mesh lacks: a typing error shows on any mesh.
  expect_words(refusal([&] { small.state.place({{"dp_shard", "x", Shard(0)}}); }),
               {"no tensor has a name like \"x\"", "nearest: \"token.weight\""});
  State empty(solo_mesh(), 1);
  expect_words(refusal([&] { empty.place({{"tp", "**", Shard(0)}}); }),
               {"the state is empty", "construct the model first"});
}

TEST(PlaceErrors, TwoRulesForOneTensor) {
  Small small;
  int line = __LINE__ + 2;
  auto message = refusal(
      [&] { small.state.place({{"tp", "blocks.*.mlp.up.*", Shard(0)}, {"tp", "**.weight", Replicate()}}); });
  expect_words(message, {"\"blocks.0.mlp.up.weight\" has two rules on tp",
                         "{\"tp\", \"blocks.*.mlp.up.*\", Shard(0)} at " + here(line),
                         "{\"tp\", \"**.weight\", Replicate} at " + here(line), "keep one"});
  EXPECT_EQ(small.state.layout("blocks.0.mlp.up.weight"), Layout{});  // a refused call leaves nothing behind
  // In two calls as well.
  small.state.place({{"tp", "token.weight", Shard(1)}});
  expect_words(refusal([&] { small.state.place({{"tp", "token.*", Shard(0)}}); }),
               {"\"token.weight\" has two rules on tp"});
  EXPECT_EQ(text(small.state.layout("token.weight"), small.state.mesh().words), "{tp: Shard(1)}");
}

TEST(PlaceErrors, PlacementsThatDoNotFit) {
  Small small;
  expect_words(refusal([&] { small.state.place({{"dp_shards", "**", Shard(0)}}); }),
               {"no mesh dim is called \"dp_shards\"", "did you mean \"dp_shard\"?", "dp_replicate"});
  expect_words(refusal([&] { small.state.place({{"tp", "**", Partial()}}); }),
               {"state is Replicate or Shard", "Partial(sum) exists only within a step"});
  expect_words(refusal([&] { small.state.place({{"tp", "norm.weight", Shard(1)}}); }),
               {"\"norm.weight\" is f32[12] and has no dim 1", "0 .. 0"});
  expect_words(refusal([&] { small.state.place({{"tp", "token.weight", Shard(-1)}}); }),
               {"has no dim -1", "0 .. 1"});
  expect_words(refusal([&] { small.state.place({{"tp", "token.weight", Shard(0, 3)}}); }),
               {"dim 0 of \"token.weight\" f32[16,12] has size 16", "does not divide into 3 groups"});
}

TEST(PlaceErrors, AllAtOnceAndTensorsThatFailAlikeOnce) {
  Small small;
  auto message = refusal([&] {
    small.state.place({{"tp", "nrm.weight", Shard(0)},
                       {"tp", "**.bias", Shard(1)},
                       {"tp", "token.weight", Shard(0, 3)},
                       {"tps", "**", Shard(0)}});
  });
  expect_words(message, {"[place] 6 errors\n  ", "no tensor has a name like \"nrm.weight\"",
                         "no mesh dim is called \"tps\"", "has no dim 1; its dims are 0 .. 0",
                         "does not divide into 3 groups"});
  size_t alike = 0;
  for (size_t at = message.find("has no dim 1"); at != std::string::npos;
       at = message.find("has no dim 1", at + 1))
    ++alike;
  EXPECT_EQ(alike, 3u) << message;  // biases of 36, 12 and 48 features; four of them have 12
  EXPECT_EQ(small.state.layout("token.weight"), Layout{});
  // Two rows for one tensor, each wrong for itself.
  message = refusal(
      [&] { small.state.place({{"tp", "norm.weight", Shard(1)}, {"dp_shard", "norm.weight", Shard(2)}}); });
  expect_words(message, {"[place] 2 errors\n  ", "has no dim 1;", "has no dim 2;"});
}

TEST(LayerErrors, Heads) {
  State state(solo_mesh(), 1);
  int line = __LINE__ + 2;
  expect_words(
      refusal([&] { Attention(state / "attn", 130, 4); }),
      {"[attention] " + here(line) + " (attn)", "width 130 is not divisible by heads 4", "128 and 132"});
  expect_words(refusal([&] { Attention(state / "attn", 3, 4); }),
               {"width 3 is not divisible by heads 4", "smallest width is 4"});
  expect_words(refusal([&] { LlamaAttention(state / "attn", 24, 4, 3, 1e4); }),
               {"heads 4 is not divisible by kv_heads 3"});
  expect_words(refusal([&] { LlamaAttention(state / "attn", 12, 4, 2, 1e4); }),
               {"width 12 / heads 4 gives a head dim of 3, which is odd"});
  expect_words(refusal([&] { Attention(state / "attn", 12, 0); }), {"heads 0", "at least 1"});
  expect_words(refusal([&] { Attention(state / "attn", 12, 4, {.kv_heads = 3}); }),
               {"heads 4 is not divisible by kv_heads 3"});
  expect_words(refusal([&] { Attention(state / "attn", 12, 4, {.head_dim = -1}); }),
               {"head_dim is -1", "or 0 for what follows from width and heads"});
  expect_words(refusal([&] { MultiheadAttention(state / "attn", 12, 4, {.causal = false, .window = 2}); }),
               {"window is 2 without causal; it must be at least 1, with causal, or 0 for none"});
  expect_words(refusal([&] { MultiheadAttention(state / "attn", 12, 4, {.dropout = 1}); }),
               {"dropout is 1; it must be at least 0 and less than 1"});
  expect_words(
      refusal([&] { LlamaAttention(state / "attn", 12, 2, 2, LlamaAttentionOptions{.window = -1}); }),
      {"window is -1; it must be at least 1, or 0 for none"});
  EXPECT_TRUE(state.specs().empty());  // refused before anything is recorded
}

TEST(LayerErrors, Inputs) {
  State state(solo_mesh(), 1);
  Attention attn(state / "attn", 12, 2);
  LlamaAttention rotary(state / "rotary", 12, 2, 1, 1e4);
  Linear head(state / "head", 12, 3);
  Tracing tracing(2, 4);
  Tensor x = convert(tracing.ids, DType::f32);
  expect_words(refusal([&] { attn(x); }),
               {"[attention] " + here(__LINE__ - 1) + " (attn)", "f32[2,4]", "[sequences, tokens, 12]"});
  expect_words(refusal([&] { rotary(x); }), {"(rotary)", "f32[2,4]"});
  expect_words(refusal([&] { head(x); }),
               {"[linear] " + here(__LINE__ - 1) + " (head)", "f32[2,4]", "f32[3,12]"});
  expect_words(refusal([&] { head(Tensor()); }), {"[layer] " + here(__LINE__) + " (head)", "empty Tensor"});
  EXPECT_EQ(tracing.builder->scope, "");
}

TEST(LayerErrors, DropoutShare) {
  State state(solo_mesh(), 1);
  for (double p : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()})
    expect_words(refusal([&] { Dropout(state / "drop", p); }),
                 {"[dropout]", "(drop)", str("p is ", number_text(p)), "less than 1"});
}

TEST(ModelErrors, Options) {
  State state(solo_mesh(), 1);
  Scope at = state.root();
  int line = __LINE__ + 1;
  expect_words(refusal([&] { models::Gpt(at, {.width = 130, .heads = 4}); }),
               {"[gpt] " + here(line), "width 130 is not divisible by heads 4"});
  expect_words(refusal([&] { models::Gpt(at, {.depth = 0}); }), {"[gpt]", "depth is 0", "at least 1"});
  expect_words(refusal([&] { models::Gpt(at, {.heads = 0}); }), {"heads is 0"});
  expect_words(refusal([&] { models::Gpt(at, {.eps = 0}); }), {"eps is 0", "above 0"});
  expect_words(refusal([&] { models::Gpt(at, {.dropout = 1}); }), {"dropout is 1", "less than 1"});
  line = __LINE__ + 1;
  expect_words(refusal([&] { models::Llama(at, {.width = 128, .heads = 4, .kv_heads = 3}); }),
               {"[llama] " + here(line), "heads 4 is not divisible by kv_heads 3"});
  expect_words(refusal([&] { models::Llama(at, {.width = 12, .heads = 4}); }),
               {"head dim of 3, which is odd"});
  expect_words(refusal([&] { models::Llama(at, {.hidden = -1}); }), {"hidden is -1", "at least 0"});
  expect_words(refusal([&] { models::Llama(at, {.head_dim = -2}); }), {"head_dim is -2", "at least 0"});
  expect_words(refusal([&] { models::build(at, "llama", {{"head_dim", 5}}); }), {"model.head_dim is 5, odd"});
  expect_words(refusal([&] { models::build(at, "llama", {{"rope_original", 8192}, {"rope_low", 4.0}}); }),
               {"model.rope_low is 4 and model.rope_high is 4; the first must be below the second"});
  expect_words(refusal([&] { models::Llama(at, {.rope_theta = 0}); }), {"rope_theta is 0", "above 0"});
  expect_words(refusal([&] { models::build(at, "gpt2"); }),
               {"no model is called \"gpt2\"", "did you mean \"gpt\"?", "kinds: gpt, llama"});
  expect_words(refusal([&] { models::build(at, "gpt", {{"widht", 64}}); }),
               {"model gpt has no option widht", "did you mean width?", "options: vocab, context"});
  expect_words(refusal([&] { models::build(at, "gpt", {{"width", "wide"}}); }),
               {"model gpt: width is \"wide\"; it must be an integer"});
  line = __LINE__ + 1;
  const std::string said = refusal([&] { models::build(at, "gpt", {{"width", 130}}); });
  expect_words(said, {"[model] " + here(line),
                      "model.width is 130, not a multiple of model.heads, 4; 128 and 132 are"});
  EXPECT_TRUE(state.specs().empty());
}

TEST(ModelErrors, Ids) {
  Small small;
  Tracing tracing(2, 9), other(2, 8);
  int line = __LINE__ + 1;
  expect_words(refusal([&] { small.gpt(tracing.ids); }),
               {"[gpt] " + here(line), "sequences of 9 tokens are longer than the context of 8"});
  expect_words(refusal([&] { small.gpt(convert(other.ids, DType::i64)); }),
               {"the ids are i64[2,8]", "i32[sequences, tokens]"});
  expect_words(refusal([&] { small.gpt(Tensor()); }), {"the ids are an empty Tensor"});
  State state(solo_mesh(), 1);
  models::Llama llama(state.root(), {.context = 8, .depth = 1});
  expect_words(refusal([&] { llama(tracing.ids); }), {"[llama]", "longer than the context of 8"});
}

TEST(MetricErrors, ScalarsOnce) {
  Tracing tracing(2, 4);
  Tensor total = sum(convert(tracing.ids, DType::f32), {0, 1});
  metric("total", total);
  expect_words(refusal([&] { metric("total", total); }),
               {"[metric] " + here(__LINE__ - 1), "\"total\" is reported twice"});
  expect_words(refusal([&] { metric("ids", tracing.ids); }), {"\"ids\" is i32[2,4]", "rank 0"});
  expect_words(refusal([&] { metric("none", Tensor()); }), {"\"none\" is an empty Tensor"});
}

TEST(ScheduleErrors, Ranges) {
  expect_words(refusal([] { constant(-1); }), {"[schedule] lr is -1", "at least 0"});
  expect_words(refusal([] { constant(std::numeric_limits<double>::quiet_NaN()); }), {"lr is nan"});
  expect_words(refusal([] { Schedule{std::numeric_limits<double>::infinity()}; }), {"lr is inf"});
  expect_words(refusal([] { constant(1, -2); }), {"warmup is -2"});
  expect_words(refusal([] { warmup_cosine(1, 0, -1); }), {"steps is -1"});
  expect_words(refusal([] { warmup_linear(1, 0, 10, 1.5); }), {"min_ratio is 1.5", "between 0 and 1"});
}

TEST(OptimizerErrors, Options) {
  State state(solo_mesh(), 1);
  Linear head(state / "head", 4, 3);
  Scope at = state / "optim";
  expect_words(refusal([&] { AdamW(at, {.betas = {0.9, 1.0}}); }),
               {"[adamw] " + here(__LINE__ - 1), "a beta is 1", "less than 1"});
  expect_words(refusal([&] { AdamW(at, {.eps = 0}); }), {"eps is 0", "above 0"});
  expect_words(refusal([&] { AdamW(at, {.weight_decay = -0.1}); }), {"weight_decay is -0.1", "at least 0"});
  expect_words(refusal([&] { AdamW(at, {.clip = -1}); }), {"clip is -1", "0 means no clipping"});
  expect_words(refusal([&] { Sgd(at, {.momentum = 1}); }), {"[sgd] " + here(__LINE__), "momentum is 1"});
  expect_words(refusal([&] { Sgd(at, {.weight_decay = -1}); }), {"weight_decay is -1"});
  expect_words(refusal([&] { Sgd(at, {.clip = std::numeric_limits<double>::quiet_NaN()}); }),
               {"clip is nan"});
}

TEST(OptimizerErrors, OrderAndPaths) {
  State empty(solo_mesh(), 1);
  expect_words(refusal([&] { AdamW(empty / "optim"); }),
               {"[adamw] " + here(__LINE__ - 1), "no parameters", "after the model"});
  expect_words(refusal([&] { Sgd(empty / "optim"); }),
               {"[sgd] " + here(__LINE__ - 1), "no parameters", "after the model"});
  expect_words(refusal([&] { AdamW(empty.root()); }),
               {"[optimizer] " + here(__LINE__ - 1), "needs a path", "state / \"optim\""});
  State state(solo_mesh(), 1);
  Linear head(state / "head", 4, 3);
  int first = __LINE__ + 1;
  AdamW adamw(state / "optim");
  int second = __LINE__ + 1;
  expect_words(refusal([&] { Sgd(state / "optim"); }),
               {"\"optim\" has two optimizers", here(first), here(second), "another path"});
  expect_words(refusal([&] { AdamW(state / "two", {}, {{.parameters = {head.weight}}, {.lr = 1}}); }),
               {"[adamw] " + here(__LINE__ - 1),
                "group 2 of 2 has no parameters; give it those that its options are for, or leave it out"});

  int late = __LINE__ + 1;
  Linear other(state / "late", 3, 3, /*bias=*/false);
  Tracing tracing(2, 4);
  Tensor targets = reshape(slice(tracing.targets, 1, 0, 1), {2});
  Loss loss = cross_entropy(other(head(convert(tracing.ids, DType::f32))), targets);
  expect_words(refusal([&] { adamw.update(grad(loss, state.parameters())); }),
               {"[optim] ", "no \"optim.late.weight.exp_avg\"", "\"late.weight\" (" + here(late) + ")",
                "recorded after the optimizer (" + here(first) + ")"});
}

TEST(OptimizerErrors, TwiceInOneStep) {
  State state(solo_mesh(), 1);
  Linear head(state / "head", 4, 3, /*bias=*/false);
  AdamW adamw(state / "optim");
  Sgd sgd(state / "sgd");
  Tracing tracing(2, 4);
  Loss loss =
      cross_entropy(head(convert(tracing.ids, DType::f32)), reshape(slice(tracing.targets, 1, 0, 1), {2}));
  Gradients gradients = grad(loss, state.parameters());
  adamw.update(gradients);
  expect_words(refusal([&] { sgd.update(gradients); }),
               {"[sgd] " + here(__LINE__ - 1), "\"head.weight\" is updated twice in one step"});
  expect_words(refusal([&] { adamw.update(gradients); }),
               {"[optim] " + here(__LINE__ - 1),
                "this optimizer is updated twice in one step; add the losses, a + b, and update once"});
}

TEST(GradErrors, NothingToDifferentiate) {
  State state(solo_mesh(), 1);
  Linear head(state / "head", 4, 3);
  Tracing tracing(2, 4);
  Loss loss =
      cross_entropy(head(convert(tracing.ids, DType::f32)), reshape(slice(tracing.targets, 1, 0, 1), {2}));
  expect_words(refusal([&] { grad(Loss{}, state.parameters()); }),
               {"[grad] " + here(__LINE__ - 1), "no sum or no count", "cross_entropy"});
  expect_words(refusal([&] { grad(loss, std::vector<Parameter>{}); }),
               {"[grad] " + here(__LINE__ - 1), "there are no parameters"});
  expect_words(refusal([&] { global_norm({}); }), {"[global_norm] " + here(__LINE__), "no gradients"});
  expect_words(refusal([&] { clip_scale(loss.sum, 0); }),
               {"[clip_scale] " + here(__LINE__ - 1), "largest norm is 0", "above 0"});
}

TEST(StateErrors, ComputeDtypes) {
  State state(solo_mesh(), 1);
  int line = __LINE__ + 1;
  expect_words(refusal([&] { state.compute_dtype(DType::i32); }),
               {here(line), "layers cannot compute in i32; choose f32, bf16 or f16"});
  EXPECT_EQ(state.compute_dtype(), DType::f32);
}

TEST(StateErrors, LossScales) {
  State state(solo_mesh(), 1);
  expect_words(refusal([&] { state.loss_scale({.first = 1000}); }),
               {"[loss_scale] " + here(__LINE__ - 1), "first is 1000; it must be a power of two"});
  expect_words(refusal([&] { state.loss_scale({.growth = 0.5}); }),
               {"growth is 0.5; it must be a power of two, at least 1 and at most 65536"});
  expect_words(refusal([&] { state.loss_scale({.backoff = 1}); }),
               {"backoff is 1; it must be a power of two", "at most 0.5"});
  expect_words(refusal([&] { state.loss_scale({.interval = 0}); }),
               {"interval is 0; it must be between 1 and 16777216 steps"});
  state.compute_dtype(DType::f16);
  expect_words(refusal([&] { state.loss_scale({.interval = 9}); }),
               {"\"loss_scale.scale\" is recorded already; choose it before compute_dtype(DType::f16)"});
  State late(solo_mesh(), 1);
  late.root().parameter("w", {2}, init::ones());
  late.materialize();
  expect_words(refusal([&] { late.compute_dtype(DType::f16); }),
               {"\"loss_scale.scale\" at " + here(__LINE__ - 1), "the state is already materialised"});
  EXPECT_EQ(late.compute_dtype(), DType::f32);
}

TEST(StateErrors, AScalarIsSetOnce) {
  State state(solo_mesh(), 1);
  const int first = __LINE__ + 1;
  state.add_optimizer("optim", line_of(Here::current()),
                      [](int64_t) { return State::Scalars{{"optim.lr", 0.1}}; });
  state.add_optimizer("mine", line_of(Here::current()),
                      [](int64_t) { return State::Scalars{{"optim.lr", 0.2}}; });
  expect_words(refusal([&] { state.scalars(1); }),
               {"[optimizer] the scalar \"optim.lr\" is set twice: by \"optim\" at " + here(first),
                "and by \"mine\" at " + here(first + 2), "give one of the two another name"});
}
