// Functions that are compositions, against numbers of PyTorch (functions/make.py), forward and backward:
// through the reference evaluator and through compiled kernels.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/autodiff/autodiff.h"
#include "compiler/reference/evaluate.h"
#include "core/base/error.h"
#include "tests/golden/functions_table.h"
#include "tests/support/tolerance.h"
#include "tests/sweep/backends.h"

namespace lockstep::golden {
namespace {

using Json = nlohmann::json;
constexpr testing::Tolerance kTight{4e-6, 4e-6};

// A number, or the word that stands for what JSON has no number for.
double number(const Json& value) {
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}
compiler::HostTensor read(const Json& json) {
  compiler::HostTensor out =
      compiler::make_tensor(parse_dtype(json["t"].get<std::string>()), json["s"].get<Shape>());
  for (int64_t i = 0; i < out.size(); ++i) {
    const Json& value = json["v"][static_cast<size_t>(i)];
    if (is_float(out.dtype))
      out.set(i, number(value));
    else
      out.set_int_at(i, value.is_boolean() ? value.get<bool>() : value.get<int64_t>());
  }
  return out;
}
compiler::HostTensor cotangent(DType dtype, const Shape& shape, size_t output) {
  compiler::HostTensor out = compiler::make_tensor(dtype, shape);
  for (int64_t i = 0; i < out.size(); ++i)
    out.set(i, (static_cast<double>((7 * i + 3 * static_cast<int64_t>(output)) % 11) - 5) / 4);
  return out;
}

// The graph of a case: its outputs, then the gradients of its float inputs, of the weighed sum of outputs.
struct Case {
  std::string name;
  Graph graph;
  std::vector<compiler::HostTensor> inputs, right;  // of the graph
};
Case make_case(const Json& json) {
  Case made{json["name"], {}, {}, {}};
  auto builder = std::make_shared<Builder>();
  std::vector<Tensor> in;
  auto input = [&](compiler::HostTensor value) {
    made.inputs.push_back(std::move(value));
    const compiler::HostTensor& last = made.inputs.back();
    return Tensor(builder, builder->graph.add_input(InputKind::value, str("in", made.inputs.size()),
                                                    last.dtype, last.shape));
  };
  for (const Json& value : json["in"]) in.push_back(input(read(value)));
  const std::vector<Tensor> given = in;
  std::vector<Tensor> out = functions().at(made.name)(in);
  EXPECT_EQ(out.size(), json["out"].size()) << made.name;
  Tensor total;
  for (size_t o = 0; o < out.size(); ++o) {
    made.right.push_back(read(json["out"][o]));
    builder->graph.add_output(OutputKind::value, str("out", o), out[o].id());
    if (!is_float(out[o].dtype())) continue;
    Tensor part = sum(out[o] * input(cotangent(out[o].dtype(), out[o].shape(), o)));
    total = total.defined() ? total + part : part;
  }
  const Json& grads = json["grad"];
  std::vector<ValueId> roots;
  for (size_t i = 0; i < grads.size(); ++i)
    if (!grads[i].is_null()) roots.push_back(given[i].id());
  if (!roots.empty()) {
    std::vector<Tensor> found = compiler::vjp_graph(builder, total.id(), full_like(total, 1), roots);
    for (size_t i = 0, next = 0; i < grads.size(); ++i) {
      if (grads[i].is_null()) continue;
      Tensor gradient = found[next++];
      if (!gradient.defined()) gradient = full_like(given[i], 0);
      Json right = json["in"][i];
      right["v"] = grads[i];
      made.right.push_back(read(right));
      builder->graph.add_output(OutputKind::value, str("gradient", i), gradient.id());
    }
  }
  made.graph = compiler::differentiate(std::move(builder->graph), {});  // without marks of own gradients
  return made;
}
const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> out;
    std::ifstream file(FUNCTIONS);
    for (const Json& json : Json::parse(file)) out.push_back(make_case(json));
    return out;
  }();
  return all;
}

void compare(const Case& made, const std::vector<compiler::HostTensor>& given, const std::string& backend) {
  ASSERT_EQ(given.size(), made.right.size()) << made.name;
  for (size_t i = 0; i < given.size(); ++i)
    EXPECT_EQ(testing::difference(given[i], made.right[i], kTight), "")
        << backend << ": " << made.name << ": " << made.graph.outputs[i].name;
}

TEST(Functions, EveryCaseIsCompared) {
  std::set<std::string> there, known;
  for (const Case& made : cases()) there.insert(made.name);
  for (const auto& [name, function] : functions()) known.insert(name);
  EXPECT_EQ(there, known);
  EXPECT_GE(there.size(), 250u);
}

TEST(Functions, ReferenceEqualsPyTorch) {
  for (const Case& made : cases()) {
    SCOPED_TRACE(made.name);
    compare(made, compiler::evaluate(made.graph, made.inputs), "reference");
  }
}

// Fused kernels of the CPU, and of a GPU where there is one.
TEST(Functions, CompiledEqualsPyTorch) {
  std::vector<Graph> graphs;
  for (const Case& made : cases()) graphs.push_back(made.graph);
  for (const sweep::Backend& backend : sweep::backends()) {
    if (backend.name.ends_with("eager")) continue;
    backend.prepare(graphs);
    for (size_t c = 0; c < graphs.size(); ++c) {
      SCOPED_TRACE(cases()[c].name);
      compare(cases()[c], backend.run(c, cases()[c].inputs), backend.name);
    }
  }
}

// The outputs of a case whose f32 inputs are of `dtype`, from inputs that are bf16 numbers.
std::vector<compiler::HostTensor> outputs_in(const Json& json, DType dtype) {
  auto builder = std::make_shared<Builder>();
  std::vector<compiler::HostTensor> inputs;
  std::vector<Tensor> in;
  for (const Json& value : json["in"]) {
    compiler::HostTensor x = read(value);
    if (is_float(x.dtype)) {
      compiler::HostTensor half = compiler::make_tensor(DType::bf16, x.shape),
                           in_dtype = compiler::make_tensor(dtype, x.shape);
      for (int64_t i = 0; i < x.size(); ++i) half.set(i, x.at(i)), in_dtype.set(i, half.at(i));
      x = std::move(in_dtype);
    }
    in.emplace_back(builder,
                    builder->graph.add_input(InputKind::value, str("in", in.size()), x.dtype, x.shape));
    inputs.push_back(std::move(x));
  }
  for (const Tensor& out : functions().at(json["name"])(in))
    builder->graph.add_output(OutputKind::value, "", out.id());
  return compiler::evaluate(compiler::differentiate(std::move(builder->graph), {}), inputs);
}

// In bf16 a function is the one in f32, rounded; few round between.
TEST(Functions, Bf16IsF32Rounded) {
  constexpr testing::Tolerance kRoundings{1e-2, 1e-2};
  std::ifstream file(FUNCTIONS);
  for (const Json& json : Json::parse(file)) {
    SCOPED_TRACE(json["name"]);
    if (json["name"] == "nan_to_num") continue;  // the largest number is another one
    std::vector<compiler::HostTensor> right = outputs_in(json, DType::f32),
                                      given = outputs_in(json, DType::bf16);
    ASSERT_EQ(given.size(), right.size());
    for (size_t o = 0; o < given.size(); ++o) {
      if (is_float(given[o].dtype))
        given[o] = compiler::from_values(right[o].dtype, given[o].shape, compiler::to_doubles(given[o]));
      EXPECT_EQ(testing::difference(given[o], right[o], kRoundings), "") << "output " << o;
    }
  }
}

}  // namespace
}  // namespace lockstep::golden
