// Finds products with delayed scales, and writes their maxima right after them, so that their inputs are
// released as early as before.
#include "compiler/lower/record_amax.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/lower/delayed_products.h"
#include "core/base/error.h"
#include "core/functions/delayed_float8.h"
#include "core/functions/functions.h"
#include "core/ir/walk.h"

namespace lockstep::compiler {

namespace {
// A graph that only measures, and updates nothing, does not change histories.
bool trains(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), is_delayed_product) &&
         std::any_of(graph.outputs.begin(), graph.outputs.end(),
                     [](const auto& output) { return output.kind == OutputKind::state; });
}

// A history in the state, and the maxima of this micro-batch for it.
struct History {
  std::string fqn;
  Tensor entries;
  std::array<Tensor, kAmaxRows> largest = {};
};

class Recorder {
 public:
  Recorder(const Graph& old, const PassContext& context)
      : old_(old), context_(context), builder_(std::make_shared<Builder>()), rewriter_(old) {}

  Graph run() {
    builder_->graph = std::move(rewriter_.graph());
    PerValue<ValueId> map(old_.values.size(), kNoValue);
    for (size_t i = 0; i < old_.inputs.size(); ++i)
      map[old_.inputs[i].value] = builder_->graph.inputs[i].value;
    for (const Node& node : old_.nodes) {
      copy(node, map);
      if (is_delayed_product(node)) record(node, map);
    }
    for (const auto& output : old_.outputs)
      builder_->graph.add_output(output.kind, output.name, map[output.value]);
    replace_histories();
    return prune(builder_->graph);
  }

 private:
  void copy(const Node& node, PerValue<ValueId>& map) {
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) inputs.push_back(map[v]);
    std::vector<std::pair<DType, Shape>> types;
    for (ValueId v : node.outputs) types.emplace_back(old_[v].dtype, old_[v].shape);
    const auto made = builder_->graph.append(node.op, std::move(inputs), node.attrs, types, node.at);
    builder_->graph.nodes.back().body = node.body;
    for (size_t o = 0; o < made.size(); ++o) map[node.outputs[o]] = made[o];
  }

  // Computes maxima exactly as the product's expansion does, so that they merge with those.
  void record(const Node& node, const PerValue<ValueId>& map) {
    AtLine line(node.at);
    const size_t x = place_of_x(node);
    History& history = history_of(node.inputs[place_of_history(node)], map);
    add(history, kAmaxOfInput, node.inputs[x], false, map);
    add(history, kAmaxOfWeight, node.inputs[x + 1], false, map);
    if (is_backward(node)) add(history, kAmaxOfGradient, node.inputs[0], node.attrs.flag("bias"), map);
  }
  void add(History& history, AmaxRow row, ValueId of, bool columns, const PerValue<ValueId>& map) {
    if (!recorded_.insert({history.fqn, of}).second) return;
    const Tensor most = amax(Tensor(builder_, map[of]), columns);
    Tensor& largest = history.largest[row];
    largest = largest.defined() ? maximum(largest, most) : most;
  }
  History& history_of(ValueId state, const PerValue<ValueId>& map) {
    for (const auto& input : old_.inputs) {
      if (input.value != state || input.kind != InputKind::state) continue;
      for (History& known : histories_)
        if (known.fqn == input.name) return known;
      return histories_.emplace_back(input.name, Tensor(builder_, map[state]));
    }
    throw InternalError("a delayed scale's history is no state");
  }

  // A matrix [rows, micro-batches] with the maxima in this micro-batch's column, else zeros.
  Tensor own_column(Tensor maxima) {
    const int64_t micro_batches = context_.micro_batches;
    const Tensor sample(builder_, builder_->scalar_input("rng.sample", DType::i64));
    const Tensor first_samples = iota(maxima, {micro_batches}, 0, DType::i64) * samples();
    const Tensor own = first_samples == broadcast_to(sample, {micro_batches});
    const Shape shape{maxima.size(0), micro_batches};
    return where(broadcast_to(reshape(own, {1, micro_batches}), shape),
                 broadcast_to(reshape(maxima, {maxima.size(0), 1}), shape),
                 full(maxima, shape, 0, DType::f32));
  }
  double samples() const {
    for (const auto& input : old_.inputs)
      if (input.kind == InputKind::batch) return static_cast<double>(old_[input.value].shape.at(0));
    throw InternalError("a step without a batch");
  }

  // One vector of many maxima, without those that are not finite. A concat of many is made part by part,
  // where each maximum is found; otherwise a concat of the whole would be too wide for a kernel.
  static Tensor finite(const std::vector<Tensor>& maxima) {
    std::vector<Tensor> groups;
    for (size_t first = 0; first < maxima.size(); first += kGroup) {
      std::vector<Tensor> group;
      for (size_t i = first; i < std::min(maxima.size(), first + kGroup); ++i)
        group.push_back(reshape(maxima[i], {1}));
      groups.push_back(concat(group, 0));
    }
    const Tensor all = concat(groups, 0);
    return where(isfinite(all), all, zeros_like(all));
  }
  // Maxima of weights are found once per step, the others in each micro-batch.
  void replace_histories() {
    const SourceLine at = builder_->graph.nodes.back().at;
    AtLine line(at);
    std::vector<Tensor> of_step, of_micro_batch;
    for (const History& history : histories_) {
      of_step.push_back(history.largest[kAmaxOfWeight]);
      for (AmaxRow row : {kAmaxOfInput, kAmaxOfGradient})
        if (history.largest[row].defined()) of_micro_batch.push_back(history.largest[row]);
    }
    const Tensor maxima = concat({finite(of_micro_batch), finite(of_step)}, 0);
    const Tensor latest = max(apply1(ops::sum_lanes, {own_column(maxima)}), {1});
    int64_t of_lane = 0, of_weight = static_cast<int64_t>(of_micro_batch.size());
    for (const History& history : histories_) {
      std::vector<Tensor> rows;  // all, or all but the last one, the gradient's
      for (AmaxRow row : {kAmaxOfInput, kAmaxOfWeight, kAmaxOfGradient}) {
        int64_t& next = row == kAmaxOfWeight ? of_weight : of_lane;
        if (!history.largest[row].defined()) continue;
        rows.push_back(slice(latest, 0, next, next + 1));
        ++next;
      }
      const auto found = static_cast<int64_t>(rows.size());
      const bool all = found == kAmaxRows;
      const Tensor before = all ? history.entries : slice(history.entries, 0, 0, found);
      // The slice comes last: after the sums, with everything else.
      const Tensor newest = reshape(concat(rows, 0), {found, 1});
      Tensor entries = slice(concat({newest, before}, 1), 1, 0, before.size(1));
      if (!all) entries = concat({entries, slice(history.entries, 0, found, kAmaxRows)}, 0);
      builder_->graph.add_output(OutputKind::state, history.fqn, entries.id());
    }
  }

  static constexpr size_t kGroup = 64;  // the most maxima that one kernel may read
  const Graph& old_;
  const PassContext& context_;
  std::shared_ptr<Builder> builder_;
  Rewriter rewriter_;
  std::vector<History> histories_;
  std::set<std::pair<std::string, ValueId>> recorded_;  // a history, and an operand of its layer
};
}  // namespace

Graph record_amax(Graph graph, const PassContext& context) {
  if (!trains(graph)) return graph;
  LS_CHECK(context.micro_batches > 0, "a step has micro-batches");
  return Recorder(graph, context).run();
}

}  // namespace lockstep::compiler
