// Convolution and pooling against PyTorch's numbers (convolution/make.py), forward and backward: native, in
// f32 and on 1 and 2 threads with the same bits; bf16 by its own tolerance.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "compiler/autodiff/autodiff.h"
#include "compiler/reference/evaluate.h"
#include "core/base/json.h"
#include "core/functions/functions.h"
#include "core/functions/spatial/convolution.h"
#include "core/functions/spatial/pooling.h"
#include "tests/golden/kept.h"
#include "tests/sweep/backends.h"

namespace lockstep {
using namespace compiler;
using namespace golden;
namespace {
using List = std::vector<int64_t>;

List list(const Json& options, const char* key, List otherwise) {
  return options.contains(key) ? options.at(key).get<List>() : otherwise;
}
PoolOptions pool_options(const Json& o) {
  return {.stride = list(o, "stride", {}),
          .padding = list(o, "padding", {0}),
          .dilation = list(o, "dilation", {1}),
          .count_padding = o.value("count_padding", true)};
}
Tensor call(const Json& row, const Tensor& x, const Tensor& w, const Tensor& b) {
  const std::string op = row.at("op");
  const Json& o = row.at("options");
  const List size = list(o, "size", {});
  if (op == "convolution") {
    const std::string mode = o.value("mode", "zeros");
    return convolution(x, w, b,
                       {.stride = list(o, "stride", {1}),
                        .padding = list(o, "padding", {0}),
                        .dilation = list(o, "dilation", {1}),
                        .groups = o.value("groups", int64_t{1}),
                        .mode = mode == "reflect"     ? std::optional(PadMode::reflect)
                                : mode == "replicate" ? PadMode::replicate
                                : mode == "circular"  ? PadMode::circular
                                                      : std::optional<PadMode>()});
  }
  if (op == "convolution_transposed")
    return convolution_transposed(x, w, b,
                                  {.stride = list(o, "stride", {1}),
                                   .padding = list(o, "padding", {0}),
                                   .output_padding = list(o, "output_padding", {0}),
                                   .dilation = list(o, "dilation", {1}),
                                   .groups = o.value("groups", int64_t{1})});
  if (op == "max_pool") return max_pool(x, size, pool_options(o));
  if (op == "avg_pool") return avg_pool(x, size, pool_options(o));
  if (op == "adaptive_avg_pool") return adaptive_avg_pool(x, o.at("out"));
  if (op == "adaptive_max_pool") return adaptive_max_pool(x, o.at("out"));
  PoolOptions how = pool_options(o);
  if (how.stride.empty()) how.stride = {1};
  if (op == "unfold") return unfold(x, size, how);
  EXPECT_EQ(op, "fold");
  return fold(x, o.at("spatial"), size, how);
}

struct Case {
  Json row;
  Graph graph;  // outputs: y, and the gradients of the inputs in order
  std::vector<HostTensor> inputs;
};
Case make_case(const Json& row, DType dtype) {
  auto builder = std::make_shared<Builder>();
  Case made{row, {}, {}};
  std::vector<Tensor> in(3);
  for (auto [i, key] : {std::pair<size_t, const char*>{0, "x"}, {1, "w"}, {2, "b"}}) {
    if (!row.contains(key)) continue;
    const Shape shape = row.at(key);
    in[i] = Tensor(builder, builder->graph.add_input(InputKind::value, key, dtype, shape));
    made.inputs.push_back(given(dtype, shape, static_cast<int64_t>(i) + 1));
  }
  Tensor y = call(row, in[0], in[1], in[2]);
  Tensor c(builder, builder->graph.add_input(InputKind::value, "c", dtype, y.shape()));
  made.inputs.push_back(given(dtype, y.shape(), 4));
  std::vector<ValueId> roots;
  for (const Tensor& one : in)
    if (one.defined()) roots.push_back(one.id());
  builder->graph.add_output(OutputKind::value, "y", y.id());
  for (const Tensor& g : vjp_graph(builder, y.id(), c, roots))
    builder->graph.add_output(OutputKind::value, "", g.id());
  made.graph = builder->graph;
  return made;
}

std::vector<Case> cases(DType dtype) {
  std::vector<Case> out;
  for (const Json& row : Json::parse(std::ifstream(CASES))) out.push_back(make_case(row, dtype));
  return out;
}
std::vector<std::vector<HostTensor>> run(const std::vector<Case>& all, Backend kind, int threads) {
  sweep::Backend backend = sweep::compiled_backend("native", kind, cpu_target(), threads);
  std::vector<Graph> graphs;
  for (const Case& one : all) graphs.push_back(one.graph);
  backend.prepare(graphs);
  std::vector<std::vector<HostTensor>> out;
  for (size_t i = 0; i < all.size(); ++i) out.push_back(backend.run(i, all[i].inputs));
  return out;
}
void check_all(DType dtype, double tolerance) {
  const std::vector<Case> all = cases(dtype);
  ASSERT_GE(all.size(), 40u);
  const auto one = run(all, Backend::native, 1), two = run(all, Backend::native, 2);
  for (size_t i = 0; i < all.size(); ++i) {
    size_t at = 0;
    for (const char* key : {"y", "dx", "dw", "db"}) {
      if (!all[i].row.contains(key)) continue;
      const std::string what =
          str(all[i].row.at("op").get<std::string>(), " ", i, " ", all[i].row.at("options").dump(), " ", key);
      check(all[i].row.at(key), one[i][at], tolerance, what);
      EXPECT_TRUE(same_bytes(one[i][at], two[i][at])) << what << ": 1 and 2 threads differ";
      ++at;
    }
    EXPECT_EQ(at, one[i].size());
  }
}

TEST(Convolution, EqualsPyTorch) { check_all(DType::f32, 3e-6); }
TEST(Convolution, InHalvesEqualsPyTorch) {
  check_all(DType::bf16, 1e-2);
  check_all(DType::f16, 2e-3);
}

}  // namespace
}  // namespace lockstep
