// Finds the replicas in a program, and their places.
#include <algorithm>

#include "compiler/program/build/builder.h"
#include "core/base/text.h"

namespace lockstep::compiler {

// First state that is replicated along a mesh dim, then the rounded weights that the head gathers. They are
// compared before updates, so a step that updates nothing compares none.
void StepBuilder::find_replicas() {
  if (std::none_of(whole_.outputs.begin(), whole_.outputs.end(),
                   [](const auto& output) { return output.kind == OutputKind::state; }))
    return;
  auto add = [&](const std::string& state, Layout layout, const Span& at, const std::string& copy) {
    if (!at.there()) return;  // rounded weights that the step keeps only in 8 bits
    if (!copy.empty())        // split like the state along model dims, and whole on the data dims
      for (int d = 0; d < rank_.mesh.ndim(); ++d)
        if (is_data_dim(rank_.mesh.dim_names[d])) layout.set(d, Replicate());
    Replica one = replica_of(state, layout, rank_.mesh, rank_.rank);
    one.name += copy;
    one.at = at;
    if (one.count > 1) program_.replicas.push_back(one);
  };
  std::map<ValueId, std::string> copy_of;  // values of the head -> the state of which they are copies
  for (const auto& input : whole_.inputs)
    if (input.kind == InputKind::state) {
      copy_of[input.value] = input.name;
      add(input.name, plan_.layouts.at(input.name), at_[input.value], "");
    }
  for (NodeId n : plan_.phases.head) {
    const Node& node = whole_.node(n);
    if (node.op == ops::convert) copy_of[node.outputs[0]] = copy_of[node.inputs[0]];
    if (node.op != ops::wait) continue;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& value = whole_[node.outputs[i]];
      const std::string& state = copy_of[node.outputs[i]] = copy_of[start_of(node).inputs[i]];
      const bool split =
          std::any_of(value.layout.splits.begin(), value.layout.splits.end(),
                      [](const auto& one) { return one.second.kind != Placement::Kind::replicate; });
      if (!state.empty() && !split)
        add(state, plan_.layouts.at(state), at_[node.outputs[i]],
            str(" (", name(value.dtype), ", gathered)"));
    }
  }
  if (program_.replicas.empty()) return;
  for (const Replica& one : program_.replicas) checked_.parts.push_back(one.at);
  checked_.wanted = wanted_;
  checked_.sums = writer_.region(Kind::result, "checksums of replicas",
                                 static_cast<int64_t>(program_.replicas.size() * sizeof(uint64_t)));
}

}  // namespace lockstep::compiler
