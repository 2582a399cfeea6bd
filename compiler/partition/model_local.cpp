// The graph of one rank: local shapes, and redistributions as collectives between plain ops.
#include <algorithm>
#include <map>

#include "compiler/partition/model.h"
#include "compiler/partition/shard_ways.h"
#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ir/walk.h"
#include "core/ops/localize.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
using Kind = Placement::Kind;
using List = std::vector<int64_t>;
// Terms with fewer elements are all gathered, and every rank adds them: one collective instead of two.
constexpr int64_t kFew = 16384;
// Number of starts between that of a gradient's terms and the wait for its sum.
constexpr int kStartsBetween = 2;

class Localizer {
 public:
  Localizer(const Graph& old, const PassContext& context, int dim)
      : old_(old),
        context_(context),
        dim_(dim),
        ranks_(context.mesh.shape[dim]),
        name_(context.mesh.dim_names[dim]) {
    made_ = std::make_shared<Builder>();
    made_->graph.mesh = context.mesh;
    map_.resize(old.values.size());
  }

  Graph run() {
    for (const auto& input : old_.inputs)
      map_[input.value] = {made_, made_->graph.add_input(input.kind, input.name, old_[input.value].dtype,
                                                         local_shape(input.value))};
    const auto users = users_of(old_);
    for (const Node& node : old_.nodes) {
      AtLine line(node.at);
      if (small_gradient(node, users)) {
        small_.push_back(&node);
        continue;
      }
      if (node.op == ops::sum_lanes && is_small(node.inputs[0])) {
        sums_.push_back(&node);
        continue;
      }
      const bool travels = node.op == ops::redistribute && node.attrs.word("from") != "Replicate";
      if (travels ||
          std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return !map_[v].defined(); }))
        flush_small();
      if (node.op == ops::redistribute) {
        // The narrower source of a widened value travels instead: the same terms in fewer bytes.
        map_[node.outputs[0]] = moved(map_[node.inputs[0]], parse_placement(node.attrs.word("from")),
                                      parse_placement(node.attrs.word("to")), narrow_source(node.inputs[0]));
        continue;
      }
      copy(node);
    }
    flush_small();
    for (const auto& output : old_.outputs)
      made_->graph.add_output(output.kind, output.name, map_[output.value].id());
    return starts_early_waits_late(prune(made_->graph));
  }

 private:
  static bool is_start(const Node& node) {
    return op_row(node.op).of_model && op_row(node.op).half == CollectiveHalf::start;
  }
  Placement placement(ValueId v) const { return old_[v].layout.on(dim_); }
  Shape local_shape(ValueId v) const { return shard_shape(old_[v].shape, placement(v), ranks_); }

  void copy(const Node& node) {
    std::vector<Tensor> in;
    for (ValueId v : node.inputs) in.push_back(map_[v]);
    auto out = apply_at(node.op, in, local_attrs(node), node.at, made_);
    made_->graph.nodes.back().body = node.body;
    for (size_t i = 0; i < out.size(); ++i) {
      LS_CHECK(out[i].shape() == local_shape(node.outputs[i]), node.op, " at ", node.at.text(),
               " on one rank makes ", out[i].text(), ", its part is ", local_shape(node.outputs[i]));
      map_[node.outputs[i]] = out[i];
    }
  }

  // Terms of small gradients travel together, when the next collective is due.
  bool small_gradient(const Node& node, const PerValue<std::vector<NodeId>>& users) const {
    if (node.op != ops::redistribute || node.attrs.word("from") != "Partial(sum)" ||
        node.attrs.word("to") != "Replicate")
      return false;
    const Value& value = old_[node.outputs[0]];
    const auto& readers = users[node.outputs[0]];
    return numel(value.shape) < kFew && value.dtype == DType::f32 &&
           !narrow_source(node.inputs[0]).defined() && readers.size() == 1 &&
           old_.node(readers[0]).op == ops::sum_lanes;
  }
  bool is_small(ValueId v) const {
    return std::any_of(small_.begin(), small_.end(), [&](const Node* node) { return node->outputs[0] == v; });
  }
  void flush_small() {
    if (small_.empty()) return;
    AtLine line(small_[0]->at);
    std::vector<Tensor> flat;
    for (const Node* node : small_)
      flat.push_back(reshape(map_[node->inputs[0]], {numel(old_[node->inputs[0]].shape)}));
    Tensor whole = moved(flat.size() == 1 ? flat[0] : concat(flat, 0), Partial(), Replicate(), {});
    int64_t at = 0;
    for (const Node* node : small_) {
      const Shape& shape = old_[node->outputs[0]].shape;
      map_[node->outputs[0]] = reshape(slice(whole, 0, at, at + numel(shape)), shape);
      at += numel(shape);
    }
    small_.clear();
    std::vector<const Node*> sums;
    std::swap(sums, sums_);
    for (const Node* node : sums) copy(*node);
  }

  Attrs local_attrs(const Node& node) const {
    if (node.op == ops::global_norm) {
      List once;
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (placement(node.inputs[i]) == Replicate()) once.push_back(static_cast<int64_t>(i));
      Attrs attrs = node.attrs;
      attrs.set("model_dim", name_);
      attrs.set("once", once);
      return attrs;
    }
    // Borders along a cut dim are between whole groups: they shrink with the parts.
    Attrs attrs = node.attrs;
    const Placement to = placement(node.outputs[0]);
    auto cut = [&](const char* attr) {
      List list = attrs.list(attr);
      list[to.dim] /= ranks_;
      attrs.set(attr, list);
    };
    if (to.kind == Kind::shard && node.op == ops::slice) {
      cut("start"), cut("limit");
      return attrs;
    }
    if (to.kind == Kind::shard && node.op == ops::pad) {
      cut("lo"), cut("hi");
      return attrs;
    }
    std::vector<Shape> local;
    for (ValueId v : node.outputs) local.push_back(local_shape(v));
    const bool sized = attrs.has("shape") || attrs.has("rows");
    return sized && op_row(node.op).kind != OpKind::random ? localize_attrs(op_row(node.op), attrs, local)
                                                           : attrs;
  }

  Tensor narrow_source(ValueId v) const {
    const NodeId producer = old_[v].producer;
    if (!producer.valid()) return {};
    const Node& node = old_.node(producer);
    if (node.op != ops::convert || !is_float(old_[node.inputs[0]].dtype) ||
        size_of(old_[node.inputs[0]].dtype) >= size_of(old_[v].dtype))
      return {};
    return map_[node.inputs[0]];
  }

  // Reshapes a dim of `shape` to (groups, ranks, rest), with the ranks first: [ranks, before, groups, rest,
  // after]. And the inverse.
  Tensor ranks_first(Tensor x, const Placement& shard) const {
    Shape apart = x.shape();
    const int64_t size = apart[shard.dim];
    apart.erase(apart.begin() + shard.dim);
    apart.insert(apart.begin() + shard.dim, {shard.groups, ranks_, size / (shard.groups * ranks_)});
    List order{shard.dim + 1};
    for (int64_t d = 0; d < static_cast<int64_t>(apart.size()); ++d)
      if (d != shard.dim + 1) order.push_back(d);
    return ordered(reshape(x, apart), order);
  }
  // Permutes; a reshape is enough if only dims of size 1 change places.
  static Tensor ordered(Tensor x, const List& order) {
    Shape shape;
    List larger;
    for (int64_t d : order) {
      shape.push_back(x.size(static_cast<int>(d)));
      if (shape.back() != 1) larger.push_back(d);
    }
    return std::is_sorted(larger.begin(), larger.end()) ? reshape(x, shape) : permute(x, order);
  }
  // [ranks, part...] -> the whole, from parts along the shard's dim.
  Tensor put_together(Tensor stacked, const Placement& shard) const {
    Shape apart = stacked.shape();  // [ranks, before, size, after]
    const int64_t size = apart[shard.dim + 1];
    apart.erase(apart.begin() + shard.dim + 1);
    apart.insert(apart.begin() + shard.dim + 1, {shard.groups, size / shard.groups});
    List order;
    for (int64_t d = 1; d < static_cast<int64_t>(apart.size()); ++d) {
      order.push_back(d);
      if (d == shard.dim + 1) order.push_back(0);  // after the groups
    }
    Shape whole = stacked.shape();
    whole.erase(whole.begin());
    whole[shard.dim] *= ranks_;
    return reshape(ordered(reshape(stacked, apart), order), whole);
  }

  Tensor collective(OpId op, Tensor x, const Shape& result) const {
    Tensor handle = apply1(op, {x}, {{"mesh_dim", Attr(name_)}});
    return apply1(ops::model_wait, {handle}, {{"types", Attr(shape_text(x.dtype(), result))}});
  }
  Tensor gathered(Tensor x) const {
    Shape stacked = x.shape();
    stacked.insert(stacked.begin(), ranks_);
    return collective(ops::model_gather_start, x, stacked);
  }
  // Gathers pieces of a sequence, as ranges of memory, each to its place.
  Tensor gathered_whole(Tensor x, const Placement& shard) const {
    bool stretches = shard.groups > 1 && x.ndim() >= 3;  // of tokens
    for (int d = 0; d < shard.dim; ++d) stretches = stretches && x.size(d) == 1;
    if (!stretches) return put_together(gathered(x), shard);
    std::vector<Tensor> parts;
    const int64_t size = x.size(shard.dim) / shard.groups;
    for (int64_t g = 0; g < shard.groups; ++g)
      parts.push_back(
          put_together(gathered(slice(x, shard.dim, g * size, (g + 1) * size)), Shard(shard.dim)));
    return apply1(ops::concat, parts, {{"dim", Attr(int64_t{shard.dim})}, {"pieces", Attr(true)}});
  }
  Tensor exchanged(Tensor stacked) const {
    return collective(ops::model_exchange_start, stacked, stacked.shape());
  }
  // The sum over ranks, in their order. bf16 and f16 are added in f32 and rounded once.
  Tensor added(Tensor stacked, DType to) const {
    const bool halves = is_float(stacked.dtype()) && size_of(stacked.dtype()) < 4;
    Tensor terms = halves ? convert(stacked, DType::f32) : stacked;
    return convert(sum(terms, {0}), to);
  }

  Tensor moved(Tensor x, const Placement& from, const Placement& to, Tensor narrow) const {
    const DType dtype = x.dtype();
    if (from.kind == Kind::partial && narrow.defined()) x = narrow;
    if (from == Replicate()) {  // this rank's part
      Tensor parts = ranks_first(x, to), at{made_, made_->scalar_input("mesh." + name_, DType::i32)};
      return reshape(take(parts, at), shard_shape(x.shape(), to, ranks_));
    }
    if (from.kind == Kind::partial && to.kind == Kind::shard)
      return reshape(added(exchanged(ranks_first(x, to)), dtype), shard_shape(x.shape(), to, ranks_));
    if (from.kind == Kind::partial) {
      const int64_t count = numel(x.shape());
      if (count < kFew || count % ranks_) return added(gathered(x), dtype);
      return reshape(gathered(added(exchanged(reshape(x, {ranks_, count / ranks_})), dtype)), x.shape());
    }
    if (to == Replicate()) return gathered_whole(x, from);
    if (from.dim == to.dim) return moved(put_together(gathered(x), from), Replicate(), to, {});
    // [ranks, before.., groups, rest, after..], still cut at `from`
    Tensor parts = exchanged(ranks_first(x, to));
    Shape each = x.shape();
    each[to.dim] /= ranks_;
    each.insert(each.begin(), ranks_);
    return put_together(reshape(parts, each), from);
  }

  // Orders nodes: a start comes right after the node that makes its input, a wait right before the first
  // reader of its result. Independent nodes run while the collective travels.
  Graph starts_early_waits_late(const Graph& graph) const {
    std::vector<NodeId> order;
    PerNode<bool> placed(graph.nodes.size());
    PerValue<bool> late(graph.values.size());
    std::map<NodeId, std::vector<NodeId>> starts_behind;  // also through views
    for (NodeId n : graph.node_ids()) {
      if (!is_start(graph.node(n))) continue;
      NodeId made = graph[graph.node(n).inputs[0]].producer;
      while (made.valid() && op_row(graph.node(made).op).kind == OpKind::view &&
             graph.node(made).inputs.size() == 1)
        made = graph[graph.node(made).inputs[0]].producer;
      if (made.valid()) starts_behind[made].push_back(n);
    }
    auto put = [&](auto&& self, NodeId n) -> void {
      if (placed[n]) return;
      placed[n] = true;
      for (ValueId v : graph.node(n).inputs)
        if (graph[v].producer.valid()) self(self, graph[v].producer);
      order.push_back(n);
      if (auto behind = starts_behind.find(n); behind != starts_behind.end())
        for (NodeId start : behind->second) self(self, start);
    };
    // {number of earlier starts, sum over micro-batches of a travelling value}
    std::vector<std::pair<int, NodeId>> sums;
    int starts = 0;
    for (NodeId n : graph.node_ids()) {
      const Node& node = graph.node(n);
      if (is_start(node)) {
        ++starts;
        std::erase_if(sums, [&](const auto& sum) {
          if (starts - sum.first > kStartsBetween) put(put, sum.second);
          return starts - sum.first > kStartsBetween;
        });
      }
      const OpKind kind = op_row(node.op).kind;
      bool of_wait = node.op == ops::model_wait;
      for (ValueId v : node.inputs) of_wait = of_wait || late[v];
      // Waits, and nodes that only reshape their result.
      if (of_wait && (node.op == ops::model_wait || node.op == ops::convert || node.op == ops::sum ||
                      kind == OpKind::view)) {
        for (ValueId v : node.outputs) late[v] = true;
        continue;
      }
      if (of_wait && node.op == ops::sum_lanes)
        sums.emplace_back(starts, n);
      else
        put(put, n);
    }
    for (NodeId n : graph.node_ids()) put(put, n);
    return reorder(graph, order);
  }

  const Graph& old_;
  const PassContext& context_;
  const int dim_;
  const int64_t ranks_;
  const std::string name_;
  std::shared_ptr<Builder> made_;
  PerValue<Tensor> map_;
  // Terms that wait to travel together, and the sums over micro-batches that read them.
  std::vector<const Node*> small_, sums_;
};
}  // namespace

Graph localize_model(const Graph& graph, const PassContext& context, int mesh_dim) {
  return Localizer(graph, context, mesh_dim).run();
}

}  // namespace lockstep::compiler
