// Which steps read how many samples a micro-batch has, or count for it what is the step's.
#include <gtest/gtest.h>

#include "compiler/compile/micro_batch.h"
#include "compiler/trace/mixing.h"
#include "core/functions/functions.h"
#include "core/nn/metric.h"
#include "tests/unit/compiler/mixing_case.h"

namespace lockstep {
namespace {

Loss whole(const Tensor& y) { return mean_loss(y); }

// What micro-batches change though no sample sees another: x f32 [B, 6].
TEST(Mixing, WhatReadsTheSizeOfTheBatch) {
  using compiler::Change;
  const auto count = [](const Tensor& x, double number) { return full(x, {}, number, DType::i64); };
  const auto floats = [](const Tensor& x, double number) { return full(x, {}, number, DType::f32); };
  const auto samples = [](const Tensor& x) { return static_cast<double>(x.size(0)); };
  struct Case {
    const char* what;
    Change change;
    const char* op;
    OfBatch of;
  };
  const Case changed[] = {
      {"a sample's number", Change::place, "mul",
       [](auto& x, auto&) {
         return whole(x * unsqueeze(convert(iota(x, {x.size(0)}, 0, DType::i32), DType::f32), 1));
       }},
      {"numbers from one to the next", Change::place, "mul",
       [](auto& x, auto&) { return whole(x * unsqueeze(linspace(x, 0, 1, x.size(0)), 1)); }},
      {"the first samples", Change::place, "where",
       [](auto& x, auto&) {
         Tensor early = iota(x, x.shape(), 0, DType::i32) < 2;
         return whole(where(early, x, full_like(x, 0)));
       }},
      {"ids beside a number of the sample", Change::place, "add",
       [](auto& x, auto& ids) {
         Tensor far = select(ids + iota(ids, ids.shape(), 0, DType::i32), 1, 0);
         return whole(x * unsqueeze(convert(far, DType::f32), 1));
       }},
      {"a table's row for each sample", Change::place, "mul",
       [](auto& x, auto&) {
         Tensor table = convert(iota(x, {100, 6}, 0, DType::i32), DType::f32);
         return whole(x * slice(table, 0, 0, x.size(0)));
       }},
      {"a constant count", Change::size, "full", [&](auto& x, auto&) { return Loss{sum(x), count(x, 24)}; }},
      {"a constant count of floats", Change::size, "full",
       [&](auto& x, auto&) { return Loss{sum(x), floats(x, 24)}; }},
      {"a mean over samples", Change::size, "full",
       [&](auto& x, auto&) { return Loss{mean(x), count(x, samples(x))}; }},
      {"a number beside a sum", Change::size, "add",
       [&](auto& x, auto&) { return Loss{sum(x) + 5.0, count(x, samples(x))}; }},
      {"a temperature of the batch", Change::size, "full",
       [&](auto& x, auto&) { return whole(exp(x * samples(x))); }},
      {"a clamp of the batch", Change::size, "clamp",
       [&](auto& x, auto&) { return whole(clamp(x, 0, samples(x))); }},
      {"a metric that counts micro-batches", Change::size, "full",
       [&](auto& x, auto&) {
         metric("micro-batches", sum_lanes(count(x, 1)));
         return whole(x);
       }},
      {"a metric that adds means", Change::size, "full",
       [&](auto& x, auto&) {
         metric("mean", sum_lanes(mean(x)));
         return whole(x);
       }},
      {"one draw for all", Change::draw, "rng_uniform",
       [](auto& x, auto&) { return whole(x + randn(x, {1, 6})); }},
      {"one draw for each feature", Change::draw, "rng_uniform",
       [](auto& x, auto&) { return whole(x * uniform(x, {6})); }},
      {"a drawn weight of a loss", Change::draw, "rng_uniform",
       [&](auto& x, auto&) { return Loss{sum(x) * reshape(uniform(x, {1}), {}), count(x, samples(x))}; }},
      {"a mask that all samples share", Change::draw, "dropout",
       [](auto& x, auto&) { return whole(x * dropout(full(x, {1, 6}, 1, DType::f32), 0.5)); }},
      {"another program", Change::place, "neg",
       [](auto& x, auto&) { return whole(x.size(0) > 8 ? exp(x) : -x); }},
  };
  for (const int64_t some : {2, 3, 4, 6})
    for (const auto& one : changed) {
      const auto places = found(one.of, some, 5 * some);
      ASSERT_EQ(places.size(), 1u) << one.what << some << (places.empty() ? "" : str(places[0].op));
      EXPECT_EQ(places[0].change, one.change) << one.what << some << verb(places[0].change);
      EXPECT_EQ(places[0].op.name(), one.op) << one.what << some;
    }
  const std::pair<const char*, OfBatch> apart[] = {
      {"a count of the batch", [&](auto& x, auto&) { return Loss{sum(x), count(x, samples(x))}; }},
      {"floats of the batch", [&](auto& x, auto&) { return Loss{sum(x), floats(x, 0.5 * samples(x))}; }},
      {"a mean of a micro-batch", [&](auto& x, auto&) { return Loss{mean(x) + 0.5, count(x, 1)}; }},
      {"twice, and once over it",
       [&](auto& x, auto&) { return Loss{sum(x) / samples(x) * samples(x), count(x, samples(x))}; }},
      {"a metric over its own count",
       [&](auto& x, auto&) {
         metric("mean", sum_lanes(mean(x)) / convert(sum_lanes(count(x, 1)), DType::f32));
         return whole(x);
       }},
      {"a number beside a loss", [](auto& x, auto&) { return whole(x) + 0.25; }},
      {"numbers within a sample",
       [](auto& x, auto&) {
         Tensor place = iota(x, {x.size(0) * 6}, 0, DType::i32) % 6;
         return whole(reshape(x, {x.size(0) * 6}) * convert(place, DType::f32));
       }},
      {"numbers along features",
       [](auto& x, auto&) { return whole(x * convert(iota(x, x.shape(), 1, DType::i32), DType::f32)); }},
      {"a state of zeros",
       [](auto& x, auto&) {
         Tensor h = full(x, {x.size(0), 6}, 0, DType::f32);
         for (int t = 0; t < 2; ++t) h = tanh(h + x);
         return whole(h + slice(full(x, {2 * x.size(0), 6}, 1, DType::f32), 0, 0, x.size(0)));
       }},
      {"its own draws", [](auto& x, auto&) { return whole(x + randn(x, {x.size(0), 1})); }},
      {"draws of a size that is no sample's",
       [](auto& x, auto&) { return whole(linear(x, randn(x, {5, 6}))); }},
      {"draws with time first",
       [](auto& x, auto&) { return whole(transpose(x, 0, 1) + randn(x, {6, x.size(0)})); }},
  };
  for (const int64_t some : {2, 3, 4, 6})
    for (const auto& [what, of] : apart) {
      const auto places = found(of, some, 5 * some);
      EXPECT_TRUE(places.empty()) << what << some << places[0].op << verb(places[0].change);
    }
}

}  // namespace
}  // namespace lockstep
