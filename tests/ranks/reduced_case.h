// Gradients of a few buckets, reduced over ranks that are threads: what reducers are compared by.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "compiler/run/gradient_reducer.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "distributed/local/local_world.h"

namespace lockstep {

using Values = std::vector<float>;
inline const std::vector<std::vector<Shape>> kBuckets{{{7, 3}, {1}}, {{5}, {16, 2}}, {{3, 2, 2}}};

inline float gradient(int64_t micro_batch, size_t bucket, size_t tensor, int64_t i) {
  const uint32_t bits = philox::bits(11, static_cast<uint64_t>(10 * bucket + tensor), static_cast<uint64_t>(micro_batch), static_cast<uint64_t>(i));
  return std::ldexp(static_cast<float>(bits >> 8) - 8388608.0f, static_cast<int>(bits & 15) - 30);
}

// Sums of all tensors, bucket by bucket, after `steps` steps. `seats`: ranks of a host, where they are on several. With `ends_first` the
// buckets end one after the other and are waited for afterwards, as in a step.
inline std::vector<Values> reduced(const LanePlan& plan, const RowOwners& owners, bool invariant = true, int steps = 2, int seats = 0,
                                   bool ends_first = false) {
  std::vector<Values> out;
  for (const auto& shapes : kBuckets)
    for (const Shape& shape : shapes) out.emplace_back(static_cast<size_t>(numel(shape)), NAN);
  with_world(plan.ranks, [&](std::shared_ptr<World> world) {
    Group& group = *world->group();
    LanePlan mine = plan;
    DataNodes nodes;
    std::shared_ptr<Group> inside, across;
    if (seats) {
      inside = world->split(world->rank() / seats, world->rank(), "inside");
      across = world->split(world->rank() % seats, world->rank(), "across");
      nodes = {seats, inside.get(), across.get()};
    }
    mine.rank = group.rank();
    auto reductions = cpu_target().make_reductions({});
    auto stream = inline_stream();
    auto reducers = make_reducers(kBuckets, mine, owners, cpu_device(), *reductions, invariant, nodes);
    for (int step = 0; step < steps; ++step) {
      for (auto& reducer : reducers.buckets) reducer->begin();
      for (int64_t slot = 0; slot < mine.slots(mine.rank); ++slot)
        for (size_t b = 0; b < kBuckets.size(); ++b) {
          const int64_t m = mine.micro_batch(mine.rank, slot);
          std::vector<Values> values;
          std::vector<const void*> pointers;
          for (size_t t = 0; m >= 0 && t < kBuckets[b].size(); ++t) {
            values.emplace_back();
            for (int64_t i = 0; i < numel(kBuckets[b][t]); ++i) values.back().push_back(gradient(m, b, t, i));
          }
          for (const auto& v : values) pointers.push_back(v.data());
          reducers.buckets[b]->add(slot, pointers, group, *stream, "exchange");
          for (auto& v : values) std::fill(v.begin(), v.end(), NAN);  // they have been read
        }
      size_t at = 0;
      for (size_t b = 0; b < kBuckets.size() && ends_first; ++b) reducers.buckets[b]->end(group, *stream, str("exchange ", b));
      for (size_t b = 0; b < kBuckets.size(); ++b) {
        if (!ends_first) reducers.buckets[b]->end(group, *stream, str("exchange ", b));
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
