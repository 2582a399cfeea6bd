// Gradients of tables on the CPU: rows added in the order of the ids, the same bits on any number of threads,
// for tables narrower and wider than a block of columns, small and large.
#include <gtest/gtest.h>

#include <cstring>

#include "compiler/codegen/library/library.h"
#include "compiler/codegen/library/primitives.h"
#include "core/base/philox.h"
#include "core/device/device.h"

namespace lockstep::compiler {
namespace {

struct Table {
  int64_t rows, width, ids;
};

std::vector<int32_t> ids_of(const Table& t) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < t.ids; ++i)  // the first and the last row, and some rows often
    out.push_back(i < 2 ? static_cast<int32_t>(i * (t.rows - 1))
                        : static_cast<int32_t>(philox::bits(1, 0, 0, i) % static_cast<uint32_t>(t.rows)));
  return out;
}

std::vector<float> updates_of(const Table& t) {
  std::vector<float> out;
  for (int64_t i = 0; i < t.ids * t.width; ++i)
    out.push_back(static_cast<float>(philox::uniform(philox::bits(2, 0, 0, i))) - 0.5f);
  return out;
}

std::vector<float> run(const Table& t, int threads) {
  Node node;
  node.op = ops::embedding_grad;
  node.attrs = {{"rows", t.rows}};
  const auto call = make_library_call(
      node, {dense_operand(DType::f32, {t.ids, t.width}), dense_operand(DType::i32, {t.ids})},
      {dense_operand(DType::f32, {t.rows, t.width})});
  std::vector<float> updates = updates_of(t), out(static_cast<size_t>(t.rows * t.width));
  std::vector<int32_t> ids = ids_of(t);
  std::memset(out.data(), 0xff, out.size() * sizeof(float));
  std::vector<void*> args{updates.data(), ids.data(), out.data()};
  call->enqueue(args.data(), nullptr, *cpu_device().make_stream(), threads);
  return out;
}

TEST(RowSums, AreTheSameOnAnyNumberOfThreads) {
  for (const Table& t : {Table{5, 3, 40}, Table{50000, 16, 3000}, Table{3000, 650, 500}, Table{2, 64, 2000},
                         Table{40000, 1, 40000}}) {
    std::vector<float> want(static_cast<size_t>(t.rows * t.width));
    const std::vector<float> updates = updates_of(t);
    const std::vector<int32_t> ids = ids_of(t);
    for (int64_t i = 0; i < t.ids; ++i)
      for (int64_t c = 0; c < t.width; ++c) want[ids[i] * t.width + c] += updates[i * t.width + c];
    for (int threads : {1, 2, 3, 8})
      EXPECT_TRUE(run(t, threads) == want) << t.rows << " x " << t.width << ", " << threads << " threads";
  }
}

}  // namespace
}  // namespace lockstep::compiler
