// StepInputs: copies the values that change from step to step to the device: host scalars and the stop vote
// in one block, the batch fields of this rank's micro-batches, and their sample numbers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/program/build/step_plan.h"
#include "compiler/reduce/lanes.h"
#include "compiler/runtime/executor.h"
#include "compiler/runtime/step_io.h"
#include "core/mesh/fingerprint.h"

namespace lockstep::compiler {

// UserError for an id of a micro-batch that is out of the bounds of the step's functions
// (program/build/id_bounds.h). Its fields are at `places`, and its first sample is `first`.
void check_batch(const StepPlan& plan, const std::vector<void*>& places, int64_t first);

class StepInputs {
 public:
  // The step's inputs are stored in regions of its program. The arguments must outlive this.
  StepInputs(const StepPlan& plan, const LanePlan& lanes, const LiveMesh& mesh, Device& device,
             const StepProgram& program, const Executor& memory);
  // Enqueues the copies of a step's scalars, vote and batch; fills the batch unless fill_next() has done so.
  // UserError for an id of the batch out of the bounds of the step's functions (program/build/id_bounds.h).
  // InternalError for a scalar that the program reads and `scalars` lacks.
  void send(const StepInput& input, uint64_t seed, const StepScalars& scalars, Stream& stream);
  // Enqueues the copy of only the scalars and the vote. StepInput::replica_word also has a word about the
  // scalars. These words of all ranks sum to 0 if all ranks pass the same step number and the same bits,
  // except for the coordinate on a model dim. So every step compares them, in the all-reduce that sums counts
  // and votes anyway.
  void send_scalars(const StepInput& input, uint64_t seed, const StepScalars& scalars, Stream& stream);
  // The last scalars sent, as ranks report them if the words do not cancel.
  FingerprintPart sent() const;
  // Reads the next step's batch while the device works on this one. Does nothing if the host can address the
  // device's memory.
  void fill_next(const StepInput& input);

 private:
  uint64_t word_of_scalars() const;
  void number_samples(DType dtype, const Span& at, const Executor& memory);
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
  int64_t sent_for_ = 0;          // the step
  std::byte* scalars_ = nullptr;  // on the device
  Buffer scalar_host_;
  size_t vote_at_ = 0;
  struct Field {
    std::byte* device = nullptr;  // of all slots, slot_stride() apart
    std::byte* staged[2] = {};    // host buffers: for this step, and for the next
    size_t bytes = 0;             // of one slot
    std::byte* slot(std::byte* base, int64_t slot) const {
      return base + slot * slot_stride(static_cast<int64_t>(bytes));
    }
  };
  std::vector<Field> fields_;
  std::vector<Buffer> staging_;
  int64_t slots_ = 0;
  size_t set_in_use_ = 0;
  int64_t staged_for_ = -1;  // the step whose batch is in the other set
};

}  // namespace lockstep::compiler
