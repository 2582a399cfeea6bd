// The sums of a few buckets over ranks that are threads: the program of each rank is built, checked and
// executed.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "compiler/codegen/sums/halves.h"
#include "compiler/codegen/target.h"
#include "compiler/program/check/verify.h"
#include "compiler/program/sums/make_bucket_sum.h"
#include "compiler/runtime/executor.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "distributed/local/local_world.h"

namespace lockstep {

using Values = std::vector<float>;
// A bucket's tensors, and the buckets of a step.
using Shapes = std::vector<Shape>;
inline const std::vector<Shapes> kBuckets{{{7, 3}, {1}}, {{5}, {16, 2}}, {{3, 2, 2}}};

// Any float near 1 or far from it, so that the order of additions shows.
inline float gradient(int64_t micro_batch, size_t bucket, size_t tensor, int64_t i) {
  const uint32_t bits = philox::bits(11, static_cast<uint64_t>(10 * bucket + tensor),
                                     static_cast<uint64_t>(micro_batch), static_cast<uint64_t>(i));
  return std::ldexp(static_cast<float>(bits >> 8) - 8388608.0f, static_cast<int>(bits & 15) - 30);
}

struct SumCase {
  std::vector<Shapes> buckets = kBuckets;
  bool invariant = true;
  int seats = 0;            // ranks of a host, where they are on several
  bool ends_first = false;  // buckets end one after the other and are waited for afterwards, as in a step
  compiler::SumLimits limits = {SIZE_MAX, SIZE_MAX, "a device"};
  DType dtype = DType::f32;  // of the gradients
  bool rounded = false;      // values are those of bf16
  int steps = 2, threads = 1;
  bool squares = true;
};

// Of one rank: its program, where its gradients lie, and its sums by tensor.
struct SumProgram {
  compiler::StepProgram program;
  std::map<int, std::array<int64_t, 3>> gradient_of;  // region: micro-batch, bucket, tensor
  std::vector<compiler::Span> sums, squares;
};

inline SumProgram sum_program(compiler::LanePlan lanes, const compiler::RowOwners& owners,
                              const SumCase& how) {
  SumProgram out;
  compiler::ProgramWriter writer(out.program);
  out.program.rank = lanes.rank;
  if (lanes.ranks == 1) lanes.order = compiler::LaneOrder::contiguous;
  lanes.check();
  const compiler::SumPlan plan{lanes, owners, how.invariant,
                               compiler::exchanges_by_host(lanes, how.invariant, how.seats) ? how.seats : 0,
                               how.limits};
  compiler::SumTurns turns;
  std::vector<std::unique_ptr<compiler::BucketSum>> sums;
  std::vector<int64_t> bytes;  // as many a bucket sends of each dtype
  for (const Shapes& bucket : how.buckets) {
    bytes.push_back(0);
    for (const Shape& shape : bucket) bytes.back() += numel(shape);
  }
  turns.share_sets(bytes);
  std::vector<std::vector<compiler::Span>> squares;
  for (size_t b = 0; b < how.buckets.size(); ++b) {
    sums.push_back(compiler::make_bucket_sum(writer, plan, turns, b, how.buckets[b], how.dtype));
    auto& of_bucket = squares.emplace_back();
    for (size_t t = 0; t < how.buckets[b].size(); ++t)
      of_bucket.push_back(writer.region(compiler::Region::Kind::value, str("squares ", b, " ", t),
                                        owners.rows(how.buckets[b][t][0], lanes.rank).second * 8));
    if (how.squares) sums[b]->place_row_squares(of_bucket);
  }
  for (int64_t slot = 0; slot < lanes.slots(lanes.rank); ++slot)
    for (size_t b = 0; b < how.buckets.size(); ++b) {
      std::vector<compiler::Span> gradients;
      const int64_t m = lanes.micro_batch(lanes.rank, slot);
      for (size_t t = 0; m >= 0 && t < how.buckets[b].size(); ++t) {
        gradients.push_back(
            writer.region(compiler::Region::Kind::input, str("gradient ", m, " ", b, " ", t),
                          numel(how.buckets[b][t]) * static_cast<int64_t>(size_of(how.dtype))));
        out.gradient_of[gradients.back().region] = {m, static_cast<int64_t>(b), static_cast<int64_t>(t)};
      }
      sums[b]->add(slot, gradients);
    }
  for (size_t b = 0; b < how.buckets.size() && how.ends_first; ++b) sums[b]->end();
  for (size_t b = 0; b < how.buckets.size(); ++b) {
    if (!how.ends_first) sums[b]->end();
    sums[b]->wait();
    for (size_t t = 0; t < how.buckets[b].size(); ++t) {
      const Shape& shape = how.buckets[b][t];
      const auto [first, count] = owners.rows(shape[0], lanes.rank);
      const int64_t width = shape[0] ? numel(shape) / shape[0] : 0;
      const std::string name = str(b, " ", t);
      const bool whole = sums[b]->is_whole();
      const compiler::Span sum = whole && count * width > 0 ? compiler::Span{}
                                                            : writer.region(compiler::Region::Kind::value,
                                                                            "sum " + name, count * width * 4);
      compiler::SumTrees::Tree tree = sums[b]->tree_of(t, sum);
      out.sums.push_back(tree.out);
      out.squares.push_back(squares[b][t]);
      out.program.metrics.push_back({"sum " + name, out.sums.back(), DType::f32});
      if (how.squares) out.program.metrics.push_back({"squares " + name, out.squares.back(), DType::f64});
      if (!whole) writer.put(compiler::SumTrees{{std::move(tree)}});
    }
  }
  return out;
}

// A live mesh of data ranks, hosts of `seats` among them.
inline LiveMesh data_mesh(distributed::World& world, int seats) {
  LiveMesh mesh = solo_mesh();
  mesh.words = Mesh{{world.size()}, {"dp_replicate"}};
  mesh.rank = world.rank();
  mesh.world = mesh.data = world.group();
  mesh.groups = {mesh.data};
  if (seats) {
    mesh.inside = world.split(world.rank() / seats, world.rank(), "inside");
    mesh.across = world.split(world.rank() % seats, world.rank(), "across");
  }
  return mesh;
}

inline std::vector<std::byte> gradient_bytes(const std::array<int64_t, 3>& of, const SumCase& how) {
  const auto [m, b, t] = of;
  Values values;
  for (int64_t i = 0; i < numel(how.buckets[b][t]); ++i) values.push_back(gradient(m, b, t, i));
  const auto count = static_cast<int64_t>(values.size());
  std::vector<uint16_t> halves(values.size());
  if (how.rounded || how.dtype == DType::bf16) {
    compiler::narrow(DType::bf16, values.data(), halves.data(), count);
    compiler::widen(DType::bf16, halves.data(), values.data(), count);
  }
  const void* from = how.dtype == DType::bf16 ? static_cast<const void*>(halves.data())
                                              : static_cast<const void*>(values.data());
  std::vector<std::byte> out(values.size() * size_of(how.dtype));
  if (!out.empty()) std::memcpy(out.data(), from, out.size());
  return out;
}

// Sums of all tensors, bucket by bucket, and of each row the sum of its squares.
struct Sums {
  std::vector<Values> values;
  std::vector<std::vector<double>> squares;
  bool operator==(const Sums&) const = default;
};

// One rank's part of them.
inline void run_rank(distributed::World& world, compiler::LanePlan lanes, const compiler::RowOwners& owners,
                     const SumCase& how, Sums& out) {
  lanes.rank = world.rank();
  const SumProgram mine = sum_program(lanes, owners, how);
  verify(mine.program);
  const LiveMesh mesh = data_mesh(world, how.seats);
  const Graph none;
  const compiler::CompileOptions options;
  auto reductions =
      compiler::cpu_target().make_reductions({.threads = how.threads, .cache_dir = "", .tf32 = false});
  compiler::Executor executor({mine.program, none, options, nullptr, mesh, cpu_device(), *reductions, {}});
  for (const auto& [region, of] : mine.gradient_of) {
    const auto bytes = gradient_bytes(of, how);
    if (!bytes.empty()) std::memcpy(executor.at({region, 0, 0}), bytes.data(), bytes.size());
  }
  auto stream = inline_stream();
  for (int step = 0; step < how.steps; ++step) executor.run(*stream);
  size_t at = 0;
  for (const Shapes& shapes : how.buckets)
    for (const Shape& shape : shapes) {
      const auto [first, count] = owners.rows(shape[0], lanes.rank);
      const int64_t width = shape[0] ? numel(shape) / shape[0] : 0;
      const auto* sums = reinterpret_cast<const float*>(executor.at(mine.sums[at]));
      const auto* squares = reinterpret_cast<const double*>(executor.at(mine.squares[at]));
      std::copy(sums, sums + count * width, out.values[at].begin() + first * width);
      std::copy(squares, squares + count, out.squares[at].begin() + first);
      ++at;
    }
}

inline Sums summed(const compiler::LanePlan& plan, const compiler::RowOwners& owners,
                   const SumCase& how = {}) {
  Sums out;
  for (const Shapes& shapes : how.buckets)
    for (const Shape& shape : shapes) {
      out.values.emplace_back(static_cast<size_t>(numel(shape)), -7.0f);
      out.squares.emplace_back(static_cast<size_t>(shape[0]), -7.0);
    }
  distributed::with_world(plan.ranks, [&](std::shared_ptr<distributed::World> world) {
    run_rank(*world, plan, owners, how, out);
  });
  return out;
}
inline Sums on_one_rank(int64_t micro_batches, int64_t lanes, const SumCase& how = {}) {
  return summed({micro_batches, lanes, 1, 0}, compiler::RowOwners::alone(1), how);
}

}  // namespace lockstep
