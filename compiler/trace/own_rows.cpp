// Arithmetic of iota, with which functions write gathers of a sample's own elements.
#include "compiler/trace/own_rows.h"

namespace lockstep::compiler {

namespace {
std::optional<Share> sample_number(const Graph& graph, const Node& iota, int64_t samples) {
  const auto dim = static_cast<size_t>(iota.attrs.integer("dim"));
  if (graph[iota.outputs[0]].shape[dim] != samples) return {};
  return Share{ShareKind::samples, dim, 1};
}
std::optional<double> constant(const Graph& graph, ValueId v) {
  while (graph[v].producer.valid()) {
    const Node& node = graph.producer(v);
    if (node.op == ops::full) return node.attrs.number("value");
    if (node.op != ops::broadcast && node.op != ops::reshape && node.op != ops::convert) break;
    v = node.inputs[0];
  }
  return {};
}
const Node* iota_of(const Graph& graph, ValueId v) {
  while (graph[v].producer.valid() && graph.producer(v).op == ops::convert) v = graph.producer(v).inputs[0];
  if (!graph[v].producer.valid() || graph.producer(v).op != ops::iota) return nullptr;
  return &graph.producer(v);
}
}  // namespace

int64_t stride_of(const Shape& shape, size_t dim) {
  int64_t out = 1;
  for (size_t d = dim + 1; d < shape.size(); ++d) out *= shape[d];
  return out;
}

std::optional<Share> reshaped(const Share& place, const Shape& from, const Shape& to, int64_t samples) {
  const int64_t stride = place.inner * stride_of(from, place.dim);  // between two samples, row-major
  for (size_t d = 0; d < to.size(); ++d) {
    const int64_t step = stride_of(to, d);
    if (step == 0 || stride % step || to[d] == 1) continue;
    const int64_t inner = stride / step;
    if (to[d] % (inner * samples) == 0) return Share{ShareKind::samples, d, inner};
  }
  return {};
}

std::optional<Share> counted_by_sample(const Graph& graph, ValueId v, int64_t inner, int64_t samples) {
  if (!graph[v].producer.valid()) return {};
  const Node& node = graph.producer(v);
  if (node.op == ops::convert) return counted_by_sample(graph, node.inputs[0], inner, samples);
  if (node.op == ops::reshape) {
    const auto place = counted_by_sample(graph, node.inputs[0], inner, samples);
    return place ? reshaped(*place, graph[node.inputs[0]].shape, graph[v].shape, samples) : std::nullopt;
  }
  if (node.op == ops::add) {
    const auto left = counted_by_sample(graph, node.inputs[0], inner, samples);
    return left ? left : counted_by_sample(graph, node.inputs[1], inner, samples);
  }
  if (node.op == ops::iota && inner == 1) return sample_number(graph, node, samples);
  if (node.op != ops::mul) return {};
  for (size_t i = 0; i < 2; ++i)
    if (const Node* number = iota_of(graph, node.inputs[i]))
      if (constant(graph, node.inputs[1 - i]) == static_cast<double>(inner))
        return sample_number(graph, *number, samples);
  return {};
}

std::optional<Share> numbers_within(const Graph& graph, ValueId iota, ValueId v, int64_t samples) {
  const Node* number = iota_of(graph, iota);
  const auto by = number ? constant(graph, v) : std::nullopt;
  if (!by || !(*by >= 1)) return {};
  const auto dim = static_cast<size_t>(number->attrs.integer("dim"));
  const int64_t inner = graph[number->outputs[0]].shape[dim] / samples;
  if (inner == 0 || inner % static_cast<int64_t>(*by)) return {};
  return Share{ShareKind::samples, dim, inner};
}

}  // namespace lockstep::compiler
