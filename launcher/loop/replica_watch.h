// ReplicaWatch: compares what ranks hold alike, every so many steps and before each save. A difference is a
// PeerError: the run goes on from its last checkpoint, which was made of replicas that were alike.
#pragma once

#include <vector>

#include "compiler/runtime/step.h"
#include "core/mesh/array.h"

namespace lockstep::launcher {

class ReplicaWatch {
 public:
  ReplicaWatch(int64_t every, const LiveMesh& mesh) : every_(every), mesh_(mesh) {}
  // Before a step: whether it makes checksums, and the word about the last ones, which rides with its vote.
  void ask(compiler::StepInput& input);
  // After it. PeerError on all ranks when those of the step before differ.
  void hear(int64_t step, const compiler::StepResult& result, const compiler::Step& made);
  // Compares what the step made, and, where `state`, the state as it is now. Collective. PeerError on all
  // ranks.
  void compare(int64_t step, compiler::Step& made, bool state);
  // The state as it is now, however seldom it is asked for otherwise (`every` may be 0). The same.
  void compare_now(int64_t step, compiler::Step& made);

 private:
  bool has_peers(const compiler::Step& made) const;
  [[noreturn]] void refuse(int64_t step, const compiler::Step& made, const std::vector<uint64_t>& sums);

  int64_t every_;
  const LiveMesh& mesh_;
  std::vector<uint64_t> sums_;             // of step at_
  int64_t word_ = 0, at_ = 0, alike_ = 0;  // alike_: the last step whose replicas were found alike
};

}  // namespace lockstep::launcher
