// The head and the tail of a step, run node by node. Head: weights that lie as rows, rounded and gathered.
// Tail: sums over lanes, the exact norm, updates of this rank's rows, gathers of new weights.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/reduce/gradient_reducer.h"
#include "compiler/runtime/executable.h"
#include "compiler/schedule/phases.h"
#include "core/mesh/array.h"

namespace lockstep {

// Pointers of the values of the whole program, for those that exist outside an executable.
struct ValueTable {
  Device* device = &cpu_device();
  PerValue<void*> at;
  std::vector<Buffer> owned;
  void* own(ValueId id, size_t bytes) {
    owned.emplace_back(bytes, device->memory());
    return at[id] = owned.back().data();
  }
};

class Tail {
 public:
  struct Parts {
    const Phases& phases;
    const LiveMesh& mesh;
    ValueTable& table;
    std::vector<std::unique_ptr<GradientReducer>>& reducers;  // one per exchange
    std::vector<std::unique_ptr<Executable>>& fragments;
    std::shared_ptr<const KernelSet> kernels;  // null: updates by the reference evaluator
    Reductions& reductions;                    // of the device of the table
    const CompileOptions& options;
    std::function<void*(const std::string&)>
        state_of;  // the device's pointer of a tensor of the state; null: there is none
    std::function<std::vector<void*>(const Phase&)> inputs_of;  // of a fragment
    const float* limits =
        nullptr;  // on the device: of the norms, of the loss; beyond one of them no update is made
    std::function<void(Stream&)> before_updates;  // called once per step, while enqueueing; may be empty
  };
  explicit Tail(Parts parts);
  ~Tail();
  // Rounds this rank's rows of the weights. Needed before run_head() unless the tail's own updates made the
  // last change to the state.
  void round_weights(Stream& stream);
  bool rounds_in_update() const;  // whether run() leaves the rounded rows behind
  // Gathers the rounded rows: what the body reads.
  void run_head(Stream& stream);
  // Enqueues everything after the exchanges were started.
  void run(Stream& stream);
  int64_t bytes() const;  // buffers of the tail

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Tail::bytes() of `rank` of a mesh, known without peers or a state.
int64_t tail_bytes(const Phases& phases, const Mesh& mesh, int64_t rank);

}  // namespace lockstep
