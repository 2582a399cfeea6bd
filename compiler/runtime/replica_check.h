// ReplicaCheck: checksums of what this rank holds that other ranks hold too, made on the device.
#pragma once

#include <vector>

#include "compiler/codegen/target.h"
#include "compiler/runtime/replicas.h"

namespace lockstep {

class ReplicaCheck {
 public:
  // State that is replicated along a mesh dim, then the rounded weights that the head of the program gathers.
  // `at`: pointers of the values of the whole program. Arrays, device and reductions outlive the object, and
  // what they point to stays where it is.
  ReplicaCheck(const Phases& phases, const LiveMesh& mesh, Device& device, Reductions& reductions,
               std::vector<Array*> state, const PerValue<void*>& at);
  const std::vector<Replica>& replicas() const { return replicas_; }
  size_t of_state() const { return of_state_; }  // so many of them, the first, are state
  // Enqueues the checksums, one word per replica, to words(): zeros unless *wanted, on the device, is not 0.
  void enqueue(const int64_t* wanted, Stream& stream);
  const uint64_t* words() const { return words_.as<uint64_t>(); }

 private:
  void add_gathered(const Phases& phases, const LiveMesh& mesh, const PerValue<void*>& at,
                    const std::vector<Array*>& state);

  Reductions& reductions_;
  std::vector<Replica> replicas_;
  size_t of_state_ = 0;
  Buffer words_;
};

}  // namespace lockstep
