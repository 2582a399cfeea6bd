// sdpa and rope as functions: what a mask is recognised as, and refusals on their words.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/table/attention.h"

namespace lockstep {
namespace {

constexpr auto F = DType::f32, H = DType::bf16, I = DType::i32, L = DType::i64, B = DType::boolean;

struct Traced {
  std::shared_ptr<Builder> builder = std::make_shared<Builder>();
  int made = 0;
  Tensor operator()(DType dtype, Shape shape) {
    return {builder, builder->graph.add_input(InputKind::value, str("x", made++), dtype, std::move(shape))};
  }
  const Node& last() const { return builder->graph.nodes.back(); }
};

// What the row reads when attention over [2, 6 tokens, 4 heads, 8] has this mask: its name in a certificate.
struct Heads {
  Traced t;
  Tensor q = t(F, {2, 6, 4, 8}), lengths = t(I, {2}), ids = t(I, {2, 6}), given = t(B, {6, 6});
  Tensor tokens() { return iota(q, {6, 6}, 0, I); }
  Tensor keys() { return iota(q, {6, 6}, 1, I); }
  std::string of(AttentionOptions options) {
    sdpa(q, q, q, options);
    return masks_text(attention_reads(t.last()));
  }
  std::string of(Tensor mask) { return of(AttentionOptions{.mask = mask}); }
};

TEST(Attention, MasksOfIndicesAndLengthsAreRecognised) {
  Heads h;
  EXPECT_EQ(h.of(causal_mask(h.q, 6)), " causal");
  EXPECT_EQ(h.of(window_mask(h.q, 6, 3)), " causal window=3");
  EXPECT_EQ(h.of(padding_mask(h.lengths, 6)), " lengths");
  EXPECT_EQ(h.t.last().inputs[3], h.lengths.id());
  EXPECT_EQ(h.of(causal_mask(h.q, 6) && padding_mask(h.lengths, 6)), " causal lengths");
  EXPECT_EQ(h.of(tril(ones(h.q, {6, 6}, B))), " causal");
  EXPECT_EQ(h.of(tril(ones(h.q, {1, 1, 6, 6})) != 0), " causal");
  EXPECT_EQ(h.of(convert(tril(ones(h.q, {6, 6}, I)), B)), " causal");
  EXPECT_EQ(h.of(!(h.keys() > h.tokens())), " causal");
  EXPECT_EQ(h.of(h.tokens() >= h.keys()), " causal");
  EXPECT_EQ(h.of(h.keys() < h.tokens() + 1), " causal");
  EXPECT_EQ(h.of(h.tokens() - h.keys() < 2 && h.tokens() >= h.keys()), " causal window=2");
  EXPECT_EQ(h.of(triu(ones(h.q, {6, 6}, B), -3) && causal_mask(h.q, 6)), " causal window=4");
  Tensor row = arange(h.q, 0, 6);
  EXPECT_EQ(h.of(unsqueeze(row, 0) <= unsqueeze(row, 1)), " causal");
  EXPECT_EQ(h.of(unsqueeze(unsqueeze(unsqueeze(row, 0) < unsqueeze(h.lengths, 1), 1), 1)), " lengths");
  EXPECT_EQ(h.of(broadcast_to(padding_mask(h.lengths, 6), {2, 4, 6, 6})), " lengths");
  EXPECT_EQ(h.of(full(h.q, {6, 6}, 0, I) < 1), "");  // it holds everywhere
  EXPECT_EQ(h.of({.causal = true, .mask = h.tokens() - h.keys() < 2, .window = 5}), " causal window=2");
}

TEST(Attention, OtherMasksStayMasks) {
  Heads h;
  for (const Tensor& mask :
       {h.given, !convert(triu(ones(h.q, {6, 6}, I), 1), B), h.keys() < h.tokens(),
        h.keys() <= h.tokens() + 1, h.keys() >= h.tokens(), h.keys() <= h.tokens() || h.given,
        causal_mask(h.q, 6) && h.given, h.tokens() - h.keys() < 2, unsqueeze(unsqueeze(h.ids, 1), 1) != 0,
        transpose(causal_mask(h.q, 6), 0, 1),
        broadcast_to(reshape(arange(h.q, 0, 4), {4, 1, 1}), {4, 6, 6}) <= 2,
        unsqueeze(unsqueeze(iota(h.q, {2, 6}, 1, I) > unsqueeze(h.lengths, 1), 1), 1)})
    EXPECT_EQ(h.of(mask), " mask") << mask.id();
  EXPECT_EQ(h.of({.mask = padding_mask(h.lengths, 6), .lengths = h.lengths}), " lengths mask");
  // A length for each token of one sequence is no length of a sequence.
  Traced t;
  Tensor q = t(F, {6, 6, 1, 8}), per_token = t(I, {6});
  sdpa(q, q, q, {.mask = iota(q, {6, 6}, 1, I) < unsqueeze(per_token, 1)});
  EXPECT_EQ(masks_text(attention_reads(t.last())), " mask");
}

TEST(Attention, TheOldCallWritesTheOldNode) {
  Traced t;
  Tensor q = t(F, {2, 6, 4, 16});
  sdpa(q, q, q);
  EXPECT_EQ(t.last().attrs, (Attrs{{"causal", true}, {"scale", 0.25}}));
  sdpa(q, q, q, {.scale = 2});
  EXPECT_EQ(t.last().attrs, (Attrs{{"causal", false}, {"scale", 2.0}}));
  rope(q, 500);
  EXPECT_EQ(t.last().attrs, (Attrs{{"theta", 500.0}, {"inverse", false}}));
}

struct Refusal {
  const char* op;
  const char* words;
  std::function<void(Traced&)> call;
};
Tensor heads(Traced& t, int64_t tokens = 6) { return t(F, {2, tokens, 4, 8}); }
void attend(Traced& t, AttentionOptions options, int64_t keys = 6) {
  sdpa(heads(t), heads(t, keys), heads(t, keys), options);
}
const std::vector<Refusal> kRefusals{
    {"sdpa", "input 1 is an empty Tensor", [](auto& t) { sdpa(heads(t), {}, {}); }},
    {"sdpa", "mask is f32[6,6], needs bool; floats that are added to the scores are a bias",
     [](auto& t) { attend(t, {.mask = t(F, {6, 6})}); }},
    {"sdpa",
     "mask is bool[2,6]; matched from the last, its dims are equal to those of the scores [2,4,6,6] [batch, "
     "heads, tokens, keys], or 1",
     [](auto& t) { attend(t, {.mask = t(B, {2, 6})}); }},
    {"sdpa", "bias is f32[3,6,6]; matched from the last",
     [](auto& t) { attend(t, {.bias = t(F, {3, 6, 6})}); }},
    {"sdpa", "bias is bf16[4,6,6], needs the dtype of q f32[2,6,4,8]; convert it?",
     [](auto& t) { attend(t, {.bias = t(H, {4, 6, 6})}); }},
    {"sdpa", "window is 3 without causal: a window ends at its token",
     [](auto& t) { attend(t, {.window = 3}); }},
    {"sdpa", "window is -1, needs 1 or more", [](auto& t) { attend(t, {.causal = true, .window = -1}); }},
    {"sdpa", "q has 6 tokens, k has 7: a causal mask needs as many",
     [](auto& t) { attend(t, {.causal = true}, 7); }},
    {"sdpa", "dropout is 1, needs more than 0 and less than 1", [](auto& t) { attend(t, {.dropout = 1}); }},
    {"sdpa", "dropout is -0.1, needs more than 0", [](auto& t) { attend(t, {.dropout = -0.1}); }},
    {"sdpa", "lengths is i64[2], needs dtype i32; convert it?",
     [](auto& t) { attend(t, {.lengths = t(L, {2})}); }},
    {"sdpa", "lengths is i32[3], needs [2], one for each sequence",
     [](auto& t) { attend(t, {.lengths = t(I, {3})}); }},
    {"sdpa", "documents is i32[2,7], needs [2,6], one for each token",
     [](auto& t) { attend(t, {.documents = t(I, {2, 7})}); }},
    {"sdpa", "q has 6 tokens, k has 7: documents need as many",
     [](auto& t) { attend(t, {.documents = t(I, {2, 6})}, 7); }},
    {"sdpa", "q has 4 heads, k and v have 3: kv_heads divides heads",
     [](auto& t) { sdpa(heads(t), t(F, {2, 6, 3, 8}), t(F, {2, 6, 3, 8}), AttentionOptions{}); }},
    {"window_mask", "window is 0, needs 1 or more", [](auto& t) { window_mask(heads(t), 6, 0); }},
    {"padding_mask", "lengths is i32[2,1], needs i32 [batch], one for each sequence",
     [](auto& t) { padding_mask(t(I, {2, 1}), 6); }},
    {"rope", "dims is 5, needs an even number of 2 ... 8, the head_dim of f32[2,6,4,8]",
     [](auto& t) { rope(heads(t), {.dims = 5}); }},
    {"rope", "dims is 10, needs an even number of 2 ... 8", [](auto& t) { rope(heads(t), {.dims = 10}); }},
    {"rope", "positions is i32[2,7], needs [6] or [2,6], one for each token of f32[2,6,4,8]",
     [](auto& t) { rope(heads(t), {.positions = t(I, {2, 7})}); }},
    {"rope", "positions is f32[6], needs dtype i32; convert it?",
     [](auto& t) { rope(heads(t), {.positions = t(F, {6})}); }},
    {"rope", "factor is 0, needs a positive number", [](auto& t) { rope(heads(t), {.factor = 0}); }},
    {"rope", "low is 4 and high is 4; need 0 < low < high",
     [](auto& t) { rope(heads(t), {.factor = 8, .original = 64, .low = 4}); }},
    {"rope", "original is -1, needs 1 or more tokens",
     [](auto& t) { rope(heads(t), {.factor = 8, .original = -1}); }},
};

TEST(Attention, RefusalsNameTheLineAndBothSides) {
  for (const Refusal& refusal : kRefusals) {
    SCOPED_TRACE(refusal.words);
    Traced traced;
    try {
      refusal.call(traced);
      ADD_FAILURE() << refusal.op << ": accepted";
    } catch (const UserError& error) {
      const std::string what = error.what();
      EXPECT_EQ(what.rfind(str("[", refusal.op, "] attention_functions_test.cpp:"), 0), 0u) << what;
      EXPECT_NE(what.find(refusal.words), std::string::npos) << what;
    }
  }
}

}  // namespace
}  // namespace lockstep
