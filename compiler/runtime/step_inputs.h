// StepInputs: what changes from step to step, on its way to the device: host scalars and the stop vote in one
// block, the batch fields of this rank's micro-batches, and which samples those are.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/reduce/lanes.h"
#include "compiler/runtime/step.h"

namespace lockstep {

class StepInputs {
 public:
  // Takes memory for this rank's slots of `lanes`, and puts the places of the plan's host scalars into `at`,
  // one pointer per value of the whole program. The arguments outlive it.
  StepInputs(const StepPlan& plan, const LanePlan& lanes, const LiveMesh& mesh, Device& device,
             PerValue<void*>& at);
  // Enqueues the copies of a step's scalars, vote and batch; fills the batch unless fill_next() has.
  // InternalError for a scalar that the program reads and `scalars` lacks.
  void send(const StepInput& input, uint64_t seed, const Step::Scalars& scalars, Stream& stream);
  // Reads the next step's batch while a device works on this one; nothing where the host addresses the
  // device.
  void fill_next(const StepInput& input);

  void* field(int64_t slot, const std::string& name);  // InternalError for a field that the plan lacks
  void* sample(ValueId value,
               int64_t slot);  // the slot's first sample, where `value` is that scalar; else null
  const int64_t* vote() const { return reinterpret_cast<const int64_t*>(scalar_block_.data() + vote_at_); }
  // Behind it lie the word about replicas (StepInput::replica_word), limits of norms and of the loss, and
  // whether replicas are looked at.
  const float* limits() const { return reinterpret_cast<const float*>(scalar_block_.data() + vote_at_ + 16); }
  const int64_t* checks_replicas() const {
    return reinterpret_cast<const int64_t*>(scalar_block_.data() + vote_at_ + 24);
  }

 private:
  void fill_batch(const std::function<void(int64_t, int64_t, const std::vector<void*>&)>& fill, size_t set);

  const StepPlan& plan_;
  const LanePlan& lanes_;
  const LiveMesh& mesh_;
  Device& device_;
  struct ScalarPlace {
    std::string name;
    ValueId id;
    size_t at;  // in the scalar block
  };
  std::vector<ScalarPlace> scalar_at_;
  Buffer scalar_block_, scalar_host_, samples_;
  size_t vote_at_ = 0;
  ValueId sample_;
  std::vector<std::vector<Buffer>> batch_;      // per slot, per field, on the device
  std::vector<std::vector<Buffer>> staged_[2];  // where the host fills them: for this step, and for the next
  size_t set_in_use_ = 0;
  int64_t staged_for_ = -1;  // the step whose batch lies in the other set
};

}  // namespace lockstep
