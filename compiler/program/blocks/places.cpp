// Assigns places, first to the parts of concats, then to views.
#include "compiler/program/blocks/places.h"

#include "compiler/fuse/strides.h"
#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
bool is_reshape(const Node& node) { return node.op == ops::reshape && !node.body; }

bool is_view(const Node& node) { return node.op == ops::permute && node.attrs.flag("alias"); }
// Whether a convolution writes through this permute; through others it reads.
bool is_written(const Graph& graph, const Node& node) {
  return is_view(node) && graph[node.inputs[0]].producer.valid() &&
         op_row(graph.producer(node.inputs[0]).op).library == Library::convolution;
}

// Moves a part into a whole, and with it the value that it reshapes.
void move_to(const Graph& graph, PerValue<Place>& places, ValueId v, const Place& place) {
  places[v] = place;
  const Node& node = graph.producer(v);
  if (!is_reshape(node)) return;
  auto strides = reshape_strides(graph[v].shape, place.strides, graph[node.inputs[0]].shape);
  LS_CHECK(strides.has_value(), "reshape into a strided value at ", node.at.text());
  move_to(graph, places, node.inputs[0], {place.root, place.offset, *strides});
}
}  // namespace

PerValue<Place> places_of(const Graph& graph) {
  PerValue<Place> places(graph.values.size());
  for (ValueId v : graph.value_ids()) places[v] = {v, 0, row_major_strides(graph[v].shape)};
  // The last concat comes first, because its parts may be concats.
  for (NodeId n : graph.node_ids().backward()) {
    const Node& node = graph.node(n);
    if (is_written(graph, node)) {
      const Place whole = places[node.outputs[0]];
      const auto& order = node.attrs.list("order");
      Place& made = places[node.inputs[0]];
      made = {whole.root, whole.offset, std::vector<int64_t>(order.size())};
      for (size_t d = 0; d < order.size(); ++d) made.strides[order[d]] = whole.strides[d];
    }
    if (node.op != ops::concat || !node.attrs.flag("alias")) continue;
    const Place whole = places[node.outputs[0]];
    const size_t dim = node.attrs.integer("dim");
    int64_t at = 0;
    for (ValueId part : node.inputs) {
      move_to(graph, places, part,
              {whole.root,
               whole.offset + at * whole.strides[dim] * static_cast<int64_t>(size_of(graph[part].dtype)),
               whole.strides});
      at += graph[part].shape[dim];
    }
  }
  for (const Node& node : graph.nodes) {
    const bool reshape = is_reshape(node), slice = node.op == ops::slice && node.attrs.flag("alias"),
               permute = is_view(node) && !is_written(graph, node);
    if (!reshape && !slice && !permute) continue;
    Place& out = places[node.outputs[0]];
    const Place& in = places[node.inputs[0]];
    const Value& from = graph[node.inputs[0]];
    out.root = in.root;
    out.offset = in.offset;
    if (reshape) {
      auto strides = reshape_strides(from.shape, in.strides, graph[node.outputs[0]].shape);
      LS_CHECK(strides.has_value(), "reshape of a strided value at ", node.at.text());
      out.strides = *strides;
    } else if (permute) {
      const auto& order = node.attrs.list("order");
      for (size_t d = 0; d < order.size(); ++d) out.strides[d] = in.strides[order[d]];
    } else {
      out.strides = in.strides;
      const auto& start = node.attrs.list("start");
      for (size_t d = 0; d < start.size(); ++d)
        out.offset += start[d] * in.strides[d] * static_cast<int64_t>(size_of(from.dtype));
    }
  }
  return places;
}

}  // namespace lockstep::compiler
