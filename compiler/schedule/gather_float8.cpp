// Finds amax and quantize of gathered weights, and cuts them at the gather.
#include "compiler/schedule/gather_float8.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "core/base/text.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
using Types = std::vector<std::pair<DType, Shape>>;

// A weight, and the nodes of the seed that make float8 of it: amax() and quantize(), by its own maximum or by
// one that follows from a history of the state.
struct Weight {
  Phases::Streamed* streamed = nullptr;
  NodeId wide, absolute, of_rows, most, quantize;
  bool delayed = false;
  int64_t ranks = 1;
};

class Caster {
 public:
  explicit Caster(Phases& phases)
      : phases_(phases),
        whole_(phases.whole),
        seed_(phases.seed.graph),
        users_(users_of(seed_)),
        is_output_(seed_.values.size()) {
    for (const auto& output : seed_.outputs) is_output_[output.value] = true;
  }

  bool run() {
    for (auto& streamed : phases_.seed_streamed)
      if (const auto found = find(streamed)) weights_.push_back(*found);
    if (weights_.empty()) return false;
    find_maxima();
    gather_maxima();
    cast();
    rewrite_seed();
    return true;
  }

 private:
  // The only reader of a node's only output, where it is of this op.
  NodeId reader(NodeId n, OpId op) const {
    if (!n.valid()) return kNoNode;
    const ValueId v = seed_.node(n).outputs[0];
    if (is_output_[v] || users_[v].size() != 1 || seed_.node(users_[v][0]).op != op) return kNoNode;
    return users_[v][0];
  }
  NodeId reader(ValueId v, OpId op) const {
    for (NodeId n : users_[v])
      if (seed_.node(n).op == op) return n;
    return kNoNode;
  }
  std::optional<Weight> find(Phases::Streamed& streamed) const {
    const ValueId v = seed_.inputs[streamed.input].value;
    Weight out;
    out.streamed = &streamed, out.ranks = ranks_of(streamed);
    if (seed_[v].shape.size() != 2 || is_output_[v] || users_[v].size() != 2 || out.ranks < 2)
      return std::nullopt;
    out.wide = reader(v, ops::convert), out.quantize = reader(v, ops::quantize);
    out.absolute = reader(out.wide, ops::abs), out.of_rows = reader(out.absolute, ops::max);
    out.most = reader(out.of_rows, ops::max);
    if (!out.quantize.valid() || !out.most.valid()) return std::nullopt;
    const Node& of_rows = seed_.node(out.of_rows);
    const bool rows_alone = of_rows.attrs.list("dims") == std::vector<int64_t>{1} &&
                            seed_[of_rows.outputs[0]].shape == Shape{seed_[v].shape[0]};
    const std::vector<ValueId>& read = seed_.node(out.quantize).inputs;
    if (read.size() != 2 || !rows_alone) return std::nullopt;
    out.delayed = read[1] != seed_.node(out.most).outputs[0];
    if (out.delayed && !follows_from_state(read[1])) return std::nullopt;
    return out;
  }
  // Whether every rank has what a value of the seed is made of before anything is gathered.
  bool follows_from_state(ValueId v) const {
    if (seed_[v].producer.valid()) {
      const auto& inputs = seed_.producer(v).inputs;
      return std::all_of(inputs.begin(), inputs.end(), [&](ValueId of) { return follows_from_state(of); });
    }
    const Value& value = whole_[input_of(v)];
    return !value.producer.valid() && std::all_of(value.layout.splits.begin(), value.layout.splits.end(),
                                                  [](const auto& one) { return one.second == Replicate(); });
  }
  // The value of the whole program that an input of the seed is.
  ValueId input_of(ValueId v) const {
    for (size_t i = 0; i < seed_.inputs.size(); ++i)
      if (seed_.inputs[i].value == v) return phases_.seed.inputs[i];
    throw InternalError(str("%", v, " of the seed is no input"));
  }
  // Over how many ranks its rows lie, as many on each; 1 where they do not lie so.
  int64_t ranks_of(const Phases::Streamed& streamed) const {
    const std::string& along = whole_.node(streamed.start).attrs.word("mesh_dim");
    const Value& rows = whole_[streamed.rows];
    for (const auto& [dim, placement] : rows.layout.splits)
      if (placement.kind == Placement::Kind::shard && whole_.mesh.shape[dim] > 1 &&
          whole_.mesh.dim_names[dim] != along)
        return 1;
    const int64_t ranks = whole_.mesh.size(along);
    return rows.shape[0] % ranks ? 1 : ranks;
  }

  // A node of the seed again: on a rank's rows in a graph of them, or on all in the whole program, where what
  // it makes lies as `rows` do.
  ValueId again(Graph& graph, NodeId n, std::vector<ValueId> inputs, const Shape& shape) const {
    const Node& node = seed_.node(n);
    return graph.append(node.op, std::move(inputs), node.attrs, {{seed_[node.outputs[0]].dtype, shape}},
                        node.at)[0];
  }
  ValueId maxima(Graph& graph, const Weight& w, ValueId rows) const {
    const Shape shape = graph[rows].shape;
    const ValueId wide = again(graph, w.wide, {rows}, shape);
    return again(graph, w.of_rows, {again(graph, w.absolute, {wide}, shape)}, {shape[0]});
  }
  // A value of the seed once more, from its inputs on, which `given` takes where they are wanted.
  template <class Given>
  ValueId remade(Graph& graph, ValueId v, const Given& given, std::map<ValueId, ValueId>& made) const {
    if (const auto found = made.find(v); found != made.end()) return found->second;
    if (!seed_[v].producer.valid()) return made[v] = given(input_of(v));
    const Node& node = seed_.producer(v);
    std::vector<ValueId> inputs;
    for (ValueId of : node.inputs) inputs.push_back(remade(graph, of, given, made));
    return made[v] = again(graph, seed_[v].producer, inputs, seed_[v].shape);
  }
  ValueId cast(Graph& graph, const Weight& w, ValueId rows, ValueId most) const {
    const Node& quantize = seed_.node(w.quantize);
    return graph.append(ops::quantize, {rows, most}, half_of(quantize, "cast"),
                        {{quantize.attrs.dtype("dtype"), graph[rows].shape}}, quantize.at)[0];
  }
  static Attrs half_of(const Node& quantize, const std::string& half) {
    Attrs attrs = quantize.attrs;
    attrs.set("half", half);
    return attrs;
  }
  ValueId add_input(Phase& phase, const std::string& name, ValueId of, int64_t parts = 1) const {
    Shape shape = whole_[of].shape;
    shape[0] /= parts;
    phase.inputs.push_back(of);
    return phase.graph.add_input(InputKind::value, name, whole_[of].dtype, std::move(shape));
  }
  void add_output(Phase& phase, ValueId v, ValueId of) const {
    phase.graph.add_output(OutputKind::value, str("out", phase.outputs.size()), v);
    phase.outputs.push_back(of);
  }
  // Of the whole program, from its `first` value on: these lie as the rows that they are made of.
  void lie_as(ValueId rows, size_t first) {
    const Layout layout = whole_[rows].layout;
    for (size_t v = first; v < whole_.values.size(); ++v)
      if (!whole_.values[v].shape.empty()) whole_.values[v].layout = layout;
  }

  void find_maxima() {
    Phase& phase = phases_.own_rows.maxima;
    for (size_t i = 0; i < weights_.size(); ++i) {
      const Weight& w = weights_[i];
      const size_t first = whole_.values.size();
      of_rows_.push_back(maxima(whole_, w, w.streamed->rows));
      lie_as(w.streamed->rows, first);
      const ValueId rows = add_input(phase, str("rows", i), w.streamed->rows, w.ranks);
      add_output(phase, maxima(phase.graph, w, rows), of_rows_[i]);
    }
  }
  // One gather along each mesh dim.
  void gather_maxima() {
    int64_t number = std::count_if(whole_.nodes.begin(), whole_.nodes.end(),
                                   [](const Node& node) { return node.op == ops::all_gather_start; });
    std::map<std::string, std::vector<size_t>> along;
    for (size_t i = 0; i < weights_.size(); ++i)
      along[whole_.node(weights_[i].streamed->start).attrs.word("mesh_dim")].push_back(i);
    all_.resize(weights_.size());
    for (const auto& [dim, members] : along) {
      std::vector<ValueId> inputs;
      std::vector<std::string> words;
      Types types;
      for (size_t i : members) {
        const Value& value = whole_[of_rows_[i]];
        inputs.push_back(of_rows_[i]), types.emplace_back(value.dtype, value.shape);
        words.push_back(shape_text(value.dtype, value.shape));
      }
      const SourceLine at = seed_.node(weights_[members[0]].quantize).at;
      phases_.own_rows.gathers.emplace_back(static_cast<uint32_t>(whole_.nodes.size()));
      const ValueId handle =
          whole_.append(ops::all_gather_start, inputs, {{"mesh_dim", dim}, {"bucket", number++}},
                        {{DType::u8, {0}}}, at)[0];
      phases_.own_rows.gathers.emplace_back(static_cast<uint32_t>(whole_.nodes.size()));
      const auto made = whole_.append(ops::wait, {handle}, {{"types", join(words, ";")}}, types, at);
      for (size_t m = 0; m < members.size(); ++m) all_[members[m]] = made[m];
    }
  }
  void cast() {
    Phase& phase = phases_.own_rows.cast;
    for (size_t i = 0; i < weights_.size(); ++i) {
      const Weight& w = weights_[i];
      const ValueId bf16_rows = w.streamed->rows,
                    all_most = most_of(whole_, w, i, [](ValueId v) { return v; });
      const size_t first = whole_.values.size();
      const ValueId made = cast(whole_, w, bf16_rows, all_most);
      lie_as(bf16_rows, first);
      const ValueId rows = add_input(phase, str("rows", i), bf16_rows, w.ranks);
      const ValueId most = most_of(phase.graph, w, i, [&](ValueId v) {
        return add_input(phase, str(w.delayed ? "history" : "maxima", i), v);
      });
      add_output(phase, cast(phase.graph, w, rows, most), made);
      w.streamed->rows = made;
    }
  }
  // What the scale of a weight follows from.
  template <class Given>
  ValueId most_of(Graph& graph, const Weight& w, size_t i, const Given& given) const {
    if (!w.delayed) return again(graph, w.most, {given(all_[i])}, {});
    std::map<ValueId, ValueId> made;
    return remade(graph, seed_.node(w.quantize).inputs[1], given, made);
  }

  // The seed reads float8 and all maxima. What quantize made as it lies is the input itself.
  void rewrite_seed() {
    Graph made;
    PerValue<ValueId> map(seed_.values.size(), kNoValue);
    std::map<int, DType> cast_inputs;
    std::set<NodeId> gone;
    std::map<NodeId, size_t> by_quantize, by_most;
    for (size_t i = 0; i < weights_.size(); ++i) {
      const Weight& w = weights_[i];
      cast_inputs[w.streamed->input] = seed_.node(w.quantize).attrs.dtype("dtype");
      gone.insert({w.wide, w.absolute, w.of_rows});
      by_quantize[w.quantize] = i, by_most[w.most] = i;
    }
    for (size_t i = 0; i < seed_.inputs.size(); ++i) {
      const GraphInput& input = seed_.inputs[i];
      const auto cast = cast_inputs.find(static_cast<int>(i));
      map[input.value] = made.add_input(input.kind, input.name,
                                        cast == cast_inputs.end() ? seed_[input.value].dtype : cast->second,
                                        seed_[input.value].shape);
    }
    std::vector<ValueId> maxima;
    for (size_t i = 0; i < weights_.size(); ++i) {
      maxima.push_back(made.add_input(InputKind::value, str("maxima", i), DType::f32, whole_[all_[i]].shape));
      phases_.seed.inputs.push_back(all_[i]);
    }
    for (NodeId n : seed_.node_ids()) {
      const Node& node = seed_.node(n);
      if (gone.count(n)) continue;
      std::vector<ValueId> inputs;
      for (ValueId v : node.inputs) inputs.push_back(map[v]);
      if (const auto most = by_most.find(n); most != by_most.end()) inputs[0] = maxima[most->second];
      Types types;
      for (ValueId v : node.outputs) types.emplace_back(seed_[v].dtype, seed_[v].shape);
      const bool turns = by_quantize.count(n) > 0;
      if (turns) types.erase(types.begin());
      auto outputs = turns ? made.append(node.op, inputs, half_of(node, "transpose"), types, node.at)
                           : made.append(node.op, inputs, node.attrs, types, node.at);
      if (turns) outputs.insert(outputs.begin(), inputs[0]);
      for (size_t o = 0; o < outputs.size(); ++o) map[node.outputs[o]] = outputs[o];
    }
    for (const auto& output : seed_.outputs) made.add_output(output.kind, output.name, map[output.value]);
    made.mesh = seed_.mesh;
    seed_ = std::move(made);
  }

  Phases& phases_;
  Graph& whole_;
  Graph& seed_;
  const PerValue<std::vector<NodeId>> users_;
  PerValue<bool> is_output_;
  std::vector<Weight> weights_;
  std::vector<ValueId> of_rows_,
      all_;  // per weight, in the whole program: maxima of rows, split and gathered
};
}  // namespace

bool gather_float8(Phases& phases) { return Caster(phases).run(); }

}  // namespace lockstep::compiler
