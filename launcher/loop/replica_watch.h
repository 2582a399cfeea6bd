// ReplicaWatch: compares the replicas of the state every few steps and before each save. A difference is a
// PeerError: the run restarts from its last checkpoint, whose replicas were equal.
#pragma once

#include <vector>

#include "compiler/runtime/step.h"
#include "core/mesh/array.h"

namespace lockstep::launcher {

class ReplicaWatch {
 public:
  ReplicaWatch(int64_t every, const LiveMesh& mesh) : every_(every), mesh_(mesh) {}
  // Before a step: whether the step computes checksums, and the word about the previous ones, which is sent
  // with the step's vote.
  void ask(compiler::StepInput& input);
  // After the step. PeerError on all ranks when the checksums of the previous step differ.
  void hear(int64_t step, const compiler::StepResult& result, const compiler::Step& made);
  // Compares the step's checksums and, with `state`, the current state. Collective. PeerError on all ranks.
  void compare(int64_t step, compiler::Step& made, bool state);
  // Compares the current state, also if `every` is 0. Otherwise the same.
  void compare_now(int64_t step, compiler::Step& made);

 private:
  bool has_peers(const compiler::Step& made) const;
  [[noreturn]] void refuse(int64_t step, const compiler::Step& made, const std::vector<uint64_t>& sums);

  int64_t every_;
  const LiveMesh& mesh_;
  std::vector<uint64_t> sums_;             // of step at_
  int64_t word_ = 0, at_ = 0, alike_ = 0;  // alike_: the last step whose replicas were found equal
};

}  // namespace lockstep::launcher
