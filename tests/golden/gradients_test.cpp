// Gradients, and gradients of gradients, against numbers of PyTorch (gradients/make.py): through the
// reference evaluator and through compiled kernels.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "compiler/autodiff/autodiff.h"
#include "compiler/reference/evaluate.h"
#include "core/functions/functions.h"
#include "core/functions/spatial/convolution.h"
#include "tests/support/tolerance.h"
#include "tests/sweep/backends.h"

namespace lockstep::golden {
namespace {

using Json = nlohmann::json;
using Tensors = std::vector<Tensor>;
constexpr testing::Tolerance kTight{1e-5, 1e-5};

Tensor ids(const Tensor& beside, const std::vector<Number>& values) {
  return constant(beside, values, DType::i32);
}
const std::map<std::string, std::function<Tensor(const Tensors&)>>& functions() {
  static const std::map<std::string, std::function<Tensor(const Tensors&)>> all{
      {"critic",
       [](const Tensors& x) { return linear(layer_norm(gelu(linear(x[0], x[1], x[2])), x[3], x[4]), x[5]); }},
      {"attention", [](const Tensors& x) { return sdpa(x[0], x[1], x[2]); }},
      {"cross_entropy", [](const Tensors& x) { return cross_entropy(x[0], ids(x[0], {1, 0, 4})).sum; }},
      {"rms_norm", [](const Tensors& x) { return rms_norm(x[0], x[1]); }},
      {"swiglu", [](const Tensors& x) { return silu(linear(x[0], x[1])) * linear(x[0], x[2]); }},
      {"convolution",
       [](const Tensors& x) { return tanh(convolution(x[0], x[1], x[2], {.stride = {2}, .padding = {1}})); }},
      {"embedding", [](const Tensors& x) { return softmax(embedding(x[0], ids(x[0], {1, 0, 1, 3}))); }},
      {"custom",
       [](const Tensors& x) {
         auto cube = custom_gradient(
             [](const Tensors& in) { return Computed{{in[0] * in[0] * in[0] * in[1]}, {in[0], in[1]}}; },
             [](const Tensors& saved, const Tensors& dy) {
               return Tensors{dy[0] * saved[0] * saved[0] * saved[1] * 2.0, dy[0] * saved[0]};
             });
         return cube({sin(x[0]), x[1]})[0];
       }},
  };
  return all;
}

// As make.py makes them.
double element(int64_t i, int64_t salt) { return static_cast<double>((i * 37 + salt * 101) % 97 - 48) / 64; }
compiler::HostTensor values(const Shape& shape, int64_t salt) {
  compiler::HostTensor out = compiler::make_tensor(DType::f32, shape);
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, element(i, salt));
  return out;
}

struct Case {
  Graph graph;
  std::vector<compiler::HostTensor> inputs;
  std::vector<std::vector<double>> right;  // of the graph's outputs: y, first gradients, second gradients
};
Case make_case(const std::string& name, const Json& json) {
  Case made;
  auto builder = std::make_shared<Builder>();
  auto input = [&](const Shape& shape, int64_t salt) {
    made.inputs.push_back(values(shape, salt));
    return Tensor(builder, builder->graph.add_input(InputKind::value, str("in", made.inputs.size()),
                                                    DType::f32, shape));
  };
  auto output = [&](const Tensor& x, const Json& right) {
    builder->graph.add_output(OutputKind::value, str("out", made.right.size()), x.id());
    made.right.push_back(right.get<std::vector<double>>());
  };
  Tensors in;
  for (const Json& shape : json["shapes"])
    in.push_back(input(shape.get<Shape>(), static_cast<int64_t>(in.size()) + 1));
  Tensor y = functions().at(name)(in), p;
  output(y, json["y"]);
  const Tensors first = grad(y, in, input(y.shape(), 31));
  for (size_t i = 0; i < in.size(); ++i) {
    output(first[i], json["first"][i]);
    Tensor part = sum(first[i] * input(first[i].shape(), 41 + static_cast<int64_t>(i)));
    p = p.defined() ? p + part : part;
  }
  const Tensors second = grad(p, in);
  for (size_t i = 0; i < in.size(); ++i) output(second[i], json["second"][i]);
  made.graph = compiler::differentiate(std::move(builder->graph), {});
  return made;
}
std::map<std::string, Case> cases() {
  std::map<std::string, Case> out;
  std::ifstream file(GRADIENTS);
  const Json all = Json::parse(file);
  for (const auto& [name, json] : all.items()) out.emplace(name, make_case(name, json));
  return out;
}
void compare(const Case& made, const std::vector<compiler::HostTensor>& given, const std::string& what) {
  ASSERT_EQ(given.size(), made.right.size()) << what;
  for (size_t o = 0; o < given.size(); ++o) {
    const auto right = compiler::from_values(DType::f32, given[o].shape, made.right[o]);
    EXPECT_EQ(testing::difference(given[o], right, kTight), "") << what << ": output " << o;
  }
}

TEST(Gradients, EveryFunctionHasNumbers) { EXPECT_EQ(cases().size(), functions().size()); }

TEST(Gradients, ReferenceEqualsPyTorch) {
  for (const auto& [name, made] : cases())
    compare(made, compiler::evaluate(made.graph, made.inputs), "reference: " + name);
}

TEST(Gradients, CompiledEqualsPyTorch) {
  const auto all = cases();
  std::vector<Graph> graphs;
  for (const auto& [name, made] : all) graphs.push_back(made.graph);
  for (const sweep::Backend& backend : sweep::backends()) {
    backend.prepare(graphs);
    size_t next = 0;
    for (const auto& [name, made] : all)
      compare(made, backend.run(next++, made.inputs), backend.name + ": " + name);
  }
}

}  // namespace
}  // namespace lockstep::golden
