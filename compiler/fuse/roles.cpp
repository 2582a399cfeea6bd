// Roles of nodes in fusion: which values are computed inside their readers, and which get a buffer.
#include <algorithm>

#include "compiler/fuse/groups.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
constexpr int kCheap = 10;      // vector instructions up to which a value is recomputed instead of stored
constexpr int kMostDepth = 10;  // length of a chain of cheap producers
// The same for an f32 value computed from bf16 or f16: storing and loading it would move more bytes than
// loading its inputs again.
constexpr int kCheapWidened = 64, kMostDepthWidened = 32;
constexpr double kReadWidened = 1.25;  // bytes read, relative to those of the value
// The most loads and operations per element. A view of views of several inputs multiplies them, and so does a
// scan. A kernel can have 4000 (loops/evaluate.cpp), but the kernel compiler is slow with that many.
constexpr double kMostItems = 400;

bool is_reshape(const Node& node) {
  return op_row(node.op).kind == OpKind::view && node.inputs.size() == 1 && node.attrs.has("shape") &&
         !node.attrs.has("dims");
}
bool is_primitive(const Node& node) {
  if (node.attrs.has("alias") || node.attrs.has("again"))
    return false;  // views, and barriers of rematerialize: the planner aliases them
  switch (op_row(node.op).kind) {
    case OpKind::pointwise:
    case OpKind::creation:
    case OpKind::random:
    case OpKind::reduce:
    case OpKind::view:
      return true;
    case OpKind::index:
      return !node.attrs.has("rows");
    default:
      return false;
  }
}
}  // namespace

void FuseGroups::find_sources(NodeId n) {
  const Node& node = graph_.node(n);
  for (ValueId output : node.outputs) {
    if (roles_[n] != FuseRole::copied) {
      sources_[output] = {output};
      continue;
    }
    std::set<ValueId> all;
    for (ValueId input : node.inputs) {
      all.insert(sources_[input].begin(), sources_[input].end());
      depth_[output] = std::max(depth_[output], depth_[input]);
    }
    if (op_row(node.op).kind == OpKind::pointwise) ++depth_[output];
    sources_[output] = {all.begin(), all.end()};
  }
}

// Whether it reads no more bytes than it writes, and is cheap to compute again.
bool FuseGroups::cheap(const Node& node, ValueId value) const {
  if (op_row(node.op).kind != OpKind::pointwise) return false;
  std::set<ValueId> all;
  int depth = 0;
  for (ValueId input : node.inputs) {
    all.insert(sources_[input].begin(), sources_[input].end());
    depth = std::max(depth, depth_[input]);
  }
  double read = 0;
  bool halves = false;
  for (ValueId source : all) {
    read += bytes(source);
    halves = halves || size_of(graph_[source].dtype) == 2;
  }
  int cost = op_row(node.op).scalar.cost;
  if (halves && graph_[value].dtype == DType::f32)
    return depth < kMostDepthWidened && read <= kReadWidened * bytes(value) && cost <= kCheapWidened;
  return depth < kMostDepth && read <= bytes(value) && cost <= kCheap;
}

void FuseGroups::find_roles() {
  roles_.assign(graph_.nodes.size(), FuseRole::kept);
  needed_ = needed_nodes(graph_);
  buffered_.assign(graph_.values.size(), false);
  sources_.resize(graph_.values.size());
  items_.assign(graph_.values.size(), 1);
  for (const auto& output : graph_.outputs) buffered_[output.value] = true;
  for (NodeId n : graph_.node_ids().backward()) {
    const Node& node = graph_.node(n);
    if (!needed_[n]) continue;
    bool passes = is_primitive(node) && is_reshape(node) &&
                  (buffered_[node.outputs[0]] || !options_.enabled);  // a buffer under another shape
    if (!is_primitive(node) || passes)
      for (ValueId input : node.inputs) buffered_[input] = true;
  }
  while (!give_roles()) continue;
}

// Assigns roles in one pass over the graph. A copied producer adds its items to those of each reader. If a
// reader gets more than kMostItems, count_items gives its largest input a buffer, and this returns false. The
// caller then repeats the pass. It ends because each repetition adds a buffer.
bool FuseGroups::give_roles() {
  depth_.assign(graph_.values.size(), 0);
  for (const auto& input : graph_.inputs) sources_[input.value] = {input.value};
  for (NodeId n : graph_.node_ids()) {
    const Node& node = graph_.node(n);
    if (needed_[n] && is_primitive(node)) {
      const ValueId value = node.outputs[0];
      const OpKind kind = op_row(node.op).kind;
      if (is_reshape(node) && (buffered_[value] || !options_.enabled))
        roles_[n] = FuseRole::kept;
      else if (!options_.enabled || buffered_[value])
        roles_[n] = FuseRole::member;
      else
        roles_[n] = kind == OpKind::view || kind == OpKind::creation || cheap(node, value) ? FuseRole::copied
                                                                                           : FuseRole::member;
    }
    find_sources(n);
    if (needed_[n] && is_primitive(node) && !count_items(n)) return false;
  }
  return true;
}

bool FuseGroups::count_items(NodeId n) {
  const Node& node = graph_.node(n);
  const bool view = op_row(node.op).kind == OpKind::view;
  double total = view ? static_cast<double>(node.inputs.size()) - 1 + node.attrs.has("lo") : 1;
  auto items = [&](ValueId value) {
    const bool stored = sources_[value].size() == 1 && sources_[value][0] == value;
    return stored ? 1.0 : items_[value];
  };
  for (ValueId input : node.inputs) total += items(input);
  for (ValueId output : node.outputs) items_[output] = total;
  if (total <= kMostItems) return true;
  ValueId most = *std::max_element(node.inputs.begin(), node.inputs.end(),
                                   [&](ValueId a, ValueId b) { return items(a) < items(b); });
  if (items(most) == 1) return true;
  while (is_reshape(graph_.producer(most))) most = graph_.producer(most).inputs[0];
  buffered_[most] = true;
  return false;
}

}  // namespace lockstep::compiler
