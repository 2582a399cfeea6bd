// Marks slices and concats that stay views, and the stride arithmetic of reshapes.
#include "compiler/fuse/views.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "compiler/codegen/target.h"
#include "compiler/fuse/strides.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

std::optional<std::vector<int64_t>> reshape_strides(const Shape& shape, const std::vector<int64_t>& strides,
                                                    const Shape& to) {
  std::vector<int64_t> out(to.size(), 1);
  if (numel(shape) == 0) return row_major_strides(to);
  size_t j = to.size();
  size_t i = shape.size();
  while (i > 0) {
    // A maximal run of dims of the old shape that nests into one.
    size_t run = i;
    int64_t inner = strides[i - 1], count = shape[i - 1];
    while (run > 1 &&
           (shape[run - 2] == 1 || strides[run - 2] == strides[run - 1] * shape[run - 1] || count == 1))
      --run, count *= shape[run - 1];
    --run;
    int64_t taken = 1;
    while (j > 0 && taken < count) {
      --j;
      out[j] = inner * taken;
      taken *= to[j];
    }
    if (taken != count) return std::nullopt;
    while (j > 0 && to[j - 1] == 1) out[--j] = inner * taken;
    i = run;
  }
  while (j > 0) {
    if (to[j - 1] != 1) return std::nullopt;
    --j;
  }
  return out;
}

namespace {
constexpr size_t kManyParts = 8;  // a kernel that reads a concat tests each part at every element
constexpr int64_t kAligned = 16;  // bytes: the alignment that library calls require of dense operands

class Marker {
 public:
  Marker(const Graph& graph, const Target& target) : graph_(graph), target_(target), users_(users_of(graph)) {
    for (const auto& output : graph.outputs) outputs_.push_back(output.value);
  }
  // Whether a slice, read in place, begins at an address that library calls accept.
  bool begins_well(const Node& slice) const {
    const Value& whole = graph_[slice.inputs[0]];
    const auto& start = slice.attrs.list("start");
    const std::vector<int64_t> strides = row_major_strides(whole.shape);
    const int64_t elements = std::inner_product(start.begin(), start.end(), strides.begin(), int64_t{0});
    return lies_well(offset_of(slice.inputs[0]), elements, whole.dtype);
  }
  // Whether every reader of v, also through reshapes, accepts v with these strides.
  bool readers_take(ValueId v, const std::vector<int64_t>& strides) const {
    if (is_output(v) || users_[v].empty()) return false;
    for (NodeId n : users_[v]) {
      const Node& node = graph_.node(n);
      if (node.op == ops::reshape) {
        auto further = reshape_strides(graph_[v].shape, strides, graph_[node.outputs[0]].shape);
        if (!further || !readers_take(node.outputs[0], *further)) return false;
        continue;
      }
      if (strides.empty() || strides.back() != 1) return false;
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i] == v && !target_.accepts_strides(node, i)) return false;
    }
    return true;
  }
  // Whether a slice is a range of memory that only library calls and collectives read: they read it in place.
  bool is_stretch(const Node& slice) const {
    const Shape &from = graph_[slice.inputs[0]].shape, &to = graph_[slice.outputs[0]].shape;
    size_t cut = 0;
    while (cut < from.size() && from[cut] == 1) ++cut;
    for (size_t d = cut + 1; d < from.size(); ++d)
      if (from[d] != to[d]) return false;
    return cut < from.size() && read_dense(slice.outputs[0]);
  }
  // Whether library ops can write all parts of a concat in place in the whole.
  bool writers_take(const Node& concat) const {
    const Value& whole = graph_[concat.outputs[0]];
    const std::vector<int64_t> strides = row_major_strides(whole.shape);
    const auto dim = static_cast<size_t>(concat.attrs.integer("dim"));
    int64_t before = 0;
    for (size_t i = 0; i < concat.inputs.size(); ++i) {
      const ValueId part = concat.inputs[i];
      if (std::count(concat.inputs.begin(), concat.inputs.end(), part) > 1 || !writer_takes(part, strides) ||
          !lies_well(0, before * strides[dim], whole.dtype))
        return false;
      before += graph_[part].shape[dim];
    }
    return true;
  }
  // Whether v is made, possibly through reshapes, by a library op that can write it with these strides.
  bool writer_takes(ValueId v, const std::vector<int64_t>& strides) const {
    if (is_output(v) || users_[v].size() != 1 || !graph_[v].producer.valid()) return false;
    const Node& node = graph_.producer(v);
    if (node.op == ops::reshape) {
      auto further = reshape_strides(graph_[v].shape, strides, graph_[node.inputs[0]].shape);
      return further && writer_takes(node.inputs[0], *further);
    }
    return !strides.empty() && strides.back() == 1 &&
           target_.accepts_strides(node, node.inputs.size() + static_cast<size_t>(graph_[v].index));
  }
  // Whether the parts of a concat can be made in place in the whole, each dense, so that their readers and
  // writers see a dense value. A value can be in only one whole.
  bool parts_lie_dense(const Node& concat) {
    const Shape& whole = graph_[concat.outputs[0]].shape;
    const auto dim = concat.attrs.integer("dim");
    if ((concat.inputs.size() < kManyParts && !concat.attrs.flag("pieces")) ||
        std::any_of(whole.begin(), whole.begin() + dim, [](int64_t size) { return size != 1; }))
      return false;
    std::map<ValueId, int64_t> made;
    int64_t offset = 0;
    for (ValueId part : concat.inputs) {
      const ValueId from = maker_of(part, offset);
      if (from == kNoValue || moved_.count(from) || !made.emplace(from, offset).second) return false;
      offset += bytes_of(graph_[part].dtype, graph_[part].shape);
    }
    moved_.merge(made);
    return true;
  }

 private:
  static bool lies_well(int64_t bytes, int64_t elements, DType dtype) {
    return (bytes + elements * static_cast<int64_t>(size_of(dtype))) % kAligned == 0;
  }
  // Offset of a value in the whole inside which it is made, also through reshapes; 0 if it has its own place.
  int64_t offset_of(ValueId v) const {
    for (;; v = graph_.producer(v).inputs[0]) {
      if (const auto found = moved_.find(v); found != moved_.end()) return found->second;
      if (!graph_[v].producer.valid() || graph_.producer(v).op != ops::reshape) return 0;
    }
  }
  // The value, also through reshapes, that is made at the place of `part`, `offset` bytes after the start of
  // the whole. None if it already has a place, or if a library call reads or writes it and cannot do so
  // there.
  ValueId maker_of(ValueId part, int64_t offset) const {
    const bool aligned = offset % kAligned == 0;
    for (ValueId v = part;; v = graph_.producer(v).inputs[0]) {
      if (is_output(v) || !graph_[v].producer.valid()) return kNoValue;
      const Node& node = graph_.producer(v);
      const bool reshape = node.op == ops::reshape;
      if (node.attrs.flag("alias")) return kNoValue;
      if (!aligned && (target_.is_library_op(node.op) || read_by_library(v))) return kNoValue;
      if (!reshape) return v;
    }
  }
  // Whether only library calls read it: the value itself, a reshape of it, or a slice that is a view.
  bool read_by_library(ValueId v) const {
    return std::any_of(users_[v].begin(), users_[v].end(), [&](NodeId n) {
      const Node& node = graph_.node(n);
      return target_.is_library_op(node.op) || node.attrs.flag("alias") ||
             (node.op == ops::reshape && read_by_library(node.outputs[0]));
    });
  }
  bool read_dense(ValueId v) const {
    return !is_output(v) && !users_[v].empty() &&
           std::all_of(users_[v].begin(), users_[v].end(), [&](NodeId n) {
             const Node& node = graph_.node(n);
             if (node.op == ops::reshape) return read_dense(node.outputs[0]);
             return target_.is_library_op(node.op) || op_row(node.op).kind == OpKind::collective;
           });
  }
  bool is_output(ValueId v) const {
    for (ValueId output : outputs_)
      if (output == v) return true;
    return false;
  }
  const Graph& graph_;
  const Target& target_;
  PerValue<std::vector<NodeId>> users_;
  std::vector<ValueId> outputs_;
  std::map<ValueId, int64_t> moved_;  // made inside a whole, this many bytes after its start
};
}  // namespace

Graph mark_views(Graph graph, const PassContext& context) {
  Marker marker(graph, target_of(context.options));
  for (Node& node : graph.nodes) {
    if (node.op == ops::slice) {
      const auto& step = node.attrs.list("step");
      const bool unit = std::all_of(step.begin(), step.end(), [](int64_t each) { return each == 1; });
      if (unit && marker.begins_well(node) &&
          (marker.readers_take(node.outputs[0], row_major_strides(graph[node.inputs[0]].shape)) ||
           marker.is_stretch(node)))
        node.attrs.set("alias", true);
    }
    if (node.op == ops::concat && (marker.writers_take(node) || marker.parts_lie_dense(node)))
      node.attrs.set("alias", true);
  }
  return graph;
}

}  // namespace lockstep::compiler
