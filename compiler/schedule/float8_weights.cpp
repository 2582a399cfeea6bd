// Finds amax() and quantize() of weights in the seed.
#include "compiler/schedule/float8_weights.h"

#include <algorithm>
#include <optional>

#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
class Finder {
 public:
  explicit Finder(Phases& phases)
      : phases_(phases),
        whole_(phases.whole),
        seed_(phases.seed.graph),
        users_(users_of(seed_)),
        is_output_(seed_.values.size()) {
    for (const auto& output : seed_.outputs) is_output_[output.value] = true;
  }

  std::vector<Float8Weight> run() {
    std::vector<Float8Weight> out;
    auto add = [&](Float8Weight weight) {
      if (const auto found = find(std::move(weight))) out.push_back(*found);
    };
    for (auto& streamed : phases_.seed_streamed)
      add({.input = streamed.input,
           .streamed = &streamed,
           .rows = streamed.rows,
           .along = whole_.node(streamed.start).attrs.word("mesh_dim")});
    for (size_t i = 0; i < phases_.seed.inputs.size(); ++i)
      if (const auto whole_rows = of_one_rank(static_cast<int>(i))) add(*whole_rows);
    return out;
  }

 private:
  // A weight that the head gathers along a dim of one rank.
  std::optional<Float8Weight> of_one_rank(int input) const {
    const ValueId v = phases_.seed.inputs[input];
    if (!whole_[v].producer.valid() || whole_.producer(v).op != ops::wait || read_elsewhere(v))
      return std::nullopt;
    const Node& wait = whole_.producer(v);
    const Node& start = whole_.producer(wait.inputs[0]);
    if (start.op != ops::all_gather_start || whole_.mesh.size(start.attrs.word("mesh_dim")) != 1)
      return std::nullopt;
    return Float8Weight{
        .input = input, .rows = start.inputs[whole_[v].index], .along = start.attrs.word("mesh_dim")};
  }
  bool read_elsewhere(ValueId v) const {
    auto among = [&](const std::vector<ValueId>& values) {
      return std::find(values.begin(), values.end(), v) != values.end();
    };
    for (const Phase* phase : {&phases_.count, &phases_.body, &phases_.copies})
      if (among(phase->inputs)) return true;
    for (const Phase& fragment : phases_.fragments)
      if (among(fragment.inputs)) return true;
    for (const TailStep& step : phases_.tail)
      if (step.node.valid() && among(whole_.node(step.node).inputs)) return true;
    return std::any_of(whole_.outputs.begin(), whole_.outputs.end(),
                       [&](const auto& output) { return output.value == v; });
  }

  // The only reader of a node's only output, if it is of this op.
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
  std::optional<Float8Weight> find(Float8Weight out) const {
    const ValueId v = seed_.inputs[out.input].value;
    out.ranks = ranks_of(out);
    if (seed_[v].shape.size() != 2 || is_output_[v] || users_[v].size() != 2 || out.ranks == 0)
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
  // Whether every rank has the inputs of a seed value before any gather.
  bool follows_from_state(ValueId v) const {
    if (seed_[v].producer.valid()) {
      const auto& inputs = seed_.producer(v).inputs;
      return std::all_of(inputs.begin(), inputs.end(), [&](ValueId of) { return follows_from_state(of); });
    }
    const Value& value = whole_[whole_value_of(phases_.seed, v)];
    return !value.producer.valid() && std::all_of(value.layout.splits.begin(), value.layout.splits.end(),
                                                  [](const auto& one) { return one.second == Replicate(); });
  }
  // The number of ranks that share its rows evenly; 0 if the rows are placed otherwise.
  int64_t ranks_of(const Float8Weight& weight) const {
    const Value& rows = whole_[weight.rows];
    for (const auto& [dim, placement] : rows.layout.splits)
      if (placement.kind == Placement::Kind::shard && whole_.mesh.shape[dim] > 1 &&
          whole_.mesh.dim_names[dim] != weight.along)
        return 0;
    const int64_t ranks = whole_.mesh.size(weight.along);
    return rows.shape.empty() || rows.shape[0] % ranks ? 0 : ranks;
  }

  Phases& phases_;
  const Graph& whole_;
  const Graph& seed_;
  const PerValue<std::vector<NodeId>> users_;
  PerValue<bool> is_output_;
};
}  // namespace

std::vector<Float8Weight> float8_weights(Phases& phases) { return Finder(phases).run(); }

}  // namespace lockstep::compiler
