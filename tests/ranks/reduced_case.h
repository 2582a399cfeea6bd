// Gradients of a few buckets, reduced over ranks that are threads: what reducers are compared by.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "compiler/codegen/sums/halves.h"
#include "compiler/reduce/gradient_reducer.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "distributed/local/local_world.h"

namespace lockstep {

using Values = std::vector<float>;
inline const std::vector<std::vector<Shape>> kBuckets{{{7, 3}, {1}}, {{5}, {16, 2}}, {{3, 2, 2}}};

inline float gradient(int64_t micro_batch, size_t bucket, size_t tensor, int64_t i) {
  const uint32_t bits = philox::bits(11, static_cast<uint64_t>(10 * bucket + tensor),
                                     static_cast<uint64_t>(micro_batch), static_cast<uint64_t>(i));
  return std::ldexp(static_cast<float>(bits >> 8) - 8388608.0f, static_cast<int>(bits & 15) - 30);
}

// The CPU's additions, of fewer partials at once.
class AddsFew : public Reductions {
 public:
  explicit AddsFew(size_t most) : most_(most), cpu_(cpu_target().make_reductions({})) {}
  void accumulate(std::span<const Run> runs, std::span<const float* const> lefts, float* to,
                  Stream& stream) override {
    cpu_->accumulate(runs, lefts, to, stream);
  }
  void sum(std::span<const Sum> sums, Stream& stream) override {
    for (const Sum& one : sums) EXPECT_LE(one.sources.size(), most_);
    cpu_->sum(sums, stream);
  }
  size_t most_sources() const override { return most_; }
  void limbs(std::span<const Doubles>, int64_t*, Stream&) override {}
  void norm_of_limbs(const int64_t*, float*, Stream&) override {}
  void copy(std::span<const Copy> copies, Stream& stream) override { cpu_->copy(copies, stream); }
  void checksums(std::span<const Bytes>, uint64_t*, const int64_t*, Stream&) override {}
  void add(int64_t*, const int64_t*, int64_t, Stream&) override {}

 private:
  size_t most_;
  std::unique_ptr<Reductions> cpu_;
};

struct Reduced {
  bool invariant = true;
  int steps = 2;
  int seats = 0;            // ranks of a host, where they are on several
  bool ends_first = false;  // buckets end one after the other and are waited for afterwards, as in a step
  size_t most_sources = SIZE_MAX;
  DType dtype = DType::f32;  // of the gradients
  bool rounded = false;      // values are those of bf16
};
// Sums of all tensors, bucket by bucket, after all steps.
inline std::vector<Values> reduced(const LanePlan& plan, const RowOwners& owners, const Reduced& how = {}) {
  std::vector<Values> out;
  for (const auto& shapes : kBuckets)
    for (const Shape& shape : shapes) out.emplace_back(static_cast<size_t>(numel(shape)), NAN);
  with_world(plan.ranks, [&](std::shared_ptr<World> world) {
    Group& group = *world->group();
    LanePlan mine = plan;
    DataNodes nodes;
    std::shared_ptr<Group> inside, across;
    if (how.seats) {
      inside = world->split(world->rank() / how.seats, world->rank(), "inside");
      across = world->split(world->rank() % how.seats, world->rank(), "across");
      nodes = {how.seats, inside.get(), across.get()};
    }
    mine.rank = group.rank();
    auto reductions = std::make_unique<AddsFew>(how.most_sources);
    auto stream = inline_stream();
    auto reducers = make_reducers(kBuckets, mine, owners, cpu_device(), *reductions, how.invariant, nodes,
                                  std::vector<DType>(kBuckets.size(), how.dtype));
    for (int step = 0; step < how.steps; ++step) {
      for (auto& reducer : reducers.buckets) reducer->begin();
      for (int64_t slot = 0; slot < mine.slots(mine.rank); ++slot)
        for (size_t b = 0; b < kBuckets.size(); ++b) {
          const int64_t m = mine.micro_batch(mine.rank, slot);
          std::vector<Values> values;
          std::vector<const void*> pointers;
          for (size_t t = 0; m >= 0 && t < kBuckets[b].size(); ++t) {
            values.emplace_back();
            for (int64_t i = 0; i < numel(kBuckets[b][t]); ++i) values.back().push_back(gradient(m, b, t, i));
            const auto count = static_cast<int64_t>(values.back().size());
            if (!how.rounded && how.dtype == DType::f32) continue;
            std::vector<uint16_t> halves(values.back().size());
            narrow(DType::bf16, values.back().data(), halves.data(), count);
            widen(DType::bf16, halves.data(), values.back().data(), count);
            if (how.dtype == DType::bf16)
              std::memcpy(values.back().data(), halves.data(), halves.size() * sizeof(uint16_t));
          }
          for (const auto& v : values) pointers.push_back(v.data());
          reducers.buckets[b]->add(slot, pointers, group, *stream, "exchange");
          for (auto& v : values) std::fill(v.begin(), v.end(), NAN);  // they have been read
        }
      size_t at = 0;
      for (size_t b = 0; b < kBuckets.size() && how.ends_first; ++b)
        reducers.buckets[b]->end(group, *stream, str("exchange ", b));
      for (size_t b = 0; b < kBuckets.size(); ++b) {
        if (!how.ends_first) reducers.buckets[b]->end(group, *stream, str("exchange ", b));
        reducers.buckets[b]->wait(*stream);
        for (size_t t = 0; t < kBuckets[b].size(); ++t, ++at) {
          auto [first, count] = owners.rows(kBuckets[b][t][0], mine.rank);
          const int64_t width = numel(kBuckets[b][t]) / kBuckets[b][t][0];
          Values sums(static_cast<size_t>(count * width));
          auto sum = reducers.buckets[b]->sum_of(t, sums.data(), nullptr);
          if (count) reductions->sum({&sum, 1}, *stream);
          std::copy(sums.begin(), sums.end(), out[at].begin() + first * width);
        }
      }
    }
  });
  return out;
}

}  // namespace lockstep
