// Executor: runs a StepProgram on a device, instruction by instruction, each on its addresses in memory. One
// loop serves the CPU, CUDA devices and plugins. It enqueues the same work in every step, so that a device
// may capture it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/program/build/sum_forms.h"
#include "compiler/runtime/block_runner.h"
#include "compiler/runtime/step_recorder.h"

namespace lockstep::compiler {

// Starts preparing, in parallel and in the background, the kernels for gradient sums of these forms. Sums
// with more addends than the device accepts are skipped: the program's builder refuses them.
void begin_sums(Reductions& reductions, const SumForms& forms);

class Executor {
 public:
  struct Parts {
    const StepProgram& program;
    const Graph& whole;             // of the updates: their ops and constants
    const CompileOptions& options;  // of the plan
    std::shared_ptr<const KernelSet> kernels;
    const LiveMesh& mesh;
    Device& device;
    Reductions& reductions;
    // Memory of a region, by number, that another object owns; null: it is allocated here. UserError if there
    // is not enough memory.
    std::function<std::byte*(size_t region)> given;
    // For inspections: kernels and options of another body block, and the observer of its outputs.
    std::shared_ptr<const KernelSet> body_kernels = nullptr;
    const CompileOptions* body_options = nullptr;
    std::function<void(int64_t micro_batch, int output, const void* data)> show = {};
  };
  explicit Executor(Parts parts);  // what the parts refer to outlives it
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void refresh(Stream& stream);  // enqueues StepProgram::refresh
  // Enqueues StepProgram::instrs. The first call allocates the memory of sums and staging; UserError if there
  // is not enough.
  void run(Stream& stream);
  // Allocates the memory that only steps need; otherwise the first run() does. UserError if there is not
  // enough.
  void prepare();
  // Rebinds the program to the addresses that Parts::given now returns, after an owner has moved a region.
  // Not while its work is in progress; captured work must be captured again.
  void rebind();

  // For the body, in what run() enqueues from now on (StepInput::give_up). The device is then at most a few
  // calls of the body behind the host.
  void give_up_when(const std::function<bool()>& asked);
  // Records what run() enqueues from now on; null: stops. The recorder must outlive it.
  void record(StepRecorder* recorder);

  std::byte* at(const Span& span) const;                         // null for none
  const std::vector<Group*>& groups() const { return groups_; }  // with which the program communicates
  const std::vector<CallTime>& times(size_t block) const { return runners_[block]->times(); }
  // If timing is on: seconds since the start per kind of instruction, "run body", "wait", ...
  const std::map<std::string, double>& seconds() const { return seconds_; }

 private:
  using Action = std::function<void(Stream&)>;
  struct Bound {
    Action action;
    std::string_view kind;
    int block = -1;
  };
  Bound bind(const Instr& instr);
  Action bind(const RunBlock& run);
  Action bind(const StartCollective& start);
  Action bind(const Wait& wait);
  Action bind(const Accumulate& add);
  Action bind(const SumTrees& sums);
  Action bind(const CopySpans& all);
  Action bind(const StartCopies& start);
  Action bind(const ZeroSpan& zero);
  Action bind(const AddCounts& add);
  Action bind(const UpdateTensors& update);
  Action bind(const SumRows& sum);
  Action bind(const PutRows& put);
  Action bind(const TakeRows& take);
  Action bind(const SumSquares& sum);
  Action bind(const NormOfWords& norm);
  Action bind(const ChecksumSpans& checked);
  Action bind(const ShowOutput& shown, int64_t micro_batch);
  std::vector<Bound> bound(const std::vector<Instr>& instrs);
  void stay_near(Stream& stream);
  static bool is_of_steps(const Region& region);
  void take_memory(bool of_steps);
  void find_groups();
  void enqueue(const std::vector<Bound>& list, Stream& stream);
  template <class T>
  T* as(const Span& span) const {
    return reinterpret_cast<T*>(at(span));
  }

  Parts parts_;
  const StepProgram& program_;
  Collectives collectives_;
  std::vector<Group*> groups_;
  std::vector<Buffer> owned_;
  std::vector<std::byte*> memory_;  // per region
  std::vector<std::unique_ptr<BlockRunner>> runners_;
  std::map<std::pair<int, int>, std::vector<std::shared_ptr<Work>>> block_flights_;  // by block and own arena
  std::vector<std::shared_ptr<Work>> flights_;
  std::unique_ptr<Stream> to_device_, to_host_;  // queues of StartCopies, if the program has any
  std::vector<Bound> refresh_, step_;
  std::map<std::string, double> seconds_;
  StepRecorder* recorder_ = nullptr;
  bool may_give_up_ = false;
  std::deque<std::shared_ptr<Event>> ends_;  // of the last calls of the body, if evaluation may give up
};

}  // namespace lockstep::compiler
