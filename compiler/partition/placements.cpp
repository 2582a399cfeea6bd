// Applies the placement rules, one mesh dim at a time.
#include "compiler/partition/placements.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

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

  // Exactly one wait, and nothing else, reads a handle; a wait reads only handles.
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

  // A node on one mesh dim, with the placements of its inputs.
  struct Reader {
    const Node& node;
    int dim;
    std::vector<Placement> in;
    std::vector<Placement> all(Placement result) const {
      return std::vector<Placement>(node.outputs.size(), result);
    }
    bool any(Kind kind) const {
      return std::any_of(in.begin(), in.end(), [&](const Placement& p) { return p.kind == kind; });
    }
  };
  std::string reads(const Reader& reader, size_t i) const {
    return str("reads ", described(reader.node.inputs[i], reader.dim));
  }
  void want(const Reader& reader, size_t i, Placement wanted, const char* why) const {
    if (!(reader.in[i] == wanted))
      fail(reader.node, str(reads(reader, i), "; it wants ", text(wanted), ": ", why));
  }
  void want_all(const Reader& reader, Placement wanted, const char* why) const {
    for (size_t i = 0; i < reader.in.size(); ++i) want(reader, i, wanted, why);
  }

  // Lane and collective ops act on their data dim; on every other dim their inputs are whole. Those of model
  // dims do not change the data dims.
  std::vector<Placement> place(const Node& node, int dim) const {
    const std::string& mesh_dim = graph_.mesh.dim_names[dim];
    Reader reader{node, dim, {}};
    for (ValueId v : node.inputs) reader.in.push_back(graph_[v].layout.on(dim));
    if (op_row(node.op).of_model ||
        (node.op == ops::all_reduce_start && reader.in[0] == Partial() && !acts_on(node, mesh_dim)))
      return reader.all(reader.in[0]);
    if (node.op == ops::norm_limbs && node.attrs.has("model_dim") && node.attrs.word("model_dim") == mesh_dim)
      return reader.all(Partial());
    if (node.op == ops::take && node.attrs.flag("fetch") && is_data_dim(mesh_dim)) return fetched(reader);
    const OpKind kind = op_row(node.op).kind;
    if (kind != OpKind::lanes && kind != OpKind::collective) return by_rule(reader);
    if (node.op == ops::wait) return reader.all(reader.in[0]);
    if (node.op == ops::sum_lanes || node.op == ops::lane_rows) {
      if (!partitioned_) return reader.all(Replicate());
      fail(node, "a sum over micro-batches was left in the program");
    }
    if (node.op == ops::spread_rows && !partitioned_) return reader.all(Replicate());
    return acts_on(node, mesh_dim) ? on_its_dim(reader) : beside_its_dim(reader, mesh_dim);
  }

  // Placements on other dims than a collective's own: rows of dp_shard may be split further over dp_replicate
  // and gathered from there; everything else is whole.
  std::vector<Placement> beside_its_dim(const Reader& reader, const std::string& mesh_dim) const {
    const Node& node = reader.node;
    const bool inner = (node.op == ops::all_gather_start || node.op == ops::local_rows) &&
                       mesh_dim == "dp_shard" && node.attrs.word("mesh_dim") == "dp_replicate";
    const bool owned = node.op == ops::local_rows && !reader.in.empty() && reader.in[0] == OwnedRows();
    if (inner && !reader.in.empty() && (owned || reader.in[0] == Shard(0) || reader.in[0] == Replicate())) {
      want_all(reader, reader.in[0], "values that travel together are split in the same way");
      return reader.all(reader.in[0]);
    }
    want_all(reader, Replicate(), "the collective acts on another mesh dim");
    return reader.all(Replicate());
  }

  std::vector<Placement> on_its_dim(const Reader& reader) const {
    const Node& node = reader.node;
    if (node.op == ops::lane_exchange_start) {
      want_all(reader, PerLane(), "an exchange takes what still belongs to micro-batches");
      return reader.all(PerLane(0));
    }
    if (node.op == ops::lane_sum) {
      want(reader, 0, PerLane(0), "the sum over lanes needs every lane of its rows; exchange first");
      return reader.all(Shard(0));
    }
    if (node.op == ops::lane_gather_start) {
      want(reader, 1, PerLane(), "what is gathered of all micro-batches still belongs to one");
      return reader.all(Replicate());
    }
    if (node.op == ops::sum_rows) {
      want_all(reader, Replicate(), "rows of one id are added from all micro-batches; gather them first");
      const bool owned =
          node.attrs.has("owners") && node.attrs.word("owners") == graph_.mesh.dim_names[reader.dim];
      return reader.all(owned ? OwnedRows() : Replicate());
    }
    if (node.op == ops::lane_count) {
      want(reader, 0, PerLane(), "a count is summed over the micro-batches of this rank");
      return reader.all(Partial());
    }
    if (node.op == ops::all_reduce_start) {
      want(reader, 0, Partial(), "only a partial sum can be reduced");
      if (context_.options.invariant && is_float(graph_[node.inputs[0]].dtype))
        fail(node, "a float goes through all_reduce; in invariant numerics only integers may");
      return reader.all(Replicate());
    }
    if (node.op == ops::all_gather_start) {
      want_all(reader, Shard(0), "only rows can be gathered");
      return reader.all(Replicate());
    }
    if (node.op == ops::spread_rows) {
      want_all(reader, Replicate(), "its own rows are looked for among those of all ids");
      return reader.all(Shard(0));
    }
    if (node.op == ops::local_rows) {
      want(reader, 0, Replicate(), "its own rows are taken of a whole value");
      return reader.all(Shard(0));
    }
    if (node.op == ops::norm_limbs) {
      for (size_t i = 0; i < reader.in.size(); ++i)
        if (!(reader.in[i] == OwnedRows())) want(reader, i, Shard(0), "each row is counted once");
      return reader.all(Partial());
    }
    return by_rule(reader);
  }

  // Rows of a sparse table for a micro-batch, from any owner.
  std::vector<Placement> fetched(const Reader& reader) const {
    if (!(reader.in[0] == Shard(0))) want(reader, 0, Replicate(), "rows are fetched of a table of the state");
    if (!(reader.in[1] == PerLane())) want(reader, 1, Replicate(), "rows are fetched by a micro-batch's ids");
    return reader.all(PerLane());
  }

  // The ranks that have the table take and replace its rows: all ranks, or the owners of the rows.
  std::vector<Placement> by_owners(const Reader& reader) const {
    const bool put = reader.node.op == ops::put_rows;
    want(reader, 0, Shard(0), "rows of owners are of a table that lies split");
    if (put) want(reader, 2, OwnedRows(), "an owner replaces rows that it owns");
    return reader.all(put ? Shard(0) : OwnedRows());
  }

  // Whether all rows of dim 0 are equal, as in a constant.
  bool alike_in_rows(ValueId v) const {
    if (graph_[v].shape.empty()) return true;
    if (!graph_[v].producer.valid()) return false;
    const Node& node = graph_.producer(v);
    if (node.op == ops::full) return true;
    if (node.op == ops::broadcast) {
      const auto& dims = node.attrs.list("dims");
      return std::find(dims.begin(), dims.end(), 0) == dims.end() ||
             graph_[node.inputs[0]].shape[0] != graph_[v].shape[0];
    }
    return op_row(node.op).kind == OpKind::pointwise &&
           std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId in) { return alike_in_rows(in); });
  }

  // Other ops: whole and per-lane values mix freely; shards and partials follow the op's rule.
  std::vector<Placement> by_rule(const Reader& reader) const {
    const Node& node = reader.node;
    for (size_t i = 0; i < reader.in.size(); ++i)
      if (reader.in[i].kind == Kind::per_lane && reader.in[i].dim >= 0)
        fail(node, str(reads(reader, i), "; only the sum over lanes may read it"));
    if (op_row(node.op).kind == OpKind::update) check_update(reader);
    if ((node.op == ops::take || node.op == ops::put_rows) && reader.in[1] == OwnedRows())
      return by_owners(reader);
    const bool partial = reader.any(Kind::partial), shard = reader.any(Kind::shard);
    if (reader.any(Kind::per_lane)) {
      if (partial || shard)
        fail(node, str("mixes values of micro-batches with ", partial ? "partial sums" : "shards", " on ",
                       graph_.mesh.dim_names[reader.dim]));
      return reader.all(PerLane());
    }
    if (partial) {
      check_partials(reader);
      return reader.all(Partial());
    }
    return shard ? by_split_rule(reader) : reader.all(Replicate());
  }

  void check_update(const Reader& reader) const {
    for (size_t i = 0; i < reader.in.size(); ++i) {
      if (reader.in[i].kind == Kind::per_lane)
        fail(reader.node, str(reads(reader, i),
                              ": it still belongs to a micro-batch; the reduction over lanes is missing"));
      if (reader.in[i].kind == Kind::partial)
        fail(reader.node, str(reads(reader, i), ": a term of a sum; the reduction is missing"));
    }
  }

  // A term of a sum passes through an op that is linear in it: alone, or added to another term.
  void check_partials(const Reader& reader) const {
    const auto& linear = op_row(reader.node.op).linear;
    const bool adds = reader.node.op == ops::add || reader.node.op == ops::sub;
    bool passes = !reader.any(Kind::shard);
    int terms = 0;
    for (size_t i = 0; i < reader.in.size(); ++i) {
      if (reader.in[i].kind != Kind::partial) continue;
      ++terms;
      passes = passes && std::find(linear.begin(), linear.end(), static_cast<int>(i)) != linear.end();
    }
    if (passes && terms == (adds ? 2 : 1)) return;
    for (size_t i = 0; i < reader.in.size(); ++i)
      if (reader.in[i].kind == Kind::partial)
        fail(reader.node, str(reads(reader, i), "; it wants a whole value: reduce it first"));
  }

  std::vector<Placement> by_split_rule(const Reader& reader) const {
    const Node& node = reader.node;
    const auto& in = reader.in;
    const Op& row = op_row(node.op);
    std::vector<TypedShape> in_types, out_types;
    for (ValueId v : node.inputs) in_types.push_back({graph_[v].dtype, graph_[v].shape});
    for (ValueId v : node.outputs) out_types.push_back({graph_[v].dtype, graph_[v].shape});
    const std::string text_rule = row.split ? row.split({node.op, in_types, node.attrs, node.at}) : "";
    SplitRule rule;
    if (!text_rule.empty()) rule = parse_split_rule(text_rule, in_types, out_types);
    char letter = 0;
    int groups = 1;
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i].kind != Kind::shard) continue;
      const char mine = text_rule.empty() ? 0 : rule.in[i][in[i].dim];
      const bool fixed = mine == 0 || rule.fixed.find(mine) != std::string::npos;
      if (fixed || (letter && (letter != mine || groups != in[i].groups)))
        fail(node, str(reads(reader, i), "; its rule \"", text_rule, "\" does not allow that"));
      letter = mine;
      groups = in[i].groups;
    }
    for (size_t i = 0; i < in.size(); ++i)
      if (in[i].kind == Kind::replicate && rule.in[i].find(letter) != std::string::npos &&
          !(groups == OwnedRows().groups && alike_in_rows(node.inputs[i])))
        fail(node, str(reads(reader, i), "; next to a shard it must be split the same way"));
    std::vector<Placement> out;
    for (const std::string& letters : rule.out) {
      const size_t at = letters.find(letter);
      out.push_back(at == std::string::npos ? Partial() : Shard(static_cast<int>(at), groups));
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
        if (output.kind == OutputKind::metric)
          throw UserError(str("[output] ", at.text(), ": metric \"", output.name,
                              "\" is of one micro-batch (", text(value.layout.on(dim)), " on ",
                              graph_.mesh.dim_names[dim],
                              "), and a metric is of the whole step: give a sum and a count of each "
                              "micro-batch, as in metric(name, mean_loss(values))"));
        if (value.layout.on(dim) == PerLane() && output.kind == OutputKind::state)
          throw UserError(
              str("[assign] ", at.text(), ": \"", output.name,
                  "\" is assigned what one micro-batch's samples give, which differs from one "
                  "micro-batch to the next, and a step has one value of it: take the sum over all, as "
                  "in sum_lanes(sum(x, {0})) / number, or in Python ls.sum_lanes(x.sum(0)) / number"));
        throw UserError(str("[output] ", at.text(), ": ", name(output.kind), " \"", output.name, "\" is ",
                            text(value.layout.on(dim)), " on ", graph_.mesh.dim_names[dim], "; it must be ",
                            text(wanted),
                            wanted == Replicate() ? ": a gather or a reduction is missing" : ""));
      }
    }
  }

  Graph& graph_;
  const PassContext& context_;
  bool partitioned_;  // whether the data dims are partitioned
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

}  // namespace lockstep::compiler
