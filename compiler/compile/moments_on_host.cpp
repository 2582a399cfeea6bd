// Selects moments by their readers.
#include "compiler/compile/moments_on_host.h"

#include <algorithm>
#include <vector>

#include "compiler/program/words/replica.h"
#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"
#include "core/table/updates.h"

namespace lockstep::compiler {

namespace {
bool is_update(const Node& node) {
  return op_row(node.op).kind == OpKind::update && node.op != ops::put_rows;
}

class Finder {
 public:
  Finder(const Graph& whole, const State& state, const Mesh& mesh)
      : whole_(whole), state_(state), mesh_(mesh), readers_(users_of(whole)) {}

  std::set<std::string> run() {
    for (const auto& input : whole_.inputs) {
      const Parameter found = input.kind == InputKind::state ? state_.find_spec(input.name) : Parameter();
      if (found && found.spec().role == Role::moment) place(input, found.spec());
    }
    const bool updates = std::any_of(whole_.nodes.begin(), whole_.nodes.end(), is_update);
    if (updates && on_host_.empty()) refuse();
    return std::move(on_host_);
  }

 private:
  void place(const GraphInput& input, const Spec& spec) {
    if (spec.shape.empty() || spec.sparse || !is_of_its_update(input.value) ||
        replica_of(input.name, state_.layout(input.name), mesh_, 0).count > 1)
      staying_.push_back(input.name);
    else
      on_host_.insert(input.name);
  }
  // Whether its only reader is an update, and nothing reads the value that replaces it.
  bool is_of_its_update(ValueId v) const {
    if (readers_[v].size() != 1) return false;
    const Node& reader = whole_.node(readers_[v][0]);
    if (!is_update(reader)) return false;
    const std::vector<int> replaced = replaced_inputs(reader);
    for (size_t o = 0; o < reader.outputs.size(); ++o)
      if (replaced[o] != kReplacesNothing && reader.inputs[replaced[o]] == v)
        return readers_[reader.outputs[o]].empty();
    return false;
  }
  [[noreturn]] void refuse() const {
    throw UserError(
        staying_.empty()
            ? std::string(
                  "optim.offload: the optimizer keeps no moments that could be kept on the host; leave it "
                  "out, or choose one that does (adamw, lion, sgd with momentum)")
            : str("optim.offload: none of the ", staying_.size(),
                  " moments can be kept on the host, since not only "
                  "their update reads them, several ranks have "
                  "them, or they are rows of sparse tables: ",
                  staying_[0], staying_.size() > 1 ? ", ..." : "",
                  "; leave it out, or choose adamw or lion"));
  }

  const Graph& whole_;
  const State& state_;
  const Mesh& mesh_;
  PerValue<std::vector<NodeId>> readers_;
  std::set<std::string> on_host_;
  std::vector<std::string> staying_;
};
}  // namespace

std::set<std::string> moments_on_host(const Graph& whole, const State& state, const Mesh& mesh) {
  return Finder(whole, state, mesh).run();
}

}  // namespace lockstep::compiler
