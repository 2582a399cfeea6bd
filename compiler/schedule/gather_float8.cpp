// Moves amax and quantize of weights before their gather.
#include "compiler/schedule/gather_float8.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "compiler/schedule/round_in_updates.h"
#include "core/base/text.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
using Types = std::vector<std::pair<DType, Shape>>;

class Caster {
 public:
  explicit Caster(Phases& phases)
      : phases_(phases), whole_(phases.whole), seed_(phases.seed.graph), weights_(float8_weights(phases)) {}

  bool run(bool by_updates) {
    if (by_updates) round_in_updates(phases_, weights_);
    std::erase_if(weights_, [](const Float8Weight& w) { return w.ranks == 1 && w.updated < 0; });
    if (weights_.empty()) return false;
    find_maxima();
    gather_maxima();
    cast();
    rewrite_seed();
    return true;
  }

 private:
  // Copies a node of the seed: on a rank's rows into a graph of them, or on all rows into the whole program,
  // where the result is placed like `rows`.
  ValueId again(Graph& graph, NodeId n, std::vector<ValueId> inputs, const Shape& shape) const {
    const Node& node = seed_.node(n);
    return graph.append(node.op, std::move(inputs), node.attrs, {{seed_[node.outputs[0]].dtype, shape}},
                        node.at)[0];
  }
  ValueId maxima(Graph& graph, const Float8Weight& w, ValueId rows) const {
    const Shape shape = graph[rows].shape;
    const ValueId wide = again(graph, w.wide, {rows}, shape);
    return again(graph, w.of_rows, {again(graph, w.absolute, {wide}, shape)}, {shape[0]});
  }
  // Copies a value of the seed with all nodes that it depends on; `given` replaces inputs.
  template <class Given>
  ValueId remade(Graph& graph, ValueId v, const Given& given, std::map<ValueId, ValueId>& made) const {
    if (const auto found = made.find(v); found != made.end()) return found->second;
    if (!seed_[v].producer.valid()) return made[v] = given(whole_value_of(phases_.seed, v));
    const Node& node = seed_.producer(v);
    std::vector<ValueId> inputs;
    for (ValueId of : node.inputs) inputs.push_back(remade(graph, of, given, made));
    return made[v] = again(graph, seed_[v].producer, inputs, seed_[v].shape);
  }
  ValueId cast(Graph& graph, const Float8Weight& w, ValueId rows, ValueId most) const {
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
  // Sets layouts of the whole program's values from `first` on: like the rows from which they are computed.
  void lie_as(ValueId rows, size_t first) {
    const Layout layout = whole_[rows].layout;
    for (size_t v = first; v < whole_.values.size(); ++v)
      if (!whole_.values[v].shape.empty()) whole_.values[v].layout = layout;
  }

  void find_maxima() {
    Phase& phase = phases_.own_rows.maxima;
    for (size_t i = 0; i < weights_.size(); ++i) {
      const Float8Weight& w = weights_[i];
      const size_t first = whole_.values.size();
      of_rows_.push_back(w.updated < 0 ? maxima(whole_, w, w.rows) : largest_of_ranks(w));
      lie_as(w.rows, first);
      if (w.updated >= 0) {
        phases_.own_rows.updated[w.updated].largest = of_rows_[i];
        continue;
      }
      const ValueId rows = add_input(phase, str("rows", i), w.rows, w.ranks);
      add_output(phase, maxima(phase.graph, w, rows), of_rows_[i]);
    }
  }
  // f32 [ranks]: one per rank's rows.
  ValueId largest_of_ranks(const Float8Weight& w) {
    const Node& of_rows = seed_.node(w.of_rows);
    const Shape shape = whole_[w.rows].shape, by_rank{w.ranks, numel(shape) / w.ranks};
    const ValueId wide = again(whole_, w.wide, {w.rows}, shape),
                  absolute = again(whole_, w.absolute, {wide}, shape),
                  parts = whole_.append(ops::reshape, {absolute}, {{"shape", by_rank}},
                                        {{DType::f32, by_rank}}, of_rows.at)[0];
    return again(whole_, w.of_rows, {parts}, {w.ranks});
  }
  // One gather along each mesh dim.
  void gather_maxima() {
    int64_t number = std::count_if(whole_.nodes.begin(), whole_.nodes.end(),
                                   [](const Node& node) { return node.op == ops::all_gather_start; });
    std::map<std::string, std::vector<size_t>> along;
    for (size_t i = 0; i < weights_.size(); ++i)
      if (weights_[i].ranks > 1) along[weights_[i].along].push_back(i);
    all_ = of_rows_;
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
      const Float8Weight& w = weights_[i];
      if (!w.casts()) continue;
      const ValueId bf16_rows = w.rows, all_most = most_of(whole_, w, i, [](ValueId v) { return v; });
      const size_t first = whole_.values.size();
      const ValueId made = cast(whole_, w, bf16_rows, all_most);
      lie_as(bf16_rows, first);
      (w.streamed ? w.streamed->rows : phases_.seed.inputs[w.input]) = made;
      if (w.updated >= 0 && w.delayed) {
        phases_.own_rows.updated[w.updated].rows = made;
        continue;
      }
      const ValueId rows = add_input(phase, str("rows", i), bf16_rows, w.ranks);
      const ValueId most = most_of(phase.graph, w, i, [&](ValueId v) {
        return add_input(phase, str(w.delayed ? "history" : "maxima", i), v);
      });
      add_output(phase, cast(phase.graph, w, rows, most), made);
    }
  }
  // Copies the nodes from which the scale of a weight follows.
  template <class Given>
  ValueId most_of(Graph& graph, const Float8Weight& w, size_t i, const Given& given) const {
    if (!w.delayed) return again(graph, w.most, {given(all_[i])}, {});
    std::map<ValueId, ValueId> made;
    return remade(graph, seed_.node(w.quantize).inputs[1], given, made);
  }

  // The seed reads float8 and all maxima. quantize's untransposed output is the input itself.
  void rewrite_seed() {
    Graph made;
    PerValue<ValueId> map(seed_.values.size(), kNoValue);
    std::map<int, DType> cast_inputs;
    std::set<NodeId> gone;
    std::map<NodeId, size_t> by_quantize, by_most;
    for (size_t i = 0; i < weights_.size(); ++i) {
      const Float8Weight& w = weights_[i];
      gone.insert({w.wide, w.absolute, w.of_rows});
      by_most[w.most] = i;
      if (!w.casts()) continue;
      cast_inputs[w.input] = seed_.node(w.quantize).attrs.dtype("dtype");
      by_quantize[w.quantize] = i;
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
  std::vector<Float8Weight> weights_;
  // Per weight, in the whole program: maxima of rows, or of ranks, split and gathered.
  std::vector<ValueId> of_rows_, all_;
};
}  // namespace

bool gather_float8(Phases& phases, bool by_updates) { return Caster(phases).run(by_updates); }

}  // namespace lockstep::compiler
