// Models that were written in f32, none of the tree's, trained in bf16 by one line: equal bits on any ranks,
// losses near those of f32, and every contraction in bf16 but where the model says f32.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "compiler/compile/compile.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/nn/assign.h"
#include "core/nn/convolution.h"
#include "core/ops/op.h"
#include "core/ops/precision.h"
#include "core/optim/adamw.h"
#include "distributed/local/local_world.h"

namespace lockstep {
namespace {
using compiler::BatchField;
using Batch = std::vector<Tensor>;
using Model = std::function<Loss(const Batch&)>;

constexpr int64_t kMicro = 2, kGlobal = 12;

// Layers live as long as the function that calls them.
template <class Net>
Model with(std::shared_ptr<Net> net, Loss (Net::*loss)(const Batch&) const) {
  return [=](const Batch& batch) { return ((*net).*loss)(batch); };
}
template <class Net>
Model made(State& state) {
  return with(std::make_shared<Net>(state), &Net::loss);
}

struct Mlp {
  explicit Mlp(State& s)
      : in(s / "in", 8, 32),
        out(s / "out", 32, 3),
        shift(s.root().parameter("shift", {32}, init::normal(0.1))) {}
  Loss loss(const Batch& b) const { return mse_loss(out(tanh(in(b[0])) + shift(b[0])), b[1]); }
  Linear in, out;
  Parameter shift;
};

// With running statistics of its batch norms.
struct Residual {
  explicit Residual(State& s)
      : stem(s / "stem", 3, 16, {3}, {.padding = {1}}, false),
        deep(s / "deep", 16, 16, {3}, {.padding = {1}}, false),
        head(s / "head", 16, 5),
        weight((s / "bn").parameter("weight", {16}, init::ones())),
        bias((s / "bn").parameter("bias", {16}, init::zeros())),
        running((s / "bn").buffer("running_mean", DType::f32, {16}, init::zeros())) {}
  Loss loss(const Batch& b) const {
    BatchNorm first = batch_norm(stem(b[0]), weight(b[0]), bias(b[0]));
    Tensor x = relu(first.y);
    x = relu(group_norm(deep(x), 4, weight(x), bias(x)) + x);
    Tensor batches = convert(sum_lanes(full(x, {}, 1, DType::i64)), DType::f32);
    assign(running, running(x) * 0.9 + sum_lanes(first.mean) / batches * 0.1);
    return cross_entropy(head(global_avg_pool(max_pool(x, {2}))), b[1]);
  }
  Conv2d stem, deep;
  Linear head;
  Parameter weight, bias, running;
};

// Attention by hand: scores, a mask, probabilities, a mixture.
Tensor attention(Tensor q, Tensor k, Tensor v, Tensor mask, Tensor bias) {
  Tensor scores = matmul(q, transpose(k, -1, -2)) / std::sqrt(static_cast<double>(q.size(-1))) + bias;
  scores = where(mask, scores, full_like(scores, -1e9));
  return matmul(softmax(scores), v);
}
Tensor heads_of(Tensor x) {
  return permute(reshape(x, {x.size(0), x.size(1), 2, x.size(2) / 2}), {0, 2, 1, 3});
}
Tensor joined(Tensor x) { return reshape(permute(x, {0, 2, 1, 3}), {x.size(0), x.size(2), -1}); }

struct Block {
  Block(Scope s, int64_t tokens)
      : one(s / "one", 16),
        two(s / "two", 16),
        qkv(s / "qkv", 16, 48),
        out(s / "out", 16, 16),
        up(s / "up", 16, 32),
        down(s / "down", 32, 16),
        drop(s / "drop", 0.1),
        near(s.parameter("near", {2, tokens, tokens}, init::normal(0.1))) {}
  Tensor operator()(Tensor x, Tensor mask, bool by_hand) const {
    auto parts = split(qkv(one(x)), 2, {16, 16, 16});
    Tensor mixed;
    if (by_hand) {
      mixed = joined(attention(heads_of(parts[0]), heads_of(parts[1]), heads_of(parts[2]), mask, near(x)));
    } else {
      auto four = [](Tensor t) { return reshape(t, {t.size(0), t.size(1), 2, 8}); };
      mixed = reshape(sdpa(four(parts[0]), four(parts[1]), four(parts[2]), {.bias = near(x)}), x.shape());
    }
    x = x + drop(out(mixed));
    return x + drop(down(gelu(up(two(x)))));
  }
  LayerNorm one, two;
  Linear qkv, out, up, down;
  Dropout drop;
  Parameter near;  // what is added to the scores
};

// A class token and positions, read as they are.
struct Vit {
  explicit Vit(State& s)
      : patches(s / "patches", 12, 16),
        head(s / "head", 16, 5),
        norm(s / "norm", 16),
        block(s / "block", 10),
        token(s.root().parameter("token", {1, 1, 16}, init::normal(0.02))),
        places(s.root().parameter("places", {1, 10, 16}, init::normal(0.02))) {}
  Loss loss(const Batch& b) const {
    Tensor x = permute(reshape(b[0], {kMicro, 3, 3, 2, 3, 2}), {0, 2, 4, 1, 3, 5});
    x = patches(reshape(x, {kMicro, 9, 12}));
    x = concat({broadcast_to(token(x), {kMicro, 1, 16}), x}, 1) + places(x);
    x = norm(block(x, {}, false));
    return cross_entropy(head(select(x, 1, 0)), b[1]);
  }
  Linear patches, head;
  LayerNorm norm;
  Block block;
  Parameter token, places;
};

// Padded sequences, masked by hand; the table of positions is read by ids; the head is tied.
struct Bert {
  explicit Bert(State& s)
      : words(s / "words", 13, 16),
        norm(s / "norm", 16),
        block(s / "block", 6),
        places(s.root().parameter("places", {6, 16}, init::normal(0.02))) {}
  Loss loss(const Batch& b) const {
    Tensor x = words(b[0]) + embedding(places(b[0]), iota(b[0], {6}, 0, DType::i32));
    Tensor mask = reshape(b[0] != 0, {kMicro, 1, 1, 6});
    x = norm(block(x, mask, true));
    return nll_loss(log_softmax(words.logits(x)), where(b[1] == 0, full_like(b[1], -100), b[1]));
  }
  Embedding words;
  LayerNorm norm;
  Block block;
  Parameter places;
};

struct Lstm {
  explicit Lstm(State& s)
      : words(s / "words", 13, 16), gates(s / "gates", 32, 64), head(s / "head", 16, 13) {}
  Loss loss(const Batch& b) const {
    Tensor x = words(b[0]), h = full(x, {kMicro, 16}, 0, DType::f32), c = h;
    std::vector<Tensor> all;
    for (int64_t t = 0; t < 3; ++t) {
      auto parts = chunk(gates(concat({select(x, 1, t), h}, 1)), 4, 1);
      c = sigmoid(parts[1]) * c + sigmoid(parts[0]) * tanh(parts[2]);
      h = sigmoid(parts[3]) * tanh(c);
      all.push_back(h);
    }
    return cross_entropy(head(stack(all, 1)), slice(b[1], 1, 0, 3));
  }
  Embedding words;
  Linear gates, head;
};

struct Vae {
  explicit Vae(State& s)
      : in(s / "in", 8, 32),
        mean(s / "mean", 32, 4),
        spread(s / "spread", 32, 4),
        back(s / "back", 4, 32),
        out(s / "out", 32, 3) {}
  Loss loss(const Batch& b) const {
    Tensor h = relu(in(b[0])), m = mean(h), s = spread(h);
    Tensor z = m + randn(m, m.shape()) * exp(s * 0.5);
    Loss made = binary_cross_entropy_with_logits(out(silu(back(z))), convert(b[1] > 0, DType::f32));
    made.sum += sum((exp(s) + m * m - 1.0 - s) * 0.5);
    return made;
  }
  Linear in, mean, spread, back, out;
};

// Experts as one tensor, chosen by gates that stay f32.
struct Experts {
  explicit Experts(State& s)
      : gate(s / "gate", 8, 4, false),
        up(s.root().parameter("up", {4, 8, 16}, init::normal(0.2))),
        down(s.root().parameter("down", {4, 16, 3}, init::normal(0.2))) {}
  Loss loss(const Batch& b) const {
    Tensor scores;
    {
      const Precision exact(b[0], DType::f32);
      scores = gate(b[0]);
    }
    Tensor shares = softmax(scores);
    ValuesAndIndices best = topk(shares, 2);
    Tensor kept = where(shares >= min(best.values, {-1}, true), shares, full_like(shares, 0));
    Tensor hidden = gelu(einsum("bi,eih->beh", {b[0], up(b[0])}));
    Tensor y = einsum("be,beh,eho->bo", {kept / sum(kept, {-1}, true), hidden, down(b[0])});
    return mse_loss(y, b[1]);
  }
  Linear gate;
  Parameter up, down;
};

// Tables, products of all pairs, a click.
struct Dlrm {
  explicit Dlrm(State& s) : users(s / "users", 13, 8), bottom(s / "bottom", 8, 8), top(s / "top", 57, 1) {}
  Loss loss(const Batch& b) const {
    Tensor x = relu(bottom(b[0])), all = concat({reshape(x, {kMicro, 1, 8}), users(b[1])}, 1);
    Tensor pairs = bmm(all, transpose(all, 1, 2));
    Tensor y = squeeze(top(concat({x, reshape(pairs, {kMicro, 49})}, 1)), -1);
    return binary_cross_entropy_with_logits(y, convert(select(b[1], 1, 0) > 5, DType::f32));
  }
  Embedding users;
  Linear bottom, top;
};

// A generator by transposed convolution, a smooth loss on what it draws.
struct Unet {
  explicit Unet(State& s)
      : down(s / "down", 3, 8, {2}, {.stride = {2}}),
        up(s / "up", 8, 3, {2}, {.stride = {2}}),
        slope(s.root().parameter("slope", {8}, init::constant(0.25))) {}
  Loss loss(const Batch& b) const {
    Tensor middle = prelu(down(b[0]), slope(b[0]));
    Tensor y = up(middle) + interpolate_linear(interpolate_linear(b[0], {3, 3}), {6, 6});
    return huber_loss(y, b[0]);
  }
  Conv2d down;
  ConvTranspose2d up;
  Parameter slope;
};

// A penalty on the gradient of inputs, differentiated again, and a gradient by hand.
struct Critic {
  explicit Critic(State& s) : in(s / "in", 8, 16), out(s / "out", 16, 1) {}
  Loss loss(const Batch& b) const {
    const CustomGradient steps = custom_gradient(
        [](const Batch& x) { return Computed{{round(x[0] * 8.0) / 8.0}}; },
        [](const Batch&, const Batch& dy) { return Batch{cumsum(dy[0], 0) - cumsum(dy[0], 0) + dy[0]}; });
    Tensor y = out(steps({tanh(in(b[0]))})[0]), smooth = out(tanh(in(b[0])));
    Tensor slope = norm(grad(sum(smooth), {b[0]})[0], 2, {1}) - 1.0;
    return mean_loss(square(squeeze(y, -1) - select(b[1], 1, 0)) + square(slope));
  }
  Linear in, out;
};

struct Case {
  const char* name;
  std::vector<BatchField> fields;
  Model (*make)(State&);
  double tolerance = 1e-2;  // of the last loss beside f32's, relative
  int exact = 0;            // contractions in f32, forward and backward: what the model or a function says
};
const BatchField kRows{"rows", DType::f32, {kMicro, 8}}, kWanted{"wanted", DType::f32, {kMicro, 3}},
    kImages{"images", DType::f32, {kMicro, 3, 6, 6}}, kLabels{"labels", DType::i32, {kMicro}},
    kIds{"ids", DType::i32, {kMicro, 6}}, kNext{"next", DType::i32, {kMicro, 6}};
const Case kCases[] = {
    {"mlp", {kRows, kWanted}, made<Mlp>},
    {"resnet", {kImages, kLabels}, made<Residual>},
    {"vit", {kImages, kLabels}, made<Vit>},
    {"bert", {kIds, kNext}, made<Bert>},
    {"lstm", {kIds, kNext}, made<Lstm>},
    {"vae", {kRows, kWanted}, made<Vae>},
    {"experts", {kRows, kWanted}, made<Experts>, 1e-2, 2},
    {"dlrm", {kRows, kIds}, made<Dlrm>},
    {"unet", {kImages}, made<Unet>, 1e-2, 4},
    {"critic", {kRows, kWanted}, made<Critic>},
};

struct Arrangement {
  const char* name;
  Mesh mesh{{1}, {"dp_replicate"}};
};
struct Result {
  std::vector<double> losses;
  std::string hash;
};

void fill(const std::vector<BatchField>& fields, int64_t step, int64_t first, int64_t count,
          const std::vector<void*>& to) {
  for (size_t f = 0; f < fields.size(); ++f) {
    const int64_t each = numel(fields[f].shape) / kMicro;
    for (int64_t e = 0; e < count * each; ++e) {
      const float u = philox::uniform(
          philox::bits(5, f, static_cast<uint64_t>(step % 3), static_cast<uint64_t>(first * each + e)));
      if (fields[f].dtype == DType::f32)
        static_cast<float*>(to[f])[e] = 2 * u - 1;
      else
        static_cast<int32_t*>(to[f])[e] = static_cast<int32_t>(u * (fields[f].shape.size() == 1 ? 5 : 13));
    }
  }
}

compiler::StepFunction step_of(State& state, const Model& loss_of, AdamW& adamw) {
  return [&, loss_of](const Batch& batch) {
    Loss loss = loss_of(batch);
    adamw.update(grad(loss, state.parameters()));
    return loss;
  };
}

Result train(const Case& model, DType compute, const Mesh& words) {
  Result out;
  distributed::local_mesh(static_cast<int>(words.size()), words, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    const Model loss_of = model.make(state);
    AdamW adamw(state / "optim", {.lr = 1e-2, .clip = 1});
    state.compute_dtype(compute);  // the one line
    compiler::Step step = compile(state, model.fields, {kGlobal, kMicro, 0},
                                  [&](const Batch& batch) {
                                    Loss loss = loss_of(batch);
                                    adamw.update(grad(loss, state.parameters()));
                                    return loss;
                                  },
                                  {});
    state.materialize();
    std::vector<double> losses;
    for (int64_t i = 1; i <= 8; ++i) {
      auto result = step.run({i, [&](int64_t first, int64_t count, const std::vector<void*>& to) {
                                fill(model.fields, i, first, count, to);
                              }});
      losses.push_back(result.metrics.at("loss"));
    }
    std::string hash = state_hash(std::as_const(state).arrays(), mesh);
    for (const Array* array : std::as_const(state).arrays())
      EXPECT_EQ(array->dtype, DType::f32) << array->fqn << ": the state stays f32";
    if (mesh.rank == 0) out = {losses, hash};
  });
  return out;
}

std::ostream& operator<<(std::ostream& out, const Case& model) { return out << model.name; }
class Policy : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Models, Policy, testing::ValuesIn(kCases),
                         [](const auto& given) { return std::string(given.param.name); });

TEST_P(Policy, OneLineTrainsInBf16WithEqualBitsOnAnyRanks) {
  const Mesh one{{1}, {"dp_replicate"}};
  const Result full = train(GetParam(), DType::f32, one), half = train(GetParam(), DType::bf16, one);
  EXPECT_NE(half.losses, full.losses) << "nothing was rounded";
  EXPECT_LT(half.losses.back(), half.losses.front());
  EXPECT_NEAR(half.losses.back(), full.losses.back(), GetParam().tolerance * std::fabs(full.losses.back()));
  const Arrangement ways[] = {{"2 ranks", {{2}, {"dp_replicate"}}},
                              {"3 ranks", {{3}, {"dp_replicate"}}},
                              {"2 ranks, sharded", {{2}, {"dp_shard"}}}};
  for (const Arrangement& way : ways) {
    const Result many = train(GetParam(), DType::bf16, way.mesh);
    EXPECT_EQ(half.losses, many.losses) << way.name;
    EXPECT_EQ(half.hash, many.hash) << way.name;
  }
}

class F16 : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Models, F16, testing::Values(kCases[0], kCases[1], kCases[3]),
                         [](const auto& given) { return std::string(given.param.name); });

// The same line with f16: a loss scale comes with it, and is the same on all ranks.
TEST_P(F16, OneLineTrainsWithALossScale) {
  const Result full = train(GetParam(), DType::f32, {{1}, {"dp_replicate"}}),
               half = train(GetParam(), DType::f16, {{1}, {"dp_replicate"}});
  EXPECT_NE(half.losses, full.losses) << "nothing was rounded";
  EXPECT_NEAR(half.losses.back(), full.losses.back(), GetParam().tolerance * std::fabs(full.losses.back()));
  const Result many = train(GetParam(), DType::f16, {{3}, {"dp_shard"}});
  EXPECT_EQ(half.losses, many.losses);
  EXPECT_EQ(half.hash, many.hash);
}

// Not only the layers': products by hand, of weights and inputs that are f32, too. What is kept between
// kernels besides is f32 where dtypes met.
TEST_P(Policy, ContractionsAreRoundedAndTheRestIsNot) {
  const LiveMesh mesh = solo_mesh();
  State state(mesh, 3);
  const Model loss_of = GetParam().make(state);
  AdamW adamw(state / "optim", {.lr = 1e-2, .clip = 1});
  auto count = [&](DType compute) {
    state.compute_dtype(compute);
    const compiler::StepPlan plan = compiler::plan_step(
        state, mesh.words, GetParam().fields, {kGlobal, kMicro, 0}, step_of(state, loss_of, adamw), {});
    std::map<DType, int> contractions;
    for (const Node& node : plan.phases.body.graph.nodes) {
      const Library library = op_row(node.op).library;
      if (library == Library::none || library >= Library::row_sums) continue;
      ++contractions[plan.phases.body.graph[node.inputs[0]].dtype];
    }
    for (const Node& node : plan.phases.whole.nodes)
      for (ValueId v : node.outputs)
        EXPECT_TRUE(op_row(node.op).kind != OpKind::update || plan.phases.whole[v].dtype == DType::f32)
            << node.op;
    return contractions;
  };
  auto full = count(DType::f32), half = count(DType::bf16);
  EXPECT_GT(full[DType::f32], GetParam().exact);
  EXPECT_EQ(half[DType::bf16], full[DType::f32] - GetParam().exact);
  EXPECT_EQ(half[DType::f32], GetParam().exact);
}

}  // namespace
}  // namespace lockstep
