// Placements of the joint graph on one model dim: for each node, the way that moves the fewest bytes.
#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/partition/model.h"
#include "compiler/partition/model_refusals.h"
#include "compiler/partition/shard_ways.h"
#include "compiler/partition/token_split.h"
#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
using Kind = Placement::Kind;
constexpr double kNever = 1e30;

class ModelPlacer {
 public:
  ModelPlacer(const Graph& old, const PassContext& context, int dim)
      : old_(old),
        context_(context),
        dim_(dim),
        ranks_(context.mesh.shape[dim]),
        forms_(old.values.size()),
        weight_(old.values.size()),
        counted_(old.values.size()),
        of_body_(old.values.size()),
        of_sums_(old.values.size()),
        whole_(old.values.size()),
        users_(users_of(old)),
        refusals_(old, context, dim) {}

  Graph run() {
    made_.mesh = context_.mesh;
    split_.tokens = tokens_of(old_);
    for (const auto& input : old_.inputs) {
      const Value& value = old_[input.value];
      ValueId v = made_.add_input(input.kind, input.name, value.dtype, value.shape);
      Placement place =
          input.kind == InputKind::state ? context_.layout_of(input.name).on(dim_) : Replicate();
      made_[v].layout.set(dim_, place);
      forms_[input.value].push_back({place, v});
      if (input.kind == InputKind::state && place.kind == Kind::shard) weight_[input.value] = input.name;
    }
    bool sharded =
        std::any_of(weight_.begin(), weight_.end(), [](const std::string& fqn) { return !fqn.empty(); });
    split_.ranks = ranks_;
    split_.parallel = sharded && context_.options.sequence_parallel && split_.tokens.size() == 2;
    if (sharded) refusals_.check_sizes(split_.parallel ? split_.tokens[1] : 0), refusals_.end();
    split_.find_pieces(old_);
    find_wanted();
    find_whole();
    PerNode<bool> done(old_.nodes.size());
    for (NodeId n : old_.node_ids()) {
      if (done[n]) continue;
      place(old_.node(n));
      // A gradient is complete where it is made: its sum over ranks travels while backward continues.
      for (ValueId v : old_.node(n).outputs)
        for (NodeId reader : users_[v])
          if (!done[reader] && old_.node(reader).op == ops::sum_lanes)
            done[reader] = true, place(old_.node(reader));
    }
    for (const auto& output : old_.outputs) {
      Placement wanted =
          output.kind == OutputKind::state ? context_.layout_of(output.name).on(dim_) : Replicate();
      made_.add_output(output.kind, output.name, form(output.value, wanted));
    }
    refusals_.end();
    return prune(made_);
  }

 private:
  struct Form {
    Placement place;
    ValueId value;  // of the new graph
  };

  double bytes(ValueId old) const {
    return static_cast<double>(numel(old_[old].shape)) * static_cast<double>(size_of(old_[old].dtype));
  }
  Placement summed(ValueId old) const { return split_.summed(old_[old].shape); }
  // Bytes that a rank receives.
  double cost(ValueId old, const Placement& from, const Placement& to) const {
    if (from == to) return 0;
    const double part = bytes(old) * static_cast<double>(ranks_ - 1) / static_cast<double>(ranks_);
    if (from == Replicate()) return to.kind == Kind::shard ? 0 : kNever;
    if (to.kind == Kind::partial) return kNever;
    if (!weight_[old].empty()) return kNever;
    if (from.kind == Kind::partial) return to.kind == Kind::shard ? part : 2 * part;
    return to.kind == Kind::shard ? part / static_cast<double>(ranks_) : part;
  }
  // For a value in pieces, each gathered for its product: their whole forms; else none.
  std::vector<ValueId> gathered_pieces(ValueId old) const {
    const NodeId producer = old_[old].producer;
    if (!producer.valid() || !old_.node(producer).attrs.flag("pieces")) return {};
    std::vector<ValueId> whole;
    for (ValueId v : old_.node(producer).inputs)
      if (const Form* have = find_form(v, Replicate())) whole.push_back(have->value);
    return whole.size() == old_.node(producer).inputs.size() ? whole : std::vector<ValueId>();
  }
  double least_cost(ValueId old, const Placement& to) const {
    return to == Replicate() && !gathered_pieces(old).empty() ? 0 : nearest_form(old, to).first;
  }
  // The form from which a placement is cheapest.
  std::pair<double, const Form*> nearest_form(ValueId old, const Placement& to) const {
    std::pair<double, const Form*> best{std::numeric_limits<double>::infinity(), nullptr};
    for (const Form& have : forms_[old])
      if (double c = cost(old, have.place, to); c < best.first) best = {c, &have};
    return best;
  }
  const Form* find_form(ValueId old, const Placement& place) const {
    for (const Form& have : forms_[old])
      if (have.place == place) return &have;
    return nullptr;
  }

  // The value in a placement: existing, recomputed if that costs nothing, or moved.
  ValueId form(ValueId old, const Placement& to) {
    if (const Form* have = find_form(old, to)) return have->value;
    ValueId made = kNoValue;
    if (auto whole = gathered_pieces(old); to == Replicate() && !whole.empty())
      made = emit(old_.producer(old), whole, {to})[0];
    else
      made = remade(old, to, 4);
    if (made == kNoValue) {
      const Form have = *nearest_form(old, to).second;
      const Value& value = old_[old];
      SourceLine at = value.producer.valid() ? old_.node(value.producer).at : SourceLine{};
      Attrs attrs{{"mesh_dim", Attr(context_.mesh.dim_names[dim_])},
                  {"from", Attr(text(have.place))},
                  {"to", Attr(text(to))}};
      made = made_.append(ops::redistribute, {have.value}, attrs, {{value.dtype, value.shape}},
                          reader_.file.empty() ? at : reader_)[0];
      made_[made].layout.set(dim_, to);
    }
    forms_[old].push_back({to, made});
    return made;
  }
  // Recomputes constants, broadcasts, and arithmetic on them: each rank makes its part, instead of making the
  // whole and slicing it.
  ValueId remade(ValueId old, const Placement& to, int depth) {
    const NodeId producer = old_[old].producer;
    if (!producer.valid() || to.kind != Kind::shard || depth == 0 || !find_form(old, Replicate()))
      return kNoValue;
    const Node& node = old_.node(producer);
    const OpKind kind = op_row(node.op).kind;
    if (kind != OpKind::creation && node.op != ops::broadcast && kind != OpKind::pointwise) return kNoValue;
    if (kind == OpKind::pointwise &&
        !std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return light(v, depth); }))
      return kNoValue;
    for (const auto& way : shard_ways(old_, node, ranks_, {to.groups})) {
      if (!(way.out[0] == to)) continue;
      std::vector<ValueId> inputs;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        ValueId v = node.inputs[i];
        const Form* have = find_form(v, way.in[i]);
        if (!have && nearest_form(v, way.in[i]).first > 0) return kNoValue;
        inputs.push_back(have ? have->value : form(v, way.in[i]));
      }
      return emit(node, inputs, way.out)[0];
    }
    return kNoValue;
  }
  bool light(ValueId old, int depth) const {
    const NodeId producer = old_[old].producer;
    if (!producer.valid() || depth == 0) return numel(old_[old].shape) <= 1;
    const Node& node = old_.node(producer);
    const OpKind kind = op_row(node.op).kind;
    if (kind == OpKind::creation || kind == OpKind::random || node.op == ops::broadcast) return true;
    return kind == OpKind::pointwise && std::all_of(node.inputs.begin(), node.inputs.end(),
                                                    [&](ValueId v) { return light(v, depth - 1); });
  }

  std::vector<ValueId> emit(const Node& node, const std::vector<ValueId>& inputs,
                            const std::vector<Placement>& places) {
    std::vector<std::pair<DType, Shape>> types;
    for (ValueId v : node.outputs) types.emplace_back(old_[v].dtype, old_[v].shape);
    auto made = made_.append(node.op, inputs, node.attrs, types, node.at);
    made_.nodes.back().body = node.body;
    for (size_t i = 0; i < made.size(); ++i) made_[made[i]].layout.set(dim_, places[i]);
    return made;
  }

  // The required placements of sums over micro-batches: that of the parameter that they update, or whole.
  void find_wanted() {
    wanted_.assign(old_.values.size(), std::nullopt);
    for (const auto& output : old_.outputs)
      if (output.kind == OutputKind::state) wanted_[output.value] = context_.layout_of(output.name).on(dim_);
    for (NodeId n : old_.node_ids().backward()) {
      const Node& node = old_.node(n);
      // Counts use whole data, starting from the batch.
      if (node.op == ops::sum_lanes && !is_float(old_[node.outputs[0]].dtype))
        counted_[node.inputs[0]] = true;
      if (node.outputs.size() == 1 && counted_[node.outputs[0]])
        for (ValueId v : node.inputs)
          if (!is_float(old_[v].dtype)) counted_[v] = true;
      if (op_row(node.op).kind == OpKind::update) {
        for (const auto& input : old_.inputs)
          if (input.value == node.inputs[0])
            wanted_[node.inputs[1]] = context_.layout_of(input.name).on(dim_);
      } else if (op_row(node.op).kind == OpKind::pointwise && wanted_[node.outputs[0]]) {
        for (ValueId v : node.inputs)
          if (!wanted_[v] && old_[v].shape == old_[node.outputs[0]].shape)
            wanted_[v] = wanted_[node.outputs[0]];
      }
    }
  }

  static bool is_product(const Node& node) { return node.op == ops::dot || node.op == ops::linear; }
  // Values of updates. Every rank computes products after the sums over micro-batches, such as those that
  // orthogonalise a momentum, on whole matrices. Their inputs depend on one another, one tensor after
  // another, and are gathered once, at the beginning of that chain.
  void find_whole() {
    std::vector<ValueId> sums;
    for (const Node& node : old_.nodes)
      if (node.op == ops::sum_lanes && is_float(old_[node.outputs[0]].dtype)) sums.push_back(node.outputs[0]);
    of_sums_ = depends_on(old_, sums);
    for (NodeId n : old_.node_ids().backward()) {
      const Node& node = old_.node(n);
      bool body = node.op == ops::sum_lanes || node.op == ops::lane_rows;
      for (ValueId v : node.outputs) body = body || of_body_[v];
      if (body)
        for (ValueId v : node.inputs) of_body_[v] = true;
    }
    for (NodeId n : old_.node_ids().backward()) {
      const Node& node = old_.node(n);
      if (node.outputs.size() != 1 || !of_sums_[node.outputs[0]]) continue;
      if (is_product(node))
        for (ValueId v : node.inputs) whole_[v] = true;
      else if (whole_[node.outputs[0]])
        if (const ValueId v = only_tensor(node); v != kNoValue) whole_[v] = true;
    }
  }
  // The input of a view, or the only tensor input of arithmetic with numbers.
  ValueId only_tensor(const Node& node) const {
    const OpKind kind = op_row(node.op).kind;
    if (kind != OpKind::view && kind != OpKind::pointwise) return kNoValue;
    ValueId found = kNoValue;
    for (ValueId v : node.inputs) {
      const NodeId made = old_[v].producer;
      if (made.valid() && (old_.node(made).op == ops::broadcast || numel(old_[v].shape) == 1)) continue;
      if (found != kNoValue && found != v) return kNoValue;
      found = v;
    }
    return found != kNoValue && of_sums_[found] ? found : kNoValue;
  }

  void place(const Node& node) {
    reader_ = node.at;
    if (node.op == ops::sum_lanes) {
      Placement to = wanted_[node.outputs[0]].value_or(Replicate());
      return run_way(node, {{to}, {to}});
    }
    if (node.op == ops::global_norm) {
      std::vector<Placement> in;
      for (ValueId v : node.inputs) {
        const Form* shard = nullptr;
        for (const Form& have : forms_[v])
          if (have.place.kind != Kind::partial && (!shard || shard->place == Replicate())) shard = &have;
        in.push_back(shard ? shard->place : Replicate());
      }
      return run_way(node, {in, {Replicate()}});
    }
    // If a parameter is whole, so is its new value, whatever parts of it other nodes read.
    if (op_row(node.op).kind == OpKind::update)
      for (const auto& input : old_.inputs)
        if (input.value == node.inputs[0] && input.kind == InputKind::state &&
            context_.layout_of(input.name).on(dim_) == Replicate())
          return run_way(node, shard_ways(old_, node, ranks_, {})[0]);
    run_way(node, choose(node));
  }

  ShardWay choose(const Node& node) {
    std::set<int> groups{split_.groups};
    bool split = false;
    for (ValueId v : node.inputs)
      for (const Form& have : forms_[v]) {
        groups.insert(have.place.groups);
        split = split || !(have.place == Replicate());
      }
    // The stream of tokens begins at the embedding.
    const bool begins =
        node.op == ops::embedding && !node.outputs.empty() && split_.is_whole(old_[node.outputs[0]].shape);
    auto ways = shard_ways(old_, node, ranks_, groups);
    if (reads_whole(node)) ways.resize(1);
    if ((!split && !begins) || (node.outputs.size() == 1 && counted_[node.outputs[0]])) return ways[0];
    std::optional<Weighed> best;
    for (const auto& way : ways)
      if (reachable(node, way, begins))
        if (Weighed one = weigh(node, way, ways, begins); !best || better(one, *best)) best = one;
    if (best && best->bytes < kNever) return *best->way;
    for (ValueId v : node.inputs)
      if (!weight_[v].empty()) refusals_.add_weight(weight_[v], node);
    return ways[0];
  }
  bool reads_whole(const Node& node) const {
    return node.outputs.size() == 1 && of_sums_[node.outputs[0]] &&
           std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return whole_[v]; });
  }
  // The bytes that a way moves. Ties are broken by rank, highest first: the weight's own letter, parts, whole
  // values, terms. A product that every rank would repeat whole (rank -1) is taken only if nothing else works.
  struct Weighed {
    const ShardWay* way;
    double bytes;
    int rank;
  };
  Weighed weigh(const Node& node, const ShardWay& way, const std::vector<ShardWay>& ways, bool begins) const {
    Weighed out{&way, 0, 0};
    bool weight = false, terms = false, parts = false;
    for (size_t i = 0; i < way.in.size(); ++i) {
      ValueId v = node.inputs[i];
      out.bytes += std::min(kNever, least_cost(v, way.in[i]));
      weight = weight || (!weight_[v].empty() && way.in[i].kind == Kind::shard);
    }
    for (size_t o = 0; o < way.out.size(); ++o) {
      const bool term = way.out[o].kind == Kind::partial;
      if (term && !joins_terms(node.outputs[o]))
        out.bytes += cost(node.outputs[o], Partial(), summed(node.outputs[o]));
      terms = terms || term;
      parts = parts || way.out[o].kind == Kind::shard;
    }
    if (begins && way.out[0] == summed(node.outputs[0]) && out.bytes < kNever) out.bytes = -1;
    out.rank = weight ? 3 : parts ? 2 : terms ? 0 : 1;
    if (is_product(node) && way.in == ways[0].in && ways.size() > 1) out.rank = -1;
    return out;
  }
  static bool better(const Weighed& one, const Weighed& than) {
    if (than.rank < 0 && one.rank >= 0 && one.bytes < kNever) return true;
    if (one.rank < 0 && than.rank >= 0 && than.bytes < kNever) return false;
    return one.bytes < than.bytes || (one.bytes == than.bytes && one.rank > than.rank);
  }
  // Whether terms are only added to other terms, and so need no sum over ranks of their own.
  bool joins_terms(ValueId old) const {
    const auto& readers = users_[old];
    return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](NodeId n) {
      const Node& reader = old_.node(n);
      return reader.op == ops::add && std::any_of(reader.inputs.begin(), reader.inputs.end(), [&](ValueId v) {
               return v != old && find_form(v, Partial()) && forms_[v].size() == 1;
             });
    });
  }
  // Letters on which an input is cut, or will be: terms become a shard of the tokens. In updates, a number
  // that was broadcast does not count: others of its shape share it, and it would cut statistics of columns
  // by columns next to a matrix that is cut by rows.
  bool reachable(const Node& node, const ShardWay& way, bool begins) const {
    const bool update = !node.outputs.empty() && !of_body_[node.outputs[0]];
    bool any = begins;
    bool whole = true;
    for (size_t i = 0; i < way.in.size(); ++i) {
      if (way.in[i] == Replicate()) continue;
      whole = false;
      if (update && light(node.inputs[i], 1)) continue;
      for (const Form& have : forms_[node.inputs[i]])
        any = any || have.place == way.in[i] ||
              (have.place.kind == Kind::partial && way.in[i] == summed(node.inputs[i]));
    }
    return any || whole;
  }

  void run_way(const Node& node, const ShardWay& way) {
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(form(node.inputs[i], way.in[i]));
    auto made = emit(node, inputs, way.out);
    for (size_t o = 0; o < made.size(); ++o) forms_[node.outputs[o]].push_back({way.out[o], made[o]});
    if (node.op == ops::convert) weight_[node.outputs[0]] = weight_[node.inputs[0]];
  }

  const Graph& old_;
  const PassContext& context_;
  const int dim_;
  const int64_t ranks_;
  Graph made_;
  PerValue<std::vector<Form>> forms_;
  PerValue<std::string> weight_;  // the FQN, if the value is a sharded parameter
  PerValue<bool> counted_;        // only counts of tokens, and their data
  PerValue<bool> of_body_;        // an input of a sum over micro-batches
  PerValue<bool> of_sums_;        // computed from gradients that are summed over micro-batches
  PerValue<bool> whole_;          // see find_whole
  PerValue<std::vector<NodeId>> users_;
  PerValue<std::optional<Placement>> wanted_;
  TokenSplit split_;
  SourceLine reader_;
  ModelRefusals refusals_;
};
}  // namespace

Graph place_model(const Graph& graph, const PassContext& context, int mesh_dim) {
  return ModelPlacer(graph, context, mesh_dim).run();
}

}  // namespace lockstep::compiler
