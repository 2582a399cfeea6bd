// The graph with roundings, without any, and with moved values, side by side.
#include "tests/sweep/roundings.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/laws/case.h"
#include "compiler/reference/evaluate.h"
#include "core/base/philox.h"
#include "core/ir/id.h"
#include "core/ops/apply.h"

namespace lockstep::sweep {

using compiler::HostTensor;
using compiler::laws::widened;

namespace {
constexpr double kUnits = 8;
// Moves are drawn at random, so the furthest of three is no bound: a result beyond four times as far is, for
// normal distances, one in some ten thousand even where the kernel errs as much as the moves do.
constexpr int kMoved = 3;
constexpr double kFar = 4;

// A unit in the last place of 1, as kernels round.
double unit(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-7;
    case DType::f16:
      return 0x1p-10;
    case DType::f64:
      return 0x1p-52 * kUnits;
    default:
      return 0x1p-23 * kUnits;
  }
}

HostTensor narrowed(const HostTensor& wide, DType dtype) {
  return is_float(dtype) ? compiler::from_values(dtype, wide.shape, compiler::to_doubles(wide)) : wide;
}

bool same_numbers(const HostTensor& a, const HostTensor& b) {
  for (int64_t i = 0; i < a.size(); ++i)
    if (is_float(a.dtype) ? a.at(i) != b.at(i) : a.int_at(i) != b.int_at(i)) return false;
  return true;
}
double largest(const HostTensor& x) {
  double out = 0;
  for (int64_t i = 0; i < x.size(); ++i) out = std::max(out, std::fabs(x.at(i)));
  return out;
}

// What a result is moved by. Matrix units take what attention computes inside (probabilities, gradients of
// scores) in the half type, too: roundings of their own.
double unit(const Node& node, DType dtype) {
  const bool inner = node.op == ops::sdpa || node.op == ops::sdpa_grad;
  return unit(dtype) * (inner ? 4 : 1);
}

HostTensor moved(const HostTensor& wide, double unit, uint64_t seed, uint64_t value) {
  HostTensor out = compiler::make_tensor(wide.dtype, wide.shape);
  double mean = 0;
  for (int64_t i = 0; i < wide.size(); ++i) mean += std::fabs(wide.at(i)) / static_cast<double>(wide.size());
  for (int64_t i = 0; i < wide.size(); ++i) {
    const uint32_t word = philox::bits(seed, 0x6d6f766564, value, static_cast<uint64_t>(i));
    const double random = static_cast<double>(word) * 0x1p-31 - 1;
    if (wide.at(i) == 0) continue;  // masked: zero with roundings and without
    out.set(i, wide.at(i) + random * unit * 0.5 * (std::fabs(wide.at(i)) + mean));
  }
  return out;
}

// One evaluation of the graph, which holds every value.
class Walk {
 public:
  Walk(const Graph& graph, const Graph& types) : graph_(graph), types_(types), values_(graph.values.size()) {}
  HostTensor& operator[](ValueId v) { return values_[v]; }
  std::vector<HostTensor> outputs(NodeId n) const {
    const Node& node = graph_.node(n);
    std::vector<HostTensor> in;
    for (ValueId v : node.inputs) in.push_back(values_[v]);
    if (node.op != ops::bitcast) return compiler::evaluate_node(types_, node, in);
    for (size_t i = 0; i < in.size(); ++i) in[i] = narrowed(in[i], graph_[node.inputs[i]].dtype);
    return compiler::evaluate_node(graph_, node, in);  // bits are those of the dtype
  }

 private:
  const Graph& graph_;
  const Graph& types_;  // the same nodes: `graph_`, or widened
  PerValue<HostTensor> values_;
};
}  // namespace

Roundings roundings(const Graph& graph, const std::vector<HostTensor>& inputs) {
  const Graph wide_graph = widened(graph);
  Walk rounded(graph, graph), wide(graph, wide_graph);
  std::vector<Walk> moves(kMoved, Walk(graph, wide_graph));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId v = graph.inputs[i].value;
    rounded[v] = inputs[i];
    wide[v] = widened(inputs[i]);
    for (Walk& walk : moves) walk[v] = wide[v];
  }
  Roundings out;
  for (NodeId n : graph.node_ids()) {
    const Node& node = graph.node(n);
    const auto right = rounded.outputs(n), without = wide.outputs(n);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      rounded[node.outputs[o]] = right[o];
      wide[node.outputs[o]] = without[o];
    }
    for (size_t k = 0; k < moves.size(); ++k) {
      const auto made = moves[k].outputs(n);
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        const ValueId v = node.outputs[o];
        const bool rounds = is_float(graph[v].dtype) && !same_numbers(right[o], without[o]);
        moves[k][v] = rounds ? moved(made[o], unit(node, graph[v].dtype), k, v.index()) : made[o];
      }
    }
  }
  for (const auto& output : graph.outputs) {
    const HostTensor& right = rounded[output.value];
    out.right.push_back(right);
    if (!is_float(right.dtype)) {
      for (Walk& walk : moves)
        if (!same_numbers(walk[output.value], right)) out.undecided = output.name;
      out.allowed.push_back(0);
      out.largest.push_back(0);
      continue;
    }
    double far = 0;
    for (int64_t i = 0; i < right.size(); ++i) {
      const double without = wide[output.value].at(i);
      far = std::max(far, std::fabs(right.at(i) - without));
      for (Walk& walk : moves) far = std::max(far, std::fabs(walk[output.value].at(i) - without));
    }
    out.largest.push_back(largest(right));
    out.allowed.push_back(kFar * far + unit(right.dtype) * largest(right));
  }
  return out;
}

}  // namespace lockstep::sweep
