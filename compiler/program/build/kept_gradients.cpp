// Finds the sums over lanes that are gradients kept where the body wrote them.
#include "compiler/program/build/kept_gradients.h"

#include <algorithm>

#include "compiler/program/blocks/places.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
bool is_dense_update(const Node& node) {
  return op_row(node.op).kind == OpKind::update && node.op != ops::put_rows;
}

class KeptFinder {
 public:
  explicit KeptFinder(const StepPlan& plan)
      : phases_(plan.phases), body_(plan.body), users_(users_of(phases_.whole)), places_(places_of(body_)) {
    for (size_t b = 0; b < phases_.exchanges.size(); ++b)
      bucket_of_[phases_.whole.node(phases_.exchanges[b]).outputs[0]] = b;
  }

  KeptGradients find() const {
    KeptGradients out;
    for (const Node& node : phases_.whole.nodes) {
      if (node.op != ops::lane_sum) continue;
      const ValueId sum = node.outputs[0], gradient = gradient_of(node);
      const DType dtype = body_[gradient].dtype;
      if (lies_in_arena(gradient) && (dtype == DType::f32 || only_updates_read(sum))) out[sum] = dtype;
    }
    return out;
  }

 private:
  // The body's gradient that the exchange would bring to the sum.
  ValueId gradient_of(const Node& lane_sum) const {
    const ValueId carried = lane_sum.inputs[0];
    const size_t bucket = bucket_of_.at(phases_.whole.producer(carried).inputs[0]);
    return body_.outputs[phases_.buckets[bucket][phases_.whole[carried].index]].value;
  }
  // An input of the body, such as a rounded weight, does not count: it may change before it is read.
  bool lies_in_arena(ValueId gradient) const { return body_[places_[gradient].root].producer.valid(); }
  bool only_updates_read(ValueId sum) const {
    const Graph& whole = phases_.whole;
    return std::all_of(users_[sum].begin(), users_[sum].end(),
                       [&](NodeId user) { return is_dense_update(whole.node(user)); }) &&
           std::none_of(whole.outputs.begin(), whole.outputs.end(),
                        [&](const GraphOutput& output) { return output.value == sum; });
  }

  const Phases& phases_;
  const Graph& body_;
  const PerValue<std::vector<NodeId>> users_;
  const PerValue<Place> places_;
  std::map<ValueId, size_t> bucket_of_;  // by handle
};
}  // namespace

KeptGradients kept_gradients(const StepPlan& plan) {
  const auto ranks = static_cast<int>(plan.phases.whole.mesh.data_size());
  return LanePlan{plan.micro_batches, plan.lanes, ranks, 0, plan.order}.is_one() ? KeptFinder(plan).find()
                                                                                 : KeptGradients{};
}

std::vector<int> halves_of(const Node& update, const KeptGradients& kept) {
  std::vector<int> out;
  for (size_t i = 0; i < update.inputs.size(); ++i)
    if (const auto found = kept.find(update.inputs[i]); found != kept.end() && found->second == DType::bf16)
      out.push_back(static_cast<int>(i));
  return out;
}

}  // namespace lockstep::compiler
