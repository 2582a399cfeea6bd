// Attention with its masks and rotary positions against PyTorch's numbers (attention/make.py), forward and
// backward: native, on 1 and 2 threads with the same bits, and on a GPU where there is one; bf16 by its own
// tolerance.
#include <gtest/gtest.h>

#include <fstream>

#include "compiler/autodiff/autodiff.h"
#include "core/functions/functions.h"
#include "tests/golden/kept.h"
#include "tests/sweep/backends.h"

namespace lockstep::golden {
using namespace compiler;
namespace {

struct Case {
  Json row;
  std::string name;
  Graph graph;  // outputs: y, and the gradients of the float inputs in order
  std::vector<HostTensor> inputs;
  std::vector<std::string> outputs{"y"};
};

// What attention/make.py calls mask_of, lengths_of, documents_of and positions.
HostTensor whole(DType dtype, const Shape& shape, const std::function<int64_t(int64_t)>& value) {
  HostTensor made = make_tensor(dtype, shape);
  for (int64_t i = 0; i < made.size(); ++i) made.set_int_at(i, value(i));
  return made;
}

class Maker {
 public:
  Maker(const Json& row, DType dtype) : dtype_(dtype) {
    made_.row = row;
    made_.name =
        str(row.at("op").get<std::string>(), " ", row.at("sizes").dump(), " ", row.at("options").dump());
  }
  Case make() {
    const Json& o = made_.row.at("options");
    const Shape n = made_.row.at("sizes");
    Tensor y = made_.row.at("op") == "sdpa" ? attention(o, n) : rotary(o, n);
    Tensor weights = input(given(dtype_, y.shape(), 4));
    builder_->graph.add_output(OutputKind::value, "y", y.id());
    for (const Tensor& g : vjp_graph(builder_, y.id(), weights, roots_))
      builder_->graph.add_output(OutputKind::value, "", g.id());
    made_.graph = builder_->graph;
    return std::move(made_);
  }

 private:
  Tensor input(HostTensor value) {
    made_.inputs.push_back(std::move(value));
    const HostTensor& last = made_.inputs.back();
    return {builder_, builder_->graph.add_input(InputKind::value, str("in", made_.inputs.size()), last.dtype,
                                                last.shape)};
  }
  Tensor leaf(const char* gradient, const Shape& shape, int64_t seed) {
    Tensor made = input(given(dtype_, shape, seed));
    roots_.push_back(made.id());
    made_.outputs.emplace_back(gradient);
    return made;
  }
  Tensor attention(const Json& o, const Shape& n) {
    const int64_t b = n[0], t = n[1], s = n[2];
    Tensor q = leaf("dq", {b, t, n[3], n[5]}, 1), k = leaf("dk", {b, s, n[4], n[5]}, 2),
           v = leaf("dv", {b, s, n[4], n[5]}, 3);
    AttentionOptions options{.causal = o.value("causal", false), .window = o.value("window", int64_t{0})};
    if (o.contains("scale")) options.scale = o.at("scale").get<double>();
    if (o.value("lengths", false))
      options.lengths = input(whole(DType::i32, {b}, [=](int64_t i) { return (3 * i + 2) % s + 1; }));
    if (o.value("documents", false))
      options.documents =
          input(whole(DType::i32, {b, t}, [=](int64_t i) { return i % t * (i / t + 2) / t; }));
    if (o.contains("mask"))
      options.mask = input(whole(DType::boolean, o.at("mask").get<Shape>(),
                                 [](int64_t i) { return (i * 7 + i / 5) % 4 != 0; }));
    if (o.contains("bias")) options.bias = leaf("dbias", o.at("bias").get<Shape>(), 5);
    return sdpa(q, k, v, options);
  }
  Tensor rotary(const Json& o, const Shape& n) {
    const int64_t t = n[1];
    Tensor x = leaf("dx", n, 1);
    RopeOptions options{.theta = o.at("theta").get<double>(),
                        .interleaved = o.value("interleaved", false),
                        .dims = o.value("dims", int64_t{0}),
                        .factor = o.value("factor", 1.0),
                        .original = o.value("original", int64_t{0}),
                        .low = o.value("low", 1.0),
                        .high = o.value("high", 4.0)};
    if (o.value("positions", false))
      options.positions =
          input(whole(DType::i32, {n[0], t}, [=](int64_t i) { return (5 * (i / t) + 3 * (i % t)) % 29; }));
    return rope(x, options);
  }

  DType dtype_;
  std::shared_ptr<Builder> builder_ = std::make_shared<Builder>();
  std::vector<ValueId> roots_;
  Case made_;
};

std::vector<Case> cases(DType dtype) {
  std::vector<Case> out;
  for (const Json& row : Json::parse(std::ifstream(CASES))) out.push_back(Maker(row, dtype).make());
  return out;
}
std::vector<std::vector<HostTensor>> run(const std::vector<Case>& all, const sweep::Backend& backend) {
  std::vector<Graph> graphs;
  for (const Case& one : all) graphs.push_back(one.graph);
  backend.prepare(graphs);
  std::vector<std::vector<HostTensor>> out;
  for (size_t i = 0; i < all.size(); ++i) out.push_back(backend.run(i, all[i].inputs));
  return out;
}
void check_all(DType dtype, double tolerance) {
  const std::vector<Case> all = cases(dtype);
  ASSERT_GE(all.size(), 23u);
  const auto one = run(all, sweep::compiled_backend("native", Backend::native, cpu_target(), 1));
  for (const sweep::Backend& backend : sweep::backends()) {  // native: on 2 threads
    const auto many = run(all, backend);
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t at = 0; at < all[i].outputs.size(); ++at) {
        const std::string what = str(backend.name, ": ", all[i].name, " ", all[i].outputs[at]);
        check(all[i].row.at(all[i].outputs[at]), many[i][at], tolerance, what);
        if (backend.name == "native")
          EXPECT_TRUE(same_bytes(one[i][at], many[i][at])) << what << ": 1 and 2 threads differ";
      }
  }
}

TEST(AttentionGolden, PyTorchsNumbers) { check_all(DType::f32, 3e-6); }
TEST(AttentionGolden, PyTorchsNumbersInBf16) { check_all(DType::bf16, 3e-2); }

}  // namespace
}  // namespace lockstep::golden
