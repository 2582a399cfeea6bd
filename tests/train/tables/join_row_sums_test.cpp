// Gradients of many tables as one: the same rows, and a model that learns the same bits on any mesh.
#include "compiler/lower/join_row_sums.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/reference/evaluate.h"
#include "compiler/register_pass.h"
#include "core/functions/functions.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"
#include "tests/support/model_run.h"

namespace lockstep {
namespace {

using compiler::HostTensor;
using compiler::kMostApart;
using compiler::with_joined_row_sums;

int64_t count(const Graph& graph, OpId op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& node) { return node.op == op; });
}

// Gradients of tables of 3, 4, 5, ... rows, each read by a node before the next one is made.
Graph tables(size_t n, DType dtype, bool chained = false) {
  auto builder = std::make_shared<Builder>();
  Tensor last;
  for (size_t t = 0; t < n; ++t) {
    const Tensor ids(builder, builder->graph.add_input(InputKind::value, str("ids", t), DType::i32, {2, 5}));
    Tensor dy(builder, builder->graph.add_input(InputKind::value, str("dy", t), dtype, {2, 5, 6}));
    if (chained && last.defined()) dy = dy + sum(last);
    last = apply1(ops::embedding_grad, {dy, ids}, {{"rows", static_cast<int64_t>(t + 3)}});
    builder->graph.add_output(OutputKind::value, str("out", t), (last * 2.0).id());
  }
  return builder->graph;
}

TEST(JoinRowSums, GivesTheSameRows) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Graph apart = tables(9, dtype), joined = with_joined_row_sums(apart);
    verify(joined, "join_row_sums");
    EXPECT_EQ(count(apart, ops::embedding_grad), 9);
    EXPECT_EQ(count(joined, ops::embedding_grad), 1);
    std::vector<HostTensor> in;
    for (int64_t t = 0; t < 9; ++t) {
      HostTensor ids = compiler::make_tensor(DType::i32, {2, 5}),
                 dy = compiler::make_tensor(dtype, {2, 5, 6});
      for (int64_t i = 0; i < 10; ++i) ids.set_int_at(i, (i * 7 + t) % (t + 3));
      for (int64_t i = 0; i < 60; ++i) dy.set(i, static_cast<double>((i * 37 + t * 11) % 29 - 14) / 8);
      in.push_back(ids), in.push_back(dy);
    }
    const auto right = compiler::evaluate(apart, in), got = compiler::evaluate(joined, in);
    ASSERT_EQ(got.size(), right.size());
    for (size_t o = 0; o < got.size(); ++o)
      EXPECT_EQ(compiler::to_doubles(got[o]), compiler::to_doubles(right[o]));
  }
}

TEST(JoinRowSums, LeavesFewAndWhatDependsOnOneAnother) {
  for (const Graph& graph : {tables(kMostApart - 1, DType::f32), tables(12, DType::f32, true)})
    EXPECT_EQ(structure_hash(with_joined_row_sums(graph)), structure_hash(graph));
}

TEST(JoinRowSums, AModelLearnsTheSameBits) {
  static int64_t joined = 0;
  compiler::register_pass("join_row_sums", "test::joined", [](Graph graph) {
    Graph made = with_joined_row_sums(graph);
    joined += count(graph, ops::embedding_grad) - count(made, ops::embedding_grad);
    return made;
  });
  for (DType compute : {DType::f32, DType::bf16}) {
    tests::ModelRun run{.kind = "dlrm",
                        .options = {{"dense", 5},
                                    {"rows", {17, 23, 31, 20, 45, 24, 19, 64, 30, 33}},
                                    {"width", 4},
                                    {"bottom", {6}},
                                    {"top", {8}}}};
    run.compute = compute;
    const std::string apart = train_model(run).hash;
    run.passes = {"test::joined"};
    for (const Mesh& mesh :
         {Mesh{{1}, {"dp_replicate"}}, Mesh{{2}, {"dp_replicate"}}, Mesh{{3}, {"dp_shard"}}}) {
      run.mesh = mesh, joined = 0;
      EXPECT_EQ(train_model(run).hash, apart) << text(mesh);
      EXPECT_GE(joined, 9) << "nothing was joined in " << name(compute);
    }
  }
}

}  // namespace
}  // namespace lockstep
