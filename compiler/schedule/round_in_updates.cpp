// Finds the updates of float8 weights, and the new value of each history.
#include "compiler/schedule/round_in_updates.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "compiler/schedule/join_maxima.h"
#include "core/functions/delayed_float8.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"
#include "core/table/updates.h"

namespace lockstep::compiler {

namespace {
// A history in the state: before the step, and after it.
struct History {
  ValueId before, after;
};
// Histories of equal length, of weights of one format: one kernel finds their scales.
struct Group {
  int64_t steps = 0;
  DType dtype = DType::f8_e4m3;
  std::vector<History> histories = {};
};

class Rounder {
 public:
  explicit Rounder(Phases& phases) : phases_(phases), whole_(phases.whole), users_(users_of(whole_)) {
    for (const TailStep& step : phases.tail) {
      if (step.node.valid() && op_row(whole_.node(step.node).op).kind == OpKind::update) break;
      if (step.fragment >= 0)
        known_.insert(phases.fragments[step.fragment].outputs.begin(),
                      phases.fragments[step.fragment].outputs.end());
    }
  }

  void run(std::vector<Float8Weight>& weights) {
    for (Float8Weight& weight : weights) {
      std::optional<Phases::OwnRows::Updated> updated = updated_by(weight);
      const std::optional<History> history = weight.delayed ? history_of(weight) : std::nullopt;
      if (!updated || history.has_value() != weight.delayed) continue;
      if (history) place(*updated, *history, phases_.seed.graph.node(weight.quantize).attrs.dtype("dtype"));
      weight.updated = static_cast<int>(phases_.own_rows.updated.size());
      phases_.own_rows.updated.push_back(std::move(*updated));
    }
    if (!groups_.empty()) write_scales();
  }

 private:
  // The update of a weight's rows, if only the gather reads their rounding.
  std::optional<Phases::OwnRows::Updated> updated_by(const Float8Weight& weight) const {
    ValueId rows = weight.rows;
    while (users_[rows].size() == 1 && gathered_on_one(rows) != kNoValue) rows = gathered_on_one(rows);
    const NodeId convert = whole_[rows].producer;
    if (!convert.valid() || whole_.node(convert).op != ops::convert || users_[rows].size() != 1)
      return std::nullopt;
    const ValueId state = whole_.node(convert).inputs[0];
    if (roundings_of(state) != std::vector<NodeId>{convert}) return std::nullopt;
    const std::string name = state_of(state);
    const ValueId made = name.empty() ? kNoValue : whole_.find_output(name);
    if (made == kNoValue || !whole_[made].producer.valid()) return std::nullopt;
    const Node& update = whole_.producer(made);
    if (!is_gated_update(update) || update.outputs[0] != made) return std::nullopt;
    for (ValueId v : update.inputs)
      if (whole_[v].producer.valid() && whole_.producer(v).op == ops::spread_rows) return std::nullopt;
    return Phases::OwnRows::Updated{.state = name, .convert = convert, .largest = {}, .rows = kNoValue};
  }
  // The head's converts of a state.
  std::vector<NodeId> roundings_of(ValueId state) const {
    std::vector<NodeId> out;
    for (NodeId n : phases_.head)
      if (const Node& node = whole_.node(n); node.op == ops::convert && node.inputs[0] == state)
        out.push_back(n);
    return out;
  }
  // The input of a gather along a dim of one rank; kNoValue for another value.
  ValueId gathered_on_one(ValueId v) const {
    if (!whole_[v].producer.valid() || whole_.producer(v).op != ops::wait) return kNoValue;
    const Node& start = whole_.producer(whole_.producer(v).inputs[0]);
    const bool one = start.op == ops::all_gather_start && whole_.mesh.size(start.attrs.word("mesh_dim")) == 1;
    return one ? start.inputs[whole_[v].index] : kNoValue;
  }
  static bool is_gated_update(const Node& node) {
    return op_row(node.op).kind == OpKind::update && node.op != ops::put_rows && !is_always_made(node);
  }
  std::string state_of(ValueId v) const {
    for (const auto& input : whole_.inputs)
      if (input.value == v && input.kind == InputKind::state) return input.name;
    return "";
  }

  // The only history from which its scale follows, if the step knows the history's new value before the first
  // update.
  std::optional<History> history_of(const Float8Weight& weight) const {
    std::set<ValueId> read;
    std::vector<ValueId> open{phases_.seed.graph.node(weight.quantize).inputs[1]};
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      const Graph& seed = phases_.seed.graph;
      if (!seed[v].producer.valid())
        read.insert(whole_value_of(phases_.seed, v));
      else
        open.insert(open.end(), seed.producer(v).inputs.begin(), seed.producer(v).inputs.end());
    }
    if (read.size() != 1) return std::nullopt;
    const ValueId before = *read.begin();
    const Shape& shape = whole_[before].shape;
    if (state_of(before).empty() || shape.size() != 2 || shape[0] != kAmaxRows) return std::nullopt;
    for (const Node& node : whole_.nodes) {
      if (!is_gated_update(node) || !node.body) continue;
      const std::vector<int> replaced = replaced_inputs(node);
      for (size_t o = 0; o < replaced.size(); ++o) {
        if (replaced[o] == kReplacesNothing || all_rows(node.inputs[replaced[o]]) != before) continue;
        const ValueId after = given_output(node, o);
        if (after != kNoValue && known_.count(after)) return History{before, after};
      }
    }
    return std::nullopt;
  }
  ValueId all_rows(ValueId v) const {
    while (whole_[v].producer.valid() && whole_.producer(v).op == ops::local_rows)
      v = whole_.producer(v).inputs[0];
    return v;
  }
  // The input that an update passes on unchanged as its output; kNoValue if it computes the output.
  ValueId given_output(const Node& update, size_t output) const {
    const ValueId made = update.body->outputs[output].value;
    for (size_t i = 0; i < update.body->inputs.size(); ++i)
      if (update.body->inputs[i].value == made) return all_rows(update.inputs[i]);
    return kNoValue;
  }

  void place(Phases::OwnRows::Updated& updated, const History& history, DType dtype) {
    const int64_t steps = whole_[history.before].shape[1];
    auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& one) {
      return one.steps == steps && one.dtype == dtype && one.histories.size() < kMostJoined;
    });
    if (group == groups_.end()) group = groups_.insert(group, Group{.steps = steps, .dtype = dtype});
    updated.group = group - groups_.begin(), updated.place = group->histories.size();
    group->histories.push_back(history);
  }
  void write_scales() {
    Phase& phase = phases_.own_rows.scales;
    const SourceLine at = whole_.node(phases_.own_rows.updated.front().convert).at;
    AtLine line(at);
    auto builder = std::make_shared<Builder>();
    std::vector<Tensor> scales;
    for (ValueId History::* which : {&History::before, &History::after})
      for (const Group& group : groups_) {
        std::vector<Tensor> histories;
        for (const History& history : group.histories) {
          const Value& value = whole_[history.*which];
          histories.emplace_back(
              builder, builder->graph.add_input(InputKind::value, str("history", phase.inputs.size()),
                                                value.dtype, value.shape));
          phase.inputs.push_back(history.*which);
        }
        scales.push_back(delayed_scales(histories, kAmaxOfWeight, group.dtype));
      }
    phase.graph = std::move(builder->graph);
    for (const Tensor& scale : scales) {
      phase.graph.add_output(OutputKind::value, str("out", phase.outputs.size()), scale.id());
      phase.outputs.push_back(kNoValue);  // no value of the whole program
    }
  }

  Phases& phases_;
  const Graph& whole_;
  const PerValue<std::vector<NodeId>> users_;
  std::set<ValueId> known_;  // results of fragments before the first update
  std::vector<Group> groups_;
};
}  // namespace

void round_in_updates(Phases& phases, std::vector<Float8Weight>& weights) { Rounder(phases).run(weights); }

}  // namespace lockstep::compiler
