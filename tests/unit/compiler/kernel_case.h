// Running generated kernels on host tensors, and comparing them with the reference evaluator.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "compiler/codegen/kernel_library.h"
#include "compiler/reference/evaluate.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/ir/print.h"
#include "core/ops/op.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

inline std::vector<compiler::HostTensor> run_kernel(const compiler::KernelLibrary& library,
                                                    const std::string& name, const Graph& body,
                                                    const std::vector<compiler::HostTensor>& inputs,
                                                    int threads = 1) {
  std::vector<compiler::HostTensor> outputs;
  std::vector<void*> args;
  const std::vector<int64_t> begins = compiler::generate_kernel(body).begins;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t begin = begins.empty() ? 0 : begins[i] * size_of(inputs[i].dtype);
    args.push_back(const_cast<void*>(static_cast<const void*>(inputs[i].data.data() + begin)));
  }
  for (const auto& output : body.outputs) {
    outputs.push_back(compiler::make_tensor(body[output.value].dtype, body[output.value].shape));
    args.push_back(outputs.back().data.data());
  }
  library.find(name)(args.data(), threads);
  return outputs;
}

// Uniform in [lo, hi] (floats), in [int_lo, int_hi) (integers), a coin (bool).
inline compiler::HostTensor random_tensor(DType dtype, const Shape& shape, uint64_t stream, double lo = -2,
                                          double hi = 2, int64_t int_lo = 0, int64_t int_hi = 4) {
  compiler::HostTensor out = compiler::make_tensor(dtype, shape);
  for (int64_t i = 0; i < out.size(); ++i) {
    double u = philox::uniform(philox::bits(7, stream, 0, static_cast<uint64_t>(i)));
    if (dtype == DType::boolean)
      out.set_int_at(i, u < 0.5);
    else if (is_float(dtype))
      out.set(i, lo + (hi - lo) * u);
    else
      out.set_int_at(i, int_lo + static_cast<int64_t>(u * static_cast<double>(int_hi - int_lo)));
  }
  return out;
}

inline double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-12;
    case DType::bf16:
      return 1.6e-2;
    case DType::f16:
      return 2e-3;
    default:
      return 4e-6;
  }
}

inline void expect_near(const compiler::HostTensor& got, const compiler::HostTensor& want,
                        const std::string& what, double scale = 1) {
  ASSERT_EQ(got.dtype, want.dtype) << what;
  ASSERT_EQ(got.shape, want.shape) << what;
  int shown = 0;
  for (int64_t i = 0; i < got.size() && shown < 3; ++i) {
    if (!is_float(got.dtype)) {
      if (got.int_at(i) != want.int_at(i))
        ADD_FAILURE() << what << " element " << i << ": " << got.int_at(i) << " is not " << want.int_at(i),
            ++shown;
      continue;
    }
    double a = got.at(i), b = want.at(i), bound = tolerance(got.dtype) * scale * std::max(1.0, std::fabs(b));
    bool same = std::isnan(b) ? std::isnan(a) : std::isinf(b) ? a == b : std::fabs(a - b) <= bound;
    if (!same) ADD_FAILURE() << what << " element " << i << ": " << a << " is not " << b, ++shown;
  }
}

// Kernels of every fused node of a graph.
inline std::vector<compiler::KernelSource> kernels_of_graph(const Graph& graph) {
  std::vector<compiler::KernelSource> out;
  for (const Node& node : graph.nodes)
    if (node.body) out.push_back(compiler::generate_kernel(*node.body));
  return out;
}

// Runs a graph node by node: fused nodes by their kernels, reshapes by copying, everything else by the
// reference evaluator.
inline std::vector<compiler::HostTensor> run_graph(const Graph& graph, const compiler::KernelLibrary& library,
                                                   const std::vector<compiler::HostTensor>& inputs,
                                                   int threads = 1) {
  PerValue<compiler::HostTensor> values(graph.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs[i].value] = inputs[i];
  for (const Node& node : graph.nodes) {
    std::vector<compiler::HostTensor> in;
    for (ValueId v : node.inputs) in.push_back(values[v]);
    auto out = node.body
                   ? run_kernel(library, compiler::generate_kernel(*node.body).name, *node.body, in, threads)
                   : compiler::evaluate_node(graph, node, in);
    for (size_t i = 0; i < out.size(); ++i) values[node.outputs[i]] = out[i];
  }
  std::vector<compiler::HostTensor> outputs;
  for (const auto& output : graph.outputs) outputs.push_back(values[output.value]);
  return outputs;
}

}  // namespace lockstep
