// The placement rules, one mesh dim at a time.
#include "compiler/partition/placements.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep {

namespace {
using Kind = Placement::Kind;

bool is_start(const Node& node) { return op_row(node.op).half == CollectiveHalf::start; }
bool is_wait(const Node& node) { return op_row(node.op).half == CollectiveHalf::wait; }

class Placer {
 public:
  Placer(Graph& graph, const PassContext& context, bool partitioned = true)
      : graph_(graph), context_(context), partitioned_(partitioned) {}

  void run() {
    check_flight();
    for (const Node& node : graph_.nodes) {
      for (ValueId v : node.outputs) graph_[v].layout = {};
      for (int dim = 0; dim < graph_.mesh.ndim(); ++dim) {
        auto out = place(node, dim);
        for (size_t i = 0; i < node.outputs.size(); ++i) graph_[node.outputs[i]].layout.set(dim, out[i]);
      }
    }
    check_outputs();
  }

 private:
  [[noreturn]] void fail(const Node& node, const std::string& what) const {
    throw UserError(str("[", node.op, "] ", node.at.text(), ": ", what));
  }
  std::string described(ValueId v, int dim) const {
    return str("%", v, " ", shape_text(graph_[v].dtype, graph_[v].shape), " which is ",
               text(graph_[v].layout.on(dim)), " on ", graph_.mesh.dim_names[dim]);
  }

  // A handle is read by one wait and by nothing else; a wait reads a handle.
  void check_flight() const {
    auto users = users_of(graph_);
    for (const Node& node : graph_.nodes) {
      if (is_start(node)) {
        LS_CHECK(node.outputs.size() == 1);
        const auto& readers = users[node.outputs[0]];
        for (NodeId reader : readers)
          if (!is_wait(graph_.node(reader)))
            fail(graph_.node(reader), str("reads %", node.outputs[0], ", which ", node.op,
                                          " has only started; wait for it first"));
        if (readers.size() != 1)
          fail(node, str("is waited for ", readers.size(), " times; each start has one wait"));
        for (const auto& output : graph_.outputs)
          if (output.value == node.outputs[0])
            fail(node, str("output \"", output.name, "\" is still in flight"));
      }
      if (is_wait(node)) {
        NodeId from = graph_[node.inputs[0]].producer;
        if (!from.valid() || !is_start(graph_.node(from)))
          fail(node, str("nothing is in flight in %", node.inputs[0], "; a wait follows a start"));
      }
    }
  }

  static bool acts_on(const Node& node, const std::string& mesh_dim) {
    const std::string& named = node.attrs.word("mesh_dim");
    return named == mesh_dim || (named == kDataDims && is_data_dim(mesh_dim));
  }

  std::vector<Placement> place(const Node& node, int dim) {
    const std::string& mesh_dim = graph_.mesh.dim_names[dim];
    std::vector<Placement> in;
    for (ValueId v : node.inputs) in.push_back(graph_[v].layout.on(dim));
    auto all = [&](Placement result) { return std::vector<Placement>(node.outputs.size(), result); };
    auto want = [&](size_t i, Placement wanted, const char* why) {
      if (!(in[i] == wanted))
        fail(node, str("reads ", described(node.inputs[i], dim), "; it wants ", text(wanted), ": ", why));
    };
    // Lane and collective ops act on the data dim that they name; on every other dim their inputs are whole.
    // Those of model dims leave the data dims as they are.
    if (op_row(node.op).of_model ||
        (node.op == ops::all_reduce_start && in[0] == Partial() && !acts_on(node, mesh_dim)))
      return all(in[0]);
    if (node.op == ops::norm_limbs && node.attrs.has("model_dim") && node.attrs.word("model_dim") == mesh_dim)
      return all(Partial());
    const bool lane_kind =
        op_row(node.op).kind == OpKind::lanes || op_row(node.op).kind == OpKind::collective;
    if (lane_kind && node.op != ops::wait && node.op != ops::sum_lanes && !acts_on(node, mesh_dim)) {
      // Rows of dp_shard may be split further over dp_replicate and gathered from there; everything else is
      // whole on other dims.
      const bool inner = (node.op == ops::all_gather_start || node.op == ops::local_rows) &&
                         mesh_dim == "dp_shard" && node.attrs.word("mesh_dim") == "dp_replicate";
      if (inner && !in.empty() && (in[0] == Shard(0) || in[0] == Replicate())) {
        for (size_t i = 0; i < in.size(); ++i)
          want(i, in[0], "values that travel together are split in the same way");
        return all(in[0]);
      }
      for (size_t i = 0; i < in.size(); ++i) want(i, Replicate(), "the collective acts on another mesh dim");
      return all(Replicate());
    }
    if (!partitioned_ && node.op == ops::sum_lanes) return all(Replicate());
    if (node.op == ops::wait) return all(in[0]);
    if (node.op == ops::lane_exchange_start) {
      for (size_t i = 0; i < in.size(); ++i)
        want(i, PerLane(), "an exchange takes what still belongs to micro-batches");
      return all(PerLane(0));
    }
    if (node.op == ops::lane_sum) {
      want(0, PerLane(0), "the sum over lanes needs every lane of its rows; exchange first");
      return all(Shard(0));
    }
    if (node.op == ops::lane_count) {
      want(0, PerLane(), "a count is summed over the micro-batches of this rank");
      return all(Partial());
    }
    if (node.op == ops::all_reduce_start) {
      want(0, Partial(), "only a partial sum can be reduced");
      if (context_.options.invariant && is_float(graph_[node.inputs[0]].dtype))
        fail(node, "a float goes through all_reduce; in invariant numerics only integers may");
      return all(Replicate());
    }
    if (node.op == ops::all_gather_start) {
      for (size_t i = 0; i < in.size(); ++i) want(i, Shard(0), "only rows can be gathered");
      return all(Replicate());
    }
    if (node.op == ops::local_rows) {
      want(0, Replicate(), "its own rows are taken of a whole value");
      return all(Shard(0));
    }
    if (node.op == ops::norm_limbs) {
      for (size_t i = 0; i < in.size(); ++i) want(i, Shard(0), "each row is counted once");
      return all(Partial());
    }
    if (node.op == ops::sum_lanes) fail(node, "a sum over micro-batches was left in the program");
    return by_rule(node, dim, in);
  }

  // Any other op: whole and per-lane values mix freely; shards and partials go by the op's rule.
  std::vector<Placement> by_rule(const Node& node, int dim, const std::vector<Placement>& in) {
    const Op& row = op_row(node.op);
    std::vector<Placement> out(node.outputs.size(), Replicate());
    bool lane = false, partial = false, shard = false;
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i].kind == Kind::per_lane && in[i].dim >= 0)
        fail(node, str("reads ", described(node.inputs[i], dim), "; only the sum over lanes may read it"));
      lane = lane || in[i].kind == Kind::per_lane;
      partial = partial || in[i].kind == Kind::partial;
      shard = shard || in[i].kind == Kind::shard;
    }
    if (row.kind == OpKind::update) {
      for (size_t i = 0; i < in.size(); ++i) {
        if (in[i].kind == Kind::per_lane)
          fail(node, str("reads ", described(node.inputs[i], dim),
                         ": it still belongs to a micro-batch; the reduction over lanes is missing"));
        if (in[i].kind == Kind::partial)
          fail(node,
               str("reads ", described(node.inputs[i], dim), ": a term of a sum; the reduction is missing"));
      }
    }
    if (lane && (partial || shard))
      fail(node, str("mixes values of micro-batches with ", partial ? "partial sums" : "shards", " on ",
                     graph_.mesh.dim_names[dim]));
    if (lane) return std::vector<Placement>(node.outputs.size(), PerLane());
    if (!partial && !shard) return out;
    if (partial) {
      bool only = row.linear.size() > 0;
      for (size_t i = 0; i < in.size(); ++i)
        if (in[i].kind == Kind::partial &&
            std::find(row.linear.begin(), row.linear.end(), static_cast<int>(i)) == row.linear.end())
          only = false;
      auto count =
          std::count_if(in.begin(), in.end(), [](const Placement& p) { return p.kind == Kind::partial; });
      bool sum_like = node.op == ops::add || node.op == ops::sub;
      if (!only || (count > 1 && !sum_like) || (sum_like && count != 2) || shard)
        for (size_t i = 0; i < in.size(); ++i)
          if (in[i].kind == Kind::partial)
            fail(node,
                 str("reads ", described(node.inputs[i], dim), "; it wants a whole value: reduce it first"));
      return std::vector<Placement>(node.outputs.size(), Partial());
    }
    std::vector<TypedShape> in_types, out_types;
    for (ValueId v : node.inputs) in_types.push_back({graph_[v].dtype, graph_[v].shape});
    for (ValueId v : node.outputs) out_types.push_back({graph_[v].dtype, graph_[v].shape});
    std::string text_rule = row.split ? row.split({node.op, in_types, node.attrs, node.at}) : "";
    char letter = 0;
    int groups = 1;
    SplitRule rule;
    if (!text_rule.empty()) rule = parse_split_rule(text_rule, in_types, out_types);
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i].kind != Kind::shard) continue;
      char mine = text_rule.empty() ? 0 : rule.in[i][in[i].dim];
      bool fixed = mine == 0 || rule.fixed.find(mine) != std::string::npos;
      if (fixed || (letter && letter != mine) || (letter && groups != in[i].groups))
        fail(node, str("reads ", described(node.inputs[i], dim), "; its rule \"", text_rule,
                       "\" does not allow that"));
      letter = mine;
      groups = in[i].groups;
    }
    for (size_t i = 0; i < in.size(); ++i)
      if (in[i].kind == Kind::replicate && rule.in[i].find(letter) != std::string::npos)
        fail(node,
             str("reads ", described(node.inputs[i], dim), "; beside a shard it must be split the same way"));
    for (size_t i = 0; i < out.size(); ++i) {
      size_t at = rule.out[i].find(letter);
      out[i] = at == std::string::npos ? Partial() : Shard(static_cast<int>(at), groups);
    }
    return out;
  }

  void check_outputs() const {
    std::map<std::string, Layout> state;
    for (const auto& input : graph_.inputs)
      if (input.kind == InputKind::state) state[input.name] = graph_[input.value].layout;
    for (const auto& output : graph_.outputs) {
      const Value& value = graph_[output.value];
      SourceLine at = value.producer.valid() ? graph_.node(value.producer).at : SourceLine{};
      for (int dim = 0; dim < graph_.mesh.ndim(); ++dim) {
        Placement wanted = output.kind == OutputKind::state && state.count(output.name)
                               ? state[output.name].on(dim)
                               : Replicate();
        if (output.kind == OutputKind::value || value.layout.on(dim) == wanted) continue;
        throw UserError(str("[output] ", at.text(), ": ", name(output.kind), " \"", output.name, "\" is ",
                            text(value.layout.on(dim)), " on ", graph_.mesh.dim_names[dim], "; it must be ",
                            text(wanted),
                            wanted == Replicate() ? ": a gather or a reduction is missing" : ""));
      }
    }
  }

  Graph& graph_;
  const PassContext& context_;
  bool partitioned_;  // over the data dims
};
}  // namespace

void check_lanes(const Graph& graph) {
  Graph one = graph;
  one.mesh = {{1}, {"dp_replicate"}};
  for (const auto& input : one.inputs) {
    one[input.value].layout = {};
    if (input.kind == InputKind::batch || input.name == "rng.sample")
      one[input.value].layout.set(0, PerLane());
  }
  PassContext context;
  Placer(one, context, false).run();
}

void place_values(Graph& graph, const PassContext& context) { Placer(graph, context).run(); }

}  // namespace lockstep
