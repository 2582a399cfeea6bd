// Products with padded rows: the same values, operands padded once, and a model that learns the same bits on
// any mesh.
#include "compiler/lower/pad_products.h"

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
using compiler::ProductRows;
using compiler::with_padded_products;
using List = std::vector<int64_t>;

// Gains a second for each operation, and loses nothing.
ProductRows always(DType) { return {.multiple = 8, .ragged_flops = 1, .whole_flops = 1e9, .bytes = 1e30}; }

int64_t count(const Graph& graph, OpId op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& node) { return node.op == op; });
}
Attrs dot_attrs(List lb, List rb, List lc, List rc) {
  return {{"lhs_batch", lb}, {"rhs_batch", rb}, {"lhs_contract", lc}, {"rhs_contract", rc}};
}

// y = x W^T + b, dx and dW, of 6 rows.
Graph layer(int64_t in, int64_t out, DType dtype = DType::f32) {
  auto builder = std::make_shared<Builder>();
  auto input = [&](const char* name, const Shape& shape) {
    return Tensor(builder, builder->graph.add_input(InputKind::value, name, dtype, shape));
  };
  const Tensor x = input("x", {2, 3, in}), w = input("w", {out, in}), b = input("b", {out}),
               dy = input("dy", {2, 3, out});
  const Tensor y = apply1(ops::linear, {x, w, b}),
               dx = apply1(ops::dot, {dy, w}, dot_attrs({}, {}, {2}, {0})),
               dw = apply1(ops::dot, {dy, x}, dot_attrs({}, {}, {0, 1}, {0, 1}));
  for (const auto& [name, made] : {std::pair{"y", y}, {"dx", dx}, {"dw", dw}})
    builder->graph.add_output(OutputKind::value, name, made.id());
  return builder->graph;
}
std::vector<HostTensor> inputs_of(const Graph& graph) {
  std::vector<HostTensor> out;
  for (const auto& input : graph.inputs) {
    const Value& value = graph[input.value];
    out.push_back(compiler::make_tensor(value.dtype, value.shape));
    for (int64_t i = 0; i < out.back().size(); ++i)
      out.back().set(i, static_cast<double>((i * 37 + static_cast<int64_t>(out.size()) * 11) % 29 - 14) / 8);
  }
  return out;
}
void expect_same(const Graph& plain, const Graph& padded) {
  verify(padded, "pad_products");
  const auto in = inputs_of(plain);
  const auto right = compiler::evaluate(plain, in), got = compiler::evaluate(padded, in);
  ASSERT_EQ(got.size(), right.size());
  for (size_t o = 0; o < got.size(); ++o) {
    EXPECT_EQ(got[o].shape, right[o].shape);
    EXPECT_EQ(compiler::to_doubles(got[o]), compiler::to_doubles(right[o]));
  }
}
// Shapes of the products of a graph: operands, then what they make.
std::string shapes(const Graph& graph) {
  std::string out;
  for (const Node& node : graph.nodes) {
    if (node.op != ops::dot && node.op != ops::linear) continue;
    for (ValueId v : node.inputs) out += str(graph[v].shape, " ");
    out += str("> ", graph[node.outputs[0]].shape, "\n");
  }
  return out;
}

TEST(PadProducts, GivesTheSameValues) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (auto [in, out] : {std::pair<int64_t, int64_t>{5, 7}, {8, 7}, {5, 16}, {1, 1}}) {
      const Graph plain = layer(in, out, dtype), padded = with_padded_products(plain, always);
      EXPECT_GT(count(padded, ops::pad), 0);
      expect_same(plain, padded);
    }
}

TEST(PadProducts, PadsADimInEveryTensorAndAnOperandOnce) {
  const Graph wide = with_padded_products(layer(16, 30), always);  // an odd vocabulary
  EXPECT_EQ(shapes(wide),
            "[2,3,16] [32,16] [32] > [2,3,32]\n"
            "[2,3,32] [32,16] > [2,3,16]\n"
            "[2,3,32] [2,3,16] > [32,16]\n");
  EXPECT_EQ(count(wide, ops::pad), 3);    // w, b, dy
  EXPECT_EQ(count(wide, ops::slice), 2);  // y, dw
  const Graph deep = with_padded_products(layer(10, 16), always);
  EXPECT_EQ(shapes(deep),
            "[2,3,16] [16,16] [16] > [2,3,16]\n"
            "[2,3,16] [16,16] > [2,3,16]\n"
            "[2,3,16] [2,3,16] > [16,16]\n");
  EXPECT_EQ(count(deep, ops::pad), 2);    // x, w
  EXPECT_EQ(count(deep, ops::slice), 2);  // dx, dw
}

TEST(PadProducts, TakesDimsByTheirRole) {
  auto builder = std::make_shared<Builder>();
  auto input = [&](const char* name, const Shape& shape) {
    return Tensor(builder, builder->graph.add_input(InputKind::value, name, DType::f32, shape));
  };
  const Tensor a = input("a", {3, 5, 6}), b = input("b", {6, 3, 7});
  const Tensor batched = apply1(ops::dot, {a, b}, dot_attrs({0}, {1}, {2}, {0}));
  const Tensor by_last =
      apply1(ops::dot, {input("c", {5, 3}), input("d", {4, 3})}, dot_attrs({1}, {1}, {}, {}));
  builder->graph.add_output(OutputKind::value, "e", batched.id());
  builder->graph.add_output(OutputKind::value, "f", by_last.id());
  const Graph padded = with_padded_products(builder->graph, always);
  expect_same(builder->graph, padded);
  EXPECT_EQ(shapes(padded),
            "[3,5,8] [8,3,8] > [3,5,8]\n"
            "[5,3] [4,3] > [3,5,4]\n");  // a batch dim is no row of a product
}

TEST(PadProducts, LeavesWhatGainsNothing) {
  const auto hash = [](const Graph& graph) { return structure_hash(graph); };
  const Graph ragged = layer(5, 7), even = layer(16, 8), empty = layer(5, 0);
  EXPECT_EQ(hash(with_padded_products(even, always)), hash(even));
  EXPECT_EQ(hash(with_padded_products(empty, always)), hash(empty));
  EXPECT_EQ(hash(with_padded_products(ragged, [](DType) { return ProductRows(); })), hash(ragged));
  // 2 * 6 * 5 * 7 operations at 1 a second, padded 2 * 6 * 8 * 8 at 2: 36 seconds are gained.
  const auto rule = [](double launch) {
    return [launch](DType) {
      return ProductRows{.multiple = 8, .ragged_flops = 1, .whole_flops = 2, .bytes = 1e30, .launch = launch};
    };
  };
  EXPECT_EQ(hash(with_padded_products(ragged, rule(40))), hash(ragged));
  EXPECT_EQ(count(with_padded_products(ragged, rule(1)), ops::pad), 4);
  // y needs pads of x, w and b: half of x's, half of w's and b's own.
  EXPECT_EQ(count(with_padded_products(ragged, rule(17)), ops::pad), 4);
  EXPECT_EQ(shapes(with_padded_products(ragged, rule(20))),
            "[2,3,5] [7,5] [7] > [2,3,7]\n"
            "[2,3,8] [8,8] > [2,3,8]\n"
            "[2,3,8] [2,3,8] > [8,8]\n");
}

TEST(PadProducts, CountsACopyForThoseThatAreLeftToReadIt) {
  // 2 * 6 * 16 * 7 operations at 1 a second, padded 2 * 6 * 16 * 8 at 2: 576 seconds are gained by each. y
  // needs pads of w and b, dx of dy and w, dw of dy.
  const auto made = [](double launch) {
    const auto rule = [=](DType) {
      return ProductRows{.multiple = 8, .ragged_flops = 1, .whole_flops = 2, .bytes = 1e30, .launch = launch};
    };
    const Graph graph = with_padded_products(layer(16, 7), rule);
    return str(count(graph, ops::pad), " ", count(graph, ops::slice));
  };
  EXPECT_EQ(made(380), "3 2");  // 1.5 pads for y
  EXPECT_EQ(made(388), "1 1");  // y is left: 1.5 for dx, too, and then all of dy for dw
  EXPECT_EQ(made(570), "1 1");
  EXPECT_EQ(made(580), "0 0");
}

TEST(PadProducts, CountsOnAShareOfTheRatesBelowWhatFillsADevice) {
  const Graph ragged = layer(5, 7);  // 420 operations: 36 seconds are gained at the rates themselves
  const auto pads = [&](double filled, double launch) {
    const auto rule = [=](DType) {
      return ProductRows{.multiple = 8,
                         .ragged_flops = 1,
                         .whole_flops = 2,
                         .bytes = 1e30,
                         .launch = launch,
                         .filled = filled};
    };
    return count(with_padded_products(ragged, rule), ops::pad);
  };
  // Where only y is padded, or only dx and dw, fewer pads are left.
  EXPECT_EQ(pads(420, 17), 4);
  EXPECT_EQ(pads(420, 37), 0);
  EXPECT_EQ(pads(840, 35), 4);  // half of the rates, twice the gain
  EXPECT_EQ(pads(840, 73), 0);
  EXPECT_EQ(pads(1e9, 71), 4);  // a quarter at least
  EXPECT_EQ(pads(1e9, 145), 0);
}

TEST(PadProducts, AModelLearnsTheSameBitsOnAnyMesh) {
  static int64_t pads = 0;
  compiler::register_pass("pad_products", "test::padded", [](Graph graph) {
    Graph made = with_padded_products(graph, always);
    pads += count(made, ops::pad) - count(graph, ops::pad);
    return made;
  });
  tests::ModelRun run{.kind = "bert",
                      .options = {{"vocab", 50}, {"context", 9}, {"width", 12}, {"depth", 2}, {"heads", 2}}};
  for (DType compute : {DType::f32, DType::bf16}) {
    run.compute = compute, run.passes = {}, run.mesh = Mesh{{1}, {"dp_replicate"}};
    const auto plain = train_model(run);
    run.passes = {"test::padded"};
    std::string hash;
    for (const Mesh& mesh :
         {Mesh{{1}, {"dp_replicate"}}, Mesh{{2}, {"dp_replicate"}}, Mesh{{3}, {"dp_shard"}}}) {
      run.mesh = mesh, pads = 0;
      const auto got = train_model(run);
      EXPECT_GT(pads, 20) << text(mesh);
      if (hash.empty()) hash = got.hash;
      EXPECT_EQ(got.hash, hash) << text(mesh);
      EXPECT_NEAR(std::stod(got.losses.back()), std::stod(plain.losses.back()),
                  compute == DType::f32 ? 1e-4 : 2e-2);
    }
  }
}

}  // namespace
}  // namespace lockstep
