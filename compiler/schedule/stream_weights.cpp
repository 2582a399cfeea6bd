// Lets a phase gather weights for itself.
#include "compiler/schedule/stream_weights.h"

#include <map>
#include <set>
#include <string>

#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
class Streamer {
 public:
  Streamer(Phases& phases, const Streaming& streaming)
      : phases_(phases), whole_(phases.whole), streaming_(streaming) {
    for (const Phase* phase : {&phases.count, &phases.copies})
      elsewhere_.insert(phase->inputs.begin(), phase->inputs.end());
    for (const Phase& fragment : phases.fragments)
      elsewhere_.insert(fragment.inputs.begin(), fragment.inputs.end());
    for (const auto& step : phases.tail)
      if (step.node.valid()) reads(whole_.node(step.node));
    for (NodeId n : phases.head) reads(whole_.node(n));
    for (const auto& output : whole_.outputs) elsewhere_.insert(output.value);
    number(phases.body, in_body_), number(phases.seed, in_seed_);
  }
  void run() {
    std::set<NodeId> gone;
    for (NodeId n : phases_.head) {
      const Node& wait = whole_.node(n);
      if (wait.op != ops::wait) continue;
      const NodeId start = whole_[wait.inputs[0]].producer;
      const std::string& dim = whole_.node(start).attrs.word("mesh_dim");
      size_t taken = 0;
      for (size_t i = 0; i < wait.outputs.size(); ++i) {
        const ValueId v = wait.outputs[i], rows = whole_.node(start).inputs[i];
        if (elsewhere_.count(v)) continue;
        const auto body = in_body_.find(v), seed = in_seed_.find(v);
        const bool of_body = body != in_body_.end(), of_seed = seed != in_seed_.end();
        if (of_body && !of_seed && dim == streaming_.body_dim)
          phases_.streamed.push_back({body->second, start, i, rows}), ++taken;
        if (of_seed && !of_body && streaming_.seed && whole_.mesh.size(dim) > 1)
          phases_.seed_streamed.push_back({seed->second, start, i, rows}), ++taken;
      }
      if (taken == wait.outputs.size()) gone.insert({n, start});
    }
    std::erase_if(phases_.head, [&](NodeId n) { return gone.count(n) > 0; });
  }

 private:
  void reads(const Node& node) { elsewhere_.insert(node.inputs.begin(), node.inputs.end()); }
  static void number(const Phase& phase, std::map<ValueId, int>& inputs) {
    for (size_t i = 0; i < phase.inputs.size(); ++i) inputs[phase.inputs[i]] = static_cast<int>(i);
  }
  Phases& phases_;
  const Graph& whole_;
  const Streaming& streaming_;
  std::set<ValueId> elsewhere_;
  std::map<ValueId, int> in_body_, in_seed_;
};
}  // namespace

void stream_weights(Phases& phases, const Streaming& streaming) { Streamer(phases, streaming).run(); }

}  // namespace lockstep::compiler
