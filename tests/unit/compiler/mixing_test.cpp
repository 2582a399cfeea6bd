// Which steps mix the samples of their micro-batches.
#include <gtest/gtest.h>

#include "compiler/compile/micro_batch.h"
#include "compiler/trace/mixing.h"
#include "core/base/error.h"
#include "core/functions/matrices/linalg.h"
#include "core/functions/spatial/convolution.h"
#include "core/functions/spatial/pooling.h"
#include "core/models/families.h"
#include "core/nn/layers.h"
#include "core/nn/metric.h"
#include "core/nn/normalization.h"
#include "core/optim/sgd.h"
#include "core/tasks/task.h"
#include "tests/unit/compiler/mixing_case.h"

namespace lockstep {
namespace {

using compiler::BatchField;

// For B of 4 and of 6 (a size of dims besides).
std::vector<std::string> mixing(const OfBatch& of, int64_t samples = 4) {
  std::vector<std::string> out;
  for (const auto& one : found(of, samples, 3 * samples)) out.emplace_back(one.op.name());
  return out;
}
void expect_apart(const char* what, const OfBatch& of) {
  for (int64_t samples : {2, 3, 4, 6, 12})
    EXPECT_EQ(mixing(of, samples), std::vector<std::string>{}) << what << samples;
}
void expect_mixed(const char* what, const char* op, const OfBatch& of) {
  for (int64_t samples : {2, 3, 4, 6, 12}) {
    const auto found = mixing(of, samples);
    EXPECT_EQ(found, std::vector<std::string>{op}) << what << samples;
  }
}
Loss whole(const Tensor& y) { return mean_loss(y); }

TEST(Mixing, WhatIsOfOneSample) {
  expect_apart("features", [](const Tensor& x, const Tensor&) { return whole(softmax(x * 2.0 + 1.0)); });
  expect_apart("a norm of each", [](const Tensor& x, const Tensor&) { return whole(normalize(x, 2, 1)); });
  expect_apart("standardised rows", [](const Tensor& x, const Tensor&) {
    return whole((x - mean(x, {1}, true)) / stddev(x, {1}, 1, true));
  });
  expect_apart("batched products", [](const Tensor& x, const Tensor&) {
    Tensor a = reshape(x, {x.size(0), 2, 3});
    return whole(einsum("bij,bkj->bik", {a, a}));
  });
  expect_apart("merged and split", [](const Tensor& x, const Tensor&) {
    Tensor rows = reshape(x, {x.size(0) * 2, 3});
    Tensor back = reshape(softmax(rows), {x.size(0), 6});
    return whole(back * x);
  });
  expect_apart("time first", [](const Tensor& x, const Tensor&) {
    Tensor first = transpose(x, 0, 1), flat = reshape(first, {6 * x.size(0)});
    return whole(reshape(exp(flat), {6, x.size(0)}) * first);
  });
  expect_apart("two halves", [](const Tensor& x, const Tensor&) {
    Tensor both = tanh(concat({x, x * 2.0}, 0));
    return whole(slice(both, 0, 0, x.size(0)) - slice(both, 0, x.size(0), 2 * x.size(0)));
  });
  expect_apart("order in a row", [](const Tensor& x, const Tensor&) {
    return whole(sort(x, 1).values + cumsum(x, 1) + flip(x, {1}));
  });
  expect_apart("gathered of one's own", [](const Tensor& x, const Tensor& ids) {
    return whole(gather(x, 1, ids) + take_along_dim(x, ids, 1) + topk(x, 3, 1).values);
  });
  expect_apart("scattered to one's own", [](const Tensor& x, const Tensor& ids) {
    return whole(scatter_add(x, 1, ids, slice(x, 1, 0, 3)) * x);
  });
  expect_apart("noise", [](const Tensor& x, const Tensor&) { return whole(x + randn(x, x.shape())); });
  expect_apart("masks and counts", [](const Tensor& x, const Tensor& ids) {
    Tensor mask = convert(slice(ids, 1, 0, 1) > 0, DType::f32);
    metric("mask", mean_loss(mask));
    metric("sum", sum_lanes(sum(x)) / 3.0);
    return mean_loss(slice(x, 1, 0, 1), mask) +
           0.5 * Loss{sum(x) * 0.5 - sum(mask), full(x, {}, x.size(0), DType::i64)};
  });
  expect_apart("sums over a number", [](const Tensor& x, const Tensor&) {
    return -(mean_loss(x) - Loss{mean(x) / 2, full(x, {}, 1, DType::i64)} * 3) / 4;
  });
  expect_apart("a slope", [](const Tensor& x, const Tensor&) {
    Tensor slope = grad(sum(tanh(x)), {x})[0];
    return whole(square(norm(slope, 2, {1}) - 1));
  });
}

TEST(Mixing, WhatIsOfSeveral) {
  expect_mixed("centred", "sum",
               [](const Tensor& x, const Tensor&) { return whole(square(x - mean(x, {0}, true))); });
  expect_mixed("all pairs", "dot", [](const Tensor& x, const Tensor&) {
    return cross_entropy(matmul(x, transpose(x, 0, 1)), iota(x, {x.size(0)}, 0, DType::i32));
  });
  expect_mixed("pairs by a difference", "sub", [](const Tensor& x, const Tensor&) {
    Tensor a = slice(x, 1, 0, 1);
    return whole(exp(a - transpose(a, 0, 1)));
  });
  expect_mixed("the largest of a batch", "max",
               [](const Tensor& x, const Tensor&) { return whole(x - max(x, {0}, true)); });
  expect_mixed("softmax over the batch", "max",
               [](const Tensor& x, const Tensor&) { return whole(square(softmax(x, 0))); });
  expect_mixed("a covariance", "dot",
               [](const Tensor& x, const Tensor&) { return whole(square(matmul(transpose(x, 0, 1), x))); });
  expect_mixed("a ratio of sums", "sum", [](const Tensor& x, const Tensor& ids) {
    Tensor mask = convert(slice(ids, 1, 0, 1) > 0, DType::f32);
    return whole(sum(mask * slice(x, 1, 0, 1)) / sum(mask));
  });
  expect_mixed("a count of at least one", "sum", [](const Tensor& x, const Tensor& ids) {
    Tensor count = sum(convert(ids > 0, DType::i64));
    return Loss{sum(x), maximum(count, full_like(count, 1))};
  });
  expect_mixed("some samples", "slice",
               [](const Tensor& x, const Tensor&) { return whole(slice(x, 0, 0, 1)); });
  expect_mixed("neighbours", "take", [](const Tensor& x, const Tensor&) { return whole(x * flip(x, {0})); });
  const OfBatch pairs = [](const Tensor& x, const Tensor&) {
    return whole(square(sum(reshape(x, {x.size(0) / 2, 2, 6}), {1})));
  };
  EXPECT_EQ(mixing(pairs, 4), std::vector<std::string>{"reshape"});
}

// Functions along other dims than that of the samples, those that gather by places among them.
TEST(Mixing, OfFunctions) {
  const auto image = [](const Tensor& x) { return reshape(concat({x, x, x, x}, 1), {x.size(0), 2, 3, 4}); };
  const auto square_of = [](const Tensor& x) {
    return reshape(concat({x, slice(x, 1, 0, 3)}, 1), {x.size(0), 3, 3});
  };
  const std::pair<const char*, OfBatch> functions[] = {
      {"repeat", [](auto& x, auto&) { return whole(repeat(x, {1, 2}) + repeat_interleave(x, 2, 1)); }},
      {"pad, roll, select",
       [](auto& x, auto&) {
         return whole(pad(roll(x, 1, 1), {0, 1}, {0, 1}, 0.5)) + whole(select(x, 1, 2));
       }},
      {"stack, unbind",
       [](auto& x, auto&) { return whole(stack(unbind(x, 1), 1)) + whole(stack({x, x}, 0)); }},
      {"einsum",
       [](auto& x, auto&) {
         return whole(einsum("bi,bi->b", {x, x})) + whole(einsum("bi,bj->bij", {x, x}));
       }},
      {"sort",
       [](auto& x, auto&) { return whole(median(x, 1).values) + whole(convert(argsort(x, 1), DType::f32)); }},
      {"embedding",
       [](auto& x, auto& ids) {
         Tensor table = full(x, {5, 6}, 0.5, DType::f32);
         return whole(embedding(table, ids)) + whole(embedding_bag(table, ids)) +
                whole(embedding_bag(table, ids, Bag::max)) + whole(convert(one_hot(ids, 5), DType::f32));
       }},
      {"scatter",
       [](auto& x, auto& ids) {
         return whole(scatter(x, 1, ids, 0.5) + scatter(x, 1, ids, slice(x, 1, 0, 3)));
       }},
      {"nodes and edges",
       [](auto& x, auto&) {
         Tensor edges = iota(x, {9}, 0, DType::i32) % 6.0, nodes = unsqueeze(x, -1);
         Tensor sent = index_select(nodes, 1, edges);
         Tensor got = index_add(edges, movedim(sent, 1, 0), 6);
         return whole(movedim(got, 0, 1) / norm(nodes, 2, {1, 2}, true));
       }},
      {"searchsorted",
       [](auto& x, auto&) { return whole(convert(searchsorted(linspace(x, -1, 1, 5), x), DType::f32)); }},
      {"convolution",
       [&](auto& x, auto&) {
         Tensor w = full(x, {4, 2, 3, 3}, 0.1, DType::f32);
         return whole(convolution(image(x), w, {}, {.padding = {1}}));
       }},
      {"pooling",
       [&](auto& x, auto&) {
         Tensor y = image(x);
         return whole(max_pool(y, {2})) + whole(avg_pool(y, {2})) + whole(adaptive_avg_pool(y, {2, 3})) +
                whole(adaptive_max_pool(y, {2, 3})) + whole(global_avg_pool(y)) + whole(global_max_pool(y)) +
                whole(fold(unfold(y, {2, 2}), {3, 4}, {2, 2}));
       }},
      {"images",
       [&](auto& x, auto&) {
         Tensor y = image(x), grid = tanh(reshape(concat({x, x}, 1), {x.size(0), 2, 3, 2}));
         return whole(interpolate_nearest(y, {5, 6})) + whole(interpolate_linear(y, {5, 6})) +
                whole(interpolate_cubic(y, {5, 6})) + whole(grid_sample(y, grid)) + whole(group_norm(y, 2)) +
                whole(instance_norm(y)) + whole(pixel_unshuffle(slice(y, 2, 0, 2), 2));
       }},
      {"attention",
       [](auto& x, auto& ids) {
         Tensor q = reshape(x, {x.size(0), 3, 2, 1}), lengths = select(ids, 1, 0);
         Loss all = whole(sdpa(q, q, q)) + whole(sdpa(q, q, q, {.causal = false, .dropout = 0.1}));
         return all + whole(sdpa(q, q, q, {.causal = false, .lengths = lengths})) +
                whole(sdpa(q, q, q, {.causal = true, .documents = ids}));
       }},
      {"matrices",
       [&](auto& x, auto&) {
         Tensor a = square_of(x);
         return whole(inverse(a)) + whole(det(a)) + whole(solve(a, a)) + whole(cholesky(a)) +
                whole(diagonal(a)) + whole(matrix_norm(a, 1)) + whole(trace(a));
       }},
      {"losses",
       [](auto& x, auto& ids) {
         Tensor t = select(ids, 1, 0), sign = where(t > 0, full_like(t, 1), full_like(t, -1));
         Loss all =
             cross_entropy(x, t) +
             cross_entropy(x, t, {.weight = full(x, {6}, 0.5, DType::f32), .smoothing = 0.1, .z_loss = 1e-3});
         all += soft_cross_entropy(x, softmax(x)) + nll_loss(log_softmax(x, 1), t) + huber_loss(x, tanh(x));
         all += kl_div(log_softmax(x, 1), softmax(x)) + multi_margin_loss(x, t) +
                triplet_margin_loss(x, x * 2, x * 3);
         all += cosine_embedding_loss(x, x * 2, sign) + gaussian_nll_loss(x, tanh(x), exp(x)) +
                poisson_nll_loss(x, exp(x));
         Tensor times = permute(log_softmax(reshape(concat({x, x}, 1), {x.size(0), 4, 3}), 2), {1, 0, 2});
         return all + ctc_loss(times, slice(ids, 1, 0, 2), full_like(t, 4), full_like(t, 2));
       }},
      {"a mixture per token",
       [](auto& x, auto&) {
         Tensor p = softmax(x), best = topk(p, 2, 1).values, index = topk(p, 2, 1).indices;
         Tensor share = sum(
             convert(unsqueeze(index, -1) == iota(x, {6}, 0, DType::i32), DType::f32) * unsqueeze(best, -1),
             {1});
         return whole(share / sum(best, {1}, true));
       }},
      {"dropped",
       [](auto& x, auto&) {
         return whole(dropout(x, 0.5) + dropout_samples(x, 0.5) + bernoulli(sigmoid(x)));
       }},
      {"a gradient penalty",
       [](auto& x, auto&) {
         Tensor w = full(x, {6, 1}, 0.5, DType::f32), between = x * uniform(x, {x.size(0), 1});
         Tensor slope = grad(matmul(tanh(between), w), {between})[0];
         return whole(square(norm(slope, 2, {1}) - 1));
       }},
  };
  for (const auto& [what, of] : functions) expect_apart(what, of);
}

// The shipped families, each for its own task. Batch norm mixes; nothing else does.
TEST(Mixing, OfFamilies) {
  const Json decoder = {{"vocab", 17}, {"context", 8}, {"width", 16}, {"depth", 1}, {"heads", 2}};
  auto with = [](Json options, const Json& more) {
    options.update(more);
    return options;
  };
  const Json hidden = with(decoder, {{"hidden", 20}}), image = {{"channels", 2}, {"size", 8}, {"classes", 7}};
  const std::map<std::string, Json> options{
      {"gpt", decoder},
      {"llama", hidden},
      {"qwen", hidden},
      {"gemma", with(hidden, {{"head_dim", 4}, {"kv_heads", 1}, {"logit_softcap", 20}})},
      {"mistral", with(hidden, {{"window", 3}})},
      {"bert", decoder},
      {"bert_classifier", with(decoder, {{"classes", 7}})},
      {"t5", with(hidden, {{"source_context", 6}, {"buckets", 8}, {"max_distance", 6}})},
      {"lstm", {{"vocab", 17}, {"context", 4}, {"width", 8}, {"hidden", 6}}},
      {"vit", with(image, {{"patch", 4}, {"width", 16}, {"depth", 1}, {"heads", 2}})},
      {"resnet", with(image, {{"layers", 10}, {"width", 4}, {"size", 16}})},
      {"convnext", with(image, {{"depths", {1, 1}}, {"widths", {8, 16}}, {"patch", 2}})},
      {"unet", with(image, {{"width", 4}, {"depth", 1}})},
      {"mixer", with(image, {{"width", 16}, {"depth", 1}})},
      {"dlrm", {{"dense", 5}, {"rows", {7, 3, 11}}, {"width", 4}, {"bottom", {6}}, {"top", {8}}}},
      {"vae", {{"channels", 1}, {"size", 4}, {"hidden", 12}, {"latent", 3}}},
      {"dcgan", {{"channels", 1}, {"size", 16}, {"latent", 5}, {"width", 4}}},
  };
  for (const models::Family* family : models::families()) {
    const std::string kind(family->kind);
    SCOPED_TRACE(kind);
    ASSERT_TRUE(options.count(kind)) << "give this family its smallest options here";
    for (const bool halves : {false, true}) {
      State state(solo_mesh(), 1);
      if (halves) state.compute_dtype(DType::bf16);
      const models::Model model = models::build(state.root(), kind, options.at(kind));
      const tasks::Task& task = tasks::task(family->task);
      const auto fields = task.fields(model, Json::object());
      Sgd sgd(state / "optim", {.lr = 0.1});
      std::vector<BatchField> sample;
      for (const auto& field : fields) sample.push_back({field.name, field.dtype, field.shape});
      const auto traced = [&](int64_t many) {
        return compiler::trace(
            compiler::of_samples(sample, many),
            [&](const std::vector<Tensor>& values) {
              auto objectives = task.objectives(model, tasks::Batch(fields, values), Json::object());
              sgd.update(grad(objectives[0].loss, state.parameters()));
              return objectives[0].loss;
            },
            state.policy(), 2);
      };
      const auto found = compiler::mixed_samples(traced(4), traced(12));
      if (kind == "resnet" || kind == "dcgan" || kind == "unet") {
        ASSERT_FALSE(found.empty());
        for (const auto& mixing : found) EXPECT_NE(mixing.at.scope, "");  // of a layer, by name
      } else {
        EXPECT_TRUE(found.empty()) << found[0].op << " at " << found[0].at.text();
      }
    }
  }
}

// Random numbers are of the samples where they meet them; on weights they are not, whatever their sizes.
TEST(Mixing, RandomNumbersBesideWeights) {
  using OfWeights = std::function<Tensor(const Tensor& x, const Tensor& w, const Tensor& noise)>;
  const auto places = [](int64_t samples, const OfWeights& of) {
    State state(solo_mesh(), 1);
    const Parameter w = state.root().parameter("w", {12, 6}, init::normal(0.5));
    return mixing(
        [&](const Tensor& x, const Tensor&) { return whole(square(of(x, w(x), randn(x, {12, 6})))); },
        samples);
  };
  const std::pair<const char*, OfWeights> apart[] = {
      {"noise on weights", [](auto& x, auto& w, auto& n) { return linear(x, w + n * 0.1); }},
      {"as large as they are", [](auto& x, auto& w, auto& n) { return linear(x, w * (1 + 0.1 * n)); }},
      {"of a learned size",
       [](auto& x, auto& w, auto& n) {
         return linear(x, w + n * broadcast_to(slice(slice(w, 0, 0, 1), 1, 0, 1), {12, 6}));
       }},
      {"by rows and columns",
       [](auto& x, auto& w, auto&) {
         Tensor rows = randn(x, {12}), columns = randn(x, {6});
         return linear(x, w + w * (unsqueeze(rows, 1) * unsqueeze(columns, 0)));
       }},
      {"dropped weights", [](auto& x, auto& w, auto& n) { return linear(x, where(n > 0, w, w * 0)); }},
      {"a choice among weights",
       [](auto& x, auto& w, auto&) {
         Tensor shares = gumbel_softmax(reshape(slice(w, 1, 0, 1), {12}));
         return linear(x, w * unsqueeze(shares, 1));
       }},
      {"weights of noise alone", [](auto& x, auto&, auto& n) { return linear(x, n); }},
      {"products with noise", [](auto& x, auto&, auto& n) { return matmul(x, transpose(n, 0, 1)); }},
      {"noise of a sample through weights",
       [](auto& x, auto& w, auto&) { return linear(x + randn(x, x.shape()), w); }},
      {"made of noise", [](auto& x, auto& w, auto&) { return linear(randn(x, x.shape()), w); }},
      {"made of noise, beside the batch",
       [](auto& x, auto& w, auto&) { return linear(x, w) - tanh(linear(randn(x, x.shape()), w)); }},
  };
  const std::pair<const char*, OfWeights> mixed[] = {
      {"a batch norm of what is made of noise",
       [](auto& x, auto& w, auto&) {
         Tensor y = linear(randn(x, x.shape()), w);
         return y - mean(y, {0}, true);
       }},
      {"pairs with what is made of noise",
       [](auto& x, auto& w, auto&) {
         return matmul(linear(x, w), transpose(linear(randn(x, x.shape()), w), 0, 1));
       }},
      {"the batch and noise in one norm",
       [](auto& x, auto&, auto&) {
         Tensor y = x + randn(x, x.shape());
         return y - mean(y, {0}, true);
       }},
  };
  for (int64_t samples : {2, 3, 4, 6, 12}) {
    for (const auto& [what, of] : apart)
      EXPECT_EQ(places(samples, of), std::vector<std::string>{}) << what << samples;
    for (const auto& [what, of] : mixed) EXPECT_EQ(places(samples, of).size(), 1u) << what << samples;
  }
}

}  // namespace
}  // namespace lockstep
