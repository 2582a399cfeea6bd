// What the ops say when types do not fit: the op, the user's line, both types, the way out.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ops/op.h"

namespace lockstep {
namespace {

using List = std::vector<int64_t>;
constexpr auto F = DType::f32, H = DType::bf16, D = DType::f64, I = DType::i32, L = DType::i64,
               B = DType::boolean, E4 = DType::f8_e4m3;

struct Case {
  OpId op;
  std::vector<TypedShape> in;
  Attrs attrs;
  std::string words;
};

Attrs dot(List lb, List rb, List lc, List rc) {
  return {{"lhs_batch", lb}, {"rhs_batch", rb}, {"lhs_contract", lc}, {"rhs_contract", rc}};
}
const Attrs kEps{{"eps", 1e-5}}, kIgnore{{"ignore_index", -100}}, kMask{{"causal", true}, {"scale", 0.5}},
    kGelu{{"form", "sin"}}, kStream{{"shape", Shape{3}}, {"stream", 1}}, kDrop{{"p", 1.5}, {"stream", 1}};
const Attrs kAdam{{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}},
    kSgd{{"momentum", 0.9}, {"weight_decay", 0.0}};
const Attrs kCast{{"dtype", E4}, {"half", "cast"}}, kTurn{{"dtype", E4}, {"half", "transpose"}};
const TypedShape kOne{F, {}};

const std::vector<Case> kCases{
    {"add", {{F, {2}}}, {}, "takes 2 inputs, got 1"},
    {"linear", {{F, {2}}}, {}, "takes 2 to 3 inputs, got 1"},
    {"concat", {}, {{"dim", 0}}, "takes 1 or more inputs, got 0"},
    {"add", {{F, {2, 3}}, {F, {3, 2}}}, {}, "shapes differ: input 0 f32[2,3], input 1 f32[3,2]"},
    {"add", {{F, {2}}, {H, {2}}}, {}, "dtypes differ: input 0 f32[2], input 1 bf16[2]; convert one?"},
    {"exp", {{I, {2}}}, {}, "input 0 is i32[2], needs floats; convert it?"},
    {"neg", {{B, {2}}}, {}, "input 0 is bool[2], needs numbers; convert it?"},
    {"shl", {{F, {2}}, {F, {2}}}, {}, "input 0 is f32[2], needs integers; convert it?"},
    {"and", {{F, {2}}, {F, {2}}}, {}, "input 0 is f32[2], needs integers or bool; convert it?"},
    {"where", {{F, {2}}, {F, {2}}, {F, {2}}}, {}, "the condition is f32[2], needs dtype bool; convert it?"},
    {"where", {{B, {3}}, {F, {2}}, {F, {2}}}, {}, "shapes differ: condition bool[3], values f32[2]"},
    {"clamp", {{F, {2}}}, {{"lo", 2.0}, {"hi", 1.0}}, "bounds are 2 and 1; the lower comes first"},
    {"bitcast", {{F, {2}}}, {{"dtype", L}}, "f32[2] to i64: elements of 4 and 8 bytes"},
    {"full", {}, {{"shape", Shape{2, -1}}, {"value", 0.0}, {"dtype", F}}, "shape [2,-1] has a negative size"},
    {"iota",
     {},
     {{"shape", Shape{2}}, {"dim", 1}, {"dtype", I}},
     "dim [1]: 1 is not a dim of a tensor of 1 dims"},
    {"iota", {}, {{"shape", Shape{2}}, {"dim", 0}, {"dtype", B}}, "an index is not bool"},
    {"rng_bits", {{I, {}}, {L, {}}, {L, {}}}, kStream, "the seed is i32[], needs i64[]"},
    {"sum", {{B, {2}}}, {{"dims", List{0}}}, "input 0 is bool[2], needs numbers; convert it to i64?"},
    {"sum", {{F, {2, 3}}}, {{"dims", List{1, 1}}}, "dims [1,1] names 1 twice"},
    {"sum", {{F, {2, 3}}}, {{"dims", List{1, 0}}}, "dims [1,0] are not in ascending order"},
    {"max", {{F, {0, 3}}}, {{"dims", List{0}}}, "dim 0 of f32[0,3] is empty"},
    {"argmax", {{F, {0}}}, {{"dim", 0}}, "dim 0 of f32[0] is empty"},
    {"argmin", {{B, {2}}}, {{"dim", 0}}, "input 0 is bool[2], needs numbers"},
    {"reshape", {{F, {2, 3}}}, {{"shape", Shape{4}}}, "f32[2,3] has 6 elements, shape [4] has 4"},
    {"reshape", {{F, {2, 3}}}, {{"shape", Shape{-2, -3}}}, "shape [-2,-3] has a negative size"},
    {"permute", {{F, {2, 3}}}, {{"order", List{0}}}, "order [0] for f32[2,3]: every dim is named once"},
    {"broadcast",
     {{F, {2, 3}}},
     {{"shape", Shape{2, 4}}, {"dims", List{0, 1}}},
     "dim 1 of f32[2,3] is 3 and goes to dim 1 of [2,4], which is 4; sizes must be equal, or 1"},
    {"broadcast",
     {{F, {2, 3}}},
     {{"shape", Shape{2, 3}}, {"dims", List{0}}},
     "dims [0] for f32[2,3]: every dim goes somewhere"},
    {"slice",
     {{F, {5}}},
     {{"start", List{2}}, {"limit", List{6}}, {"step", List{1}}},
     "range 2 .. 6 by 1 of dim 0 of f32[5] is not inside 0 .. 5"},
    {"slice", {{F, {5}}}, {{"start", List{}}, {"limit", List{}}, {"step", List{}}}, "one number per dim"},
    {"pad",
     {{F, {5}}},
     {{"lo", List{-1}}, {"hi", List{0}}, {"value", 0.0}},
     "padding is not negative; slice instead"},
    {"pad", {{F, {5}}}, {{"lo", List{}}, {"hi", List{0}}, {"value", 0.0}}, "one number per dim"},
    {"concat",
     {{F, {2, 3}}, {F, {3, 3}}},
     {{"dim", 1}},
     "input 0 is f32[2,3], input 1 is f32[3,3]: only dim 1 may differ"},
    {"concat",
     {{F, {2, 3}}, {F, {2}}},
     {{"dim", 1}},
     "input 0 is f32[2,3], input 1 is f32[2]: the numbers of dims differ"},
    {"concat",
     {{F, {2}}, {H, {2}}},
     {{"dim", 0}},
     "dtypes differ: input 0 f32[2], input 1 bf16[2]; convert one?"},
    {"take", {{F, {}}, {I, {2}}}, {}, "the table is f32[], needs 1 or more dims"},
    {"take", {{F, {4}}, {L, {2}}}, {}, "ids is i64[2], needs dtype i32; convert it?"},
    {"index_add", {{I, {2}}, {F, {3, 4}}}, {{"rows", 5}}, "leading dims differ: ids i32[2], rows f32[3,4]"},
    {"index_add", {{I, {2}}, {B, {2}}}, {{"rows", 5}}, "rows are bool[2], needs numbers"},
    {"index_add", {{I, {2}}, {F, {2}}}, {{"rows", -1}}, "rows is -1"},
    {"embedding", {{F, {4, 2}}, {F, {2}}}, {}, "ids is f32[2], needs dtype i32"},
    {"embedding_grad",
     {{F, {3, 4}}, {I, {2}}},
     {{"rows", 5}},
     "leading dims differ: ids i32[2], rows f32[3,4]"},
    {"dot",
     {{F, {2, 3}}, {H, {3, 2}}},
     dot({}, {}, {1}, {0}),
     "dtypes differ: lhs f32[2,3], rhs bf16[3,2]; convert one side?"},
    {"dot", {{I, {2, 3}}, {I, {3, 2}}}, dot({}, {}, {1}, {0}), "input 0 is i32[2,3], needs floats"},
    {"dot",
     {{F, {2, 3}}, {F, {4, 2}}},
     dot({}, {}, {1}, {0}),
     "inner dims differ: lhs f32[2,3], rhs f32[4,2], dim 1 has 3, dim 0 has 4"},
    {"dot",
     {{F, {2, 3}}, {F, {4, 3}}},
     dot({0}, {0}, {1}, {1}),
     "batch dims differ: lhs f32[2,3], rhs f32[4,3], dim 0 has 2, dim 0 has 4"},
    {"dot", {{F, {2, 3}}, {F, {2, 3}}}, dot({0}, {}, {1}, {1}), "the numbers of dims differ"},
    {"dot", {{F, {2, 3}}, {F, {2, 3}}}, dot({1}, {1}, {1}, {1}), "lhs dims [1,1] names 1 twice"},
    {"linear",
     {{F, {2, 5}}, {F, {5, 7}}},
     {},
     "inner dims differ: input f32[2,5] has 5, weight f32[5,7] has 7; weights are [out, in]: transpose the "
     "weight?"},
    {"linear", {{F, {2, 5}}, {F, {7}}}, {}, "weight is f32[7], needs 2 dims"},
    {"linear", {{F, {}}, {F, {7, 5}}}, {}, "input is f32[], needs 1 or more dims"},
    {"linear",
     {{F, {2, 5}}, {F, {7, 5}}, {F, {5}}},
     {},
     "bias is f32[5], needs [7], the rows of weight f32[7,5]"},
    {"linear",
     {{F, {2, 5}}, {H, {7, 5}}},
     {},
     "dtypes differ: input f32[2,5], weight bf16[7,5]; convert one side?"},
    {"sdpa", {{F, {2, 5, 4}}, {F, {2, 5, 4}}, {F, {2, 5, 4}}}, kMask, "q is f32[2,5,4], needs 4 dims"},
    {"sdpa",
     {{F, {2, 5, 6, 4}}, {F, {2, 5, 4, 4}}, {F, {2, 5, 4, 4}}},
     kMask,
     "q has 6 heads, k and v have 4: kv_heads divides heads"},
    {"sdpa",
     {{F, {2, 5, 6, 4}}, {F, {2, 7, 6, 4}}, {F, {2, 7, 6, 4}}},
     kMask,
     "q has 5 tokens, k has 7: a causal mask needs as many"},
    {"sdpa",
     {{F, {2, 5, 6, 4}}, {F, {2, 5, 6, 8}}, {F, {2, 5, 6, 8}}},
     kMask,
     "q is f32[2,5,6,4], k is f32[2,5,6,8]: batch and head_dim are equal"},
    {"sdpa",
     {{F, {2, 5, 6, 4}}, {F, {2, 5, 6, 4}}, {F, {2, 5, 3, 4}}},
     kMask,
     "k is f32[2,5,6,4], v is f32[2,5,3,4]: they have equal shapes"},
    {"sdpa",
     {{F, {2, 5, 6, 4}}, {F, {2, 5, 6, 4}}, {H, {2, 5, 6, 4}}},
     kMask,
     "dtypes differ: q f32[2,5,6,4], v bf16[2,5,6,4]; convert one?"},
    {"sdpa_grad",
     {{F, {2, 5, 6, 4}},
      {F, {2, 5, 6, 4}},
      {F, {2, 5, 6, 4}},
      {F, {2, 5, 6, 4}},
      {F, {2, 5, 6, 4}},
      {F, {2, 5, 6}}},
     kMask,
     "lse is f32[2,5,6], needs f32[2,6,5]"},
    {"sdpa_grad",
     {{F, {2, 5, 6, 4}},
      {F, {2, 5, 6, 4}},
      {F, {2, 5, 6, 4}},
      {F, {2, 5, 6, 4}},
      {F, {2, 6, 5, 4}},
      {F, {2, 6, 5}}},
     kMask,
     "o is f32[2,6,5,4], needs f32[2,5,6,4]"},
    {"softmax", {{F, {}}}, {}, "input is f32[], needs 1 or more dims"},
    {"layer_norm", {{F, {2, 5}}, {F, {4}}, {F, {4}}}, kEps, "weight is f32[4], input f32[2,5] needs [5]"},
    {"layer_norm", {{F, {2, 5}}, {F, {5}}, {F, {4}}}, kEps, "shapes differ: input 1 f32[5], input 2 f32[4]"},
    {"rms_norm",
     {{F, {2, 5}}, {H, {5}}},
     kEps,
     "dtypes differ: input f32[2,5], weight bf16[5]; convert one side?"},
    {"layer_norm_grad",
     {{F, {2, 5}}, {F, {2, 5}}, {F, {5}}, {F, {5}}, {F, {2}}},
     {},
     "mean is f32[5], input f32[2,5] needs f32[2]"},
    {"rms_norm_grad",
     {{F, {2, 5}}, {F, {2, 5}}, {F, {5}}, {D, {2}}},
     {},
     "rstd is f64[2], input f32[2,5] needs f32[2]"},
    {"gelu", {{F, {2}}}, kGelu, "form is \"sin\"; known: \"tanh\", \"erf\""},
    {"gelu_grad", {{F, {2}}, {F, {2}}}, kGelu, "form is \"sin\"; known: \"tanh\", \"erf\""},
    {"cross_entropy",
     {{F, {2, 5}}, {I, {5}}},
     kIgnore,
     "logits are f32[2,5], targets are i32[5], need i32[2]"},
    {"cross_entropy",
     {{F, {2, 5}}, {L, {2}}},
     kIgnore,
     "logits are f32[2,5], targets are i64[2], need i32[2]"},
    {"cross_entropy", {{F, {}}, {I, {}}}, kIgnore, "logits are f32[], need [..., vocab]"},
    {"cross_entropy_grad",
     {{F, {1}}, {F, {2, 5}}, {I, {2}}, {F, {2}}},
     kIgnore,
     "dsum is f32[1], needs f32[]"},
    {"cross_entropy_grad",
     {{F, {}}, {F, {2, 5}}, {I, {2}}, {F, {5}}},
     kIgnore,
     "lse is f32[5], needs f32[2]"},
    {"rope",
     {{F, {2, 5, 3, 5}}},
     {{"theta", 1e4}, {"inverse", false}},
     "head_dim 5 is odd, and pairs are rotated"},
    {"rope",
     {{F, {2, 5, 3, 4}}},
     {{"theta", 0.0}, {"inverse", false}},
     "theta is 0, needs a positive number"},
    {"dropout",
     {{F, {2}}, {L, {}}, {L, {}}, {L, {}}},
     kDrop,
     "p is 1.5, needs a probability between 0 and 1"},
    {"dropout", {{F, {2}}, {L, {}}, {L, {1}}, {L, {}}}, kDrop, "the step is i64[1], needs i64[]"},
    {"clip_scale", {{F, {2}}}, {{"max", 1.0}}, "the norm is f32[2], needs 0 dims"},
    {"global_norm", {{F, {2}}, {I, {2}}}, {}, "input 1 is i32[2], needs floats"},
    {"adamw",
     {{H, {2}}, {H, {2}}, {H, {2}}, {H, {2}}, kOne, kOne, kOne, kOne},
     kAdam,
     "the parameter is bf16[2], needs f32: masters are not rounded"},
    {"adamw",
     {{F, {2}}, {F, {3}}, {F, {2}}, {F, {2}}, kOne, kOne, kOne, kOne},
     kAdam,
     "shapes differ: input 0 f32[2], input 1 f32[3]"},
    {"sgd", {{F, {2}}, {F, {2}}, {F, {2}}, {F, {2}}, kOne}, kSgd, "lr is f32[2], needs f32[]"},
    {"lane_sum", {{I, {2}}}, {}, "input 0 is i32[2], needs floats"},
    {"lane_count", {{F, {}}}, {}, "the count is f32[], needs i64[]"},
    {"norm_limbs", {{F, {2}}}, {}, "a sum of squares is f32[2], needs dtype f64"},
    {"norm_limbs", {{D, {}}}, {}, "sums of squares is f64[], needs 1 dims"},
    {"norm_of_limbs", {{L, {4}}}, {}, "limbs are i64[4], need i64[8]"},
    {"all_reduce_start", {{F, {2}}}, {{"op", "mean"}}, "op is \"mean\"; known: \"sum\", \"max\", \"min\""},
    {"wait", {{F, {2}}}, {{"types", "f32[2]"}}, "input 0 is f32[2], needs the handle of a start"},
    {"grad", {{F, {}}, {I, {}}, {F, {3}}}, {}, "the count is i32[], needs i64[] or floats of rank 0"},
    {"grad", {{F, {}}, {F, {2}}, {F, {3}}}, {}, "the count is f32[2], needs 0 dims"},
    {"grad", {{F, {2}}, {L, {}}, {F, {3}}}, {}, "the loss is f32[2], needs 0 dims"},
    {"fused", {{F, {2}}}, {}, "a fused node has a body, which gives its types"},
    {"quantize",
     {{F, {16, 32}}, kOne},
     {{"dtype", E4}, {"half", "both"}},
     "half is \"both\"; known: \"cast\", \"transpose\""},
    {"quantize", {{F, {16, 32}}}, kCast, "takes 2 inputs, got 1"},
    {"quantize", {{D, {16, 32}}, kOne}, kCast, "input is f64[16,32], needs f32 or bf16"},
    {"quantize",
     {{F, {16, 24}}, kOne},
     kCast,
     "input is f32[16,24]: rows in float8 have a multiple of 16 elements"},
    {"quantize", {{F, {16, 32}}, {F, {16}}}, kCast, "the largest magnitude is f32[16], needs f32[]"},
    {"quantize",
     {{F, {16, 32}}, kOne},
     {{"dtype", F}, {"half", "cast"}},
     "dtype is f32; choose f8_e4m3 or f8_e5m2"},
    {"quantize", {{E4, {16, 32}}, kOne, kOne}, kTurn, "takes 2 inputs, got 3"},
    {"quantize", {{F, {16, 32}}, kOne}, kTurn, "input is f32[16,32], needs dtype f8_e4m3; convert it?"},
    {"quantize",
     {{E4, {8, 32}}, kOne},
     kTurn,
     "input is f8_e4m3[8,32], 8 rows of 32: float8 products want multiples of 16"},
    {"add", {{E4, {16}}, {E4, {16}}}, {}, "input 0 is f8_e4m3[16], needs numbers; convert it?"},
    {"maximum", {{E4, {16}}, {E4, {16}}}, {}, "input 0 is f8_e4m3[16], needs numbers; convert it?"},
    {"quantize", {{E4, {16, 32}}, {H, {}}}, kTurn, "the largest magnitude is bf16[], needs f32[]"},
};

TEST(OpMessages, EveryTypeRuleSaysWhatDoesNotFit) {
  SourceLine at{"/home/me/gpt.cpp", 12, "blocks.0.attn"};
  for (const Case& row : kCases) {
    SCOPED_TRACE(str(row.op, ": ", row.words));
    try {
      op_row(row.op).infer({row.op, row.in, row.attrs, at});
      ADD_FAILURE() << "accepted";
    } catch (const UserError& error) {
      std::string what = error.what();
      EXPECT_EQ(what.rfind(str("[", row.op, "] gpt.cpp:12 (blocks.0.attn): "), 0), 0u) << what;
      EXPECT_NE(what.find(row.words), std::string::npos) << what;
    }
  }
}

struct Traced {
  std::shared_ptr<Builder> builder = std::make_shared<Builder>();
  int made = 0;
  Tensor input(Shape shape, DType dtype = DType::f32) {
    return {builder, builder->graph.add_input(InputKind::value, str("x", made++), dtype, std::move(shape))};
  }
};
template <class F>
void expect_refused(const std::string& op, const std::string& words, F&& call) {
  SCOPED_TRACE(words);
  try {
    call();
    ADD_FAILURE() << "accepted";
  } catch (const UserError& error) {
    std::string what = error.what();
    EXPECT_EQ(what.rfind("[" + op + "] ops_messages_test.cpp:", 0), 0u) << what;
    EXPECT_NE(what.find(words), std::string::npos) << what;
  }
}

TEST(OpMessages, FunctionsNameTheUsersLineAndTheWayOut) {
  Traced t, other;
  t.builder->scope = "head";
  Tensor x = t.input({64, 768}), row = t.input({768}), ints = t.input({2}, DType::i32);
  expect_refused(
      "matmul",
      "(head): inner dims differ: lhs f32[64,768] has 768, rhs f32[1024,3072] has 1024; transpose one side?",
      [&] { matmul(x, t.input({1024, 3072})); });
  expect_refused(
      "matmul",
      "leading dims differ: lhs f32[2,64,768], rhs f32[3,768,4]; they are matched from the last, and "
      "must be equal or 1",
      [&] { matmul(t.input({2, 64, 768}), t.input({3, 768, 4})); });
  expect_refused("matmul", "dtypes differ: lhs f32[64,768], rhs f64[768,2]; convert one side?",
                 [&] { matmul(x, t.input({768, 2}, DType::f64)); });
  expect_refused("add",
                 "shapes do not broadcast: lhs f32[64,768], rhs f32[64]; dims are matched from the last, and "
                 "must be equal or 1",
                 [&] { (void)(x + t.input({64})); });
  expect_refused("mul", "dtypes differ: lhs f32[64,768], rhs f64[768]; convert one side?",
                 [&] { (void)(x * t.input({768}, DType::f64)); });
  expect_refused("lt", "shapes do not broadcast", [&] { less(row, t.input({5})); });
  expect_refused("where", "shapes do not broadcast: condition bool[3], f32[768], f32[64,768]",
                 [&] { where(t.input({3}, DType::boolean), row, x); });
  expect_refused("where", "input 1 is an empty Tensor", [&] { where(t.input({3}, DType::boolean), {}, x); });
  expect_refused("exp", "input 0 is an empty Tensor", [&] { exp(Tensor{}); });
  expect_refused("add", "input 1 is an empty Tensor", [&] { (void)(x + Tensor{}); });
  expect_refused("add",
                 "input 1 f32[768] belongs to another graph; tensors of one step cannot be kept for the next",
                 [&] { (void)(row + other.input({768})); });
  expect_refused("sum", "dim 2 is not a dim of f32[64,768]", [&] { sum(x, {2}); });
  expect_refused("mean", "input 0 is i32[2], needs floats; convert it?", [&] { mean(ints, {0}); });
  expect_refused("reshape", "f32[64,768] to [-1,-1]: only one size may be -1", [&] { reshape(x, {-1, -1}); });
  expect_refused("reshape", "f32[64,768] to [-1,5]: 49152 elements do not divide by 5",
                 [&] { reshape(x, {-1, 5}); });
  expect_refused("broadcast", "f32[64,768] does not broadcast to [64,1]", [&] { broadcast_to(x, {64, 1}); });
  expect_refused("split", "sizes [3,4] add up to 7, dim 1 of f32[64,768] has 768",
                 [&] { split(x, -1, {3, 4}); });
  expect_refused("concat", "takes 1 or more inputs, got 0", [&] { concat({}, 0); });
}

// A tensor's elements are not known while a step is traced: as a condition it would always be taken.
static_assert(!std::is_constructible_v<bool, Tensor>);
static_assert(!std::is_convertible_v<Tensor, bool>);

TEST(OpMessages, WhatApplyIsGivenByTheUser) {
  Traced t;
  Tensor x = t.input({2, 3});
  expect_refused("clamp", "needs the attribute \"hi\", a number",
                 [&] { apply1("clamp", {x}, {{"lo", 0.0}}); });
  expect_refused("clamp", "the attribute \"hi\" is not a number",
                 [&] { apply1("clamp", {x}, {{"lo", 0.0}, {"hi", "one"}}); });
  expect_refused("sum", "has no attribute \"dim\"; did you mean \"dims\"?",
                 [&] { apply1("sum", {x}, {{"dims", Shape{0}}, {"dim", 0}}); });
  expect_refused("broadcast", "has no attribute \"factor\"; known: \"shape\", \"dims\"",
                 [&] { apply1("broadcast", {x}, {{"factor", 2.0}}); });
  expect_refused("exp", "has no attribute \"base\"; it takes none",
                 [&] { apply1("exp", {x}, {{"base", 2}}); });
  expect_refused("sum", "the attribute \"dims\" is not a list", [&] { apply1("sum", {x}, {{"dims", 1}}); });
  expect_refused("convert", "needs the attribute \"dtype\", a dtype", [&] { apply1("convert", {x}); });
  expect_refused("relu6", "no op is named \"relu6\"", [&] { apply1(intern("relu6"), {x}); });
  expect_refused("sofmax", "did you mean \"softmax\"?", [&] { apply1(intern("sofmax"), {x}); });
  expect_refused("full", "has no inputs",
                 [&] { apply1("full", {}, {{"shape", Shape{2}}, {"value", 1.0}, {"dtype", DType::f32}}); });
  expect_refused("cross_entropy", "has 3 outputs; write apply() and choose one of them",
                 [&] { apply1("cross_entropy", {x, t.input({2}, DType::i32)}, {{"ignore_index", -100}}); });
  EXPECT_TRUE(x.defined());
  EXPECT_FALSE(Tensor{}.defined());
}

TEST(OpMessages, TensorsAndState) {
  Traced t;
  try {
    (void)t.input({2, 3}).size(2);
    FAIL();
  } catch (const UserError& error) { EXPECT_STREQ(error.what(), "size(2) of f32[2,3]: dims are -2 .. 1"); }
  t.builder->state_input("head.weight", DType::f32, {3});
  try {
    t.builder->state_input("head.weight", DType::f32, {4});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "state \"head.weight\" is used as f32[4] and as f32[3]; give one of them another name");
  }
  t.builder->scalar_input("optim.lr", DType::f32);
  try {
    t.builder->scalar_input("optim.lr", DType::i64);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "the scalar \"optim.lr\" is used as i64[] and as f32[]; read it with one dtype, and convert "
                 "what it gives");
  }
}

}  // namespace
}  // namespace lockstep
