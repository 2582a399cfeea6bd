// Finding what is replicated in a program, and its checksums.
#include "compiler/runtime/replica_check.h"

#include <algorithm>
#include <map>

#include "core/base/text.h"

namespace lockstep {

ReplicaCheck::ReplicaCheck(const Phases& phases, const LiveMesh& mesh, Device& device, Reductions& reductions,
                           std::vector<Array*> state, const PerValue<void*>& at)
    : reductions_(reductions) {
  for (Array* array : state) {
    Replica one = replica_of(*array, mesh.words, mesh.rank);
    one.at = array->on(device);
    if (one.count > 1) replicas_.push_back(one);
  }
  of_state_ = replicas_.size();
  add_gathered(phases, mesh, at, state);
  if (!replicas_.empty()) words_ = Buffer(replicas_.size() * sizeof(uint64_t), device.memory());
}

void ReplicaCheck::add_gathered(const Phases& phases, const LiveMesh& mesh, const PerValue<void*>& at,
                                const std::vector<Array*>& state) {
  const Graph& whole = phases.whole;
  std::map<ValueId, const Array*> copy_of;  // values of the head: the state that they are copies of
  for (const auto& input : whole.inputs)
    for (const Array* array : state)
      if (input.kind == InputKind::state && input.name == array->fqn) copy_of[input.value] = array;
  for (NodeId n : phases.head) {
    const Node& node = whole.node(n);
    if (node.op == ops::convert) copy_of[node.outputs[0]] = copy_of[node.inputs[0]];
    if (node.op != ops::wait) continue;
    const Node& start = whole.producer(node.inputs[0]);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& value = whole[node.outputs[i]];
      const Array* array = copy_of[node.outputs[i]] = copy_of[start.inputs[i]];
      const bool split =
          std::any_of(value.layout.splits.begin(), value.layout.splits.end(),
                      [](const auto& one) { return one.second.kind != Placement::Kind::replicate; });
      if (!array || split) continue;
      Array like = *array;  // split as the state is along model dims, and whole on the data dims
      for (int d = 0; d < mesh.words.ndim(); ++d)
        if (is_data_dim(mesh.words.dim_names[d])) like.layout.set(d, Replicate());
      Replica one = replica_of(like, mesh.words, mesh.rank);
      one.name += str(" (", name(value.dtype), ", gathered)");
      one.at = at[node.outputs[i]];
      one.bytes = numel(value.shape) * static_cast<int64_t>(size_of(value.dtype));
      if (one.count > 1) replicas_.push_back(one);
    }
  }
}

void ReplicaCheck::enqueue(const int64_t* wanted, Stream& stream) {
  if (replicas_.empty()) return;
  std::vector<Reductions::Bytes> parts;
  for (const Replica& one : replicas_) parts.push_back({one.at, static_cast<size_t>(one.bytes)});
  reductions_.checksums(parts, words_.as<uint64_t>(), wanted, stream);
}

}  // namespace lockstep
