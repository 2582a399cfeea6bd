// Executor: runs a StepProgram on a device: instruction by instruction, each at its place in memory. One loop
// for the CPU, CUDA devices and plugins; what it enqueues is the same in every step, so that a device may
// capture it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/program/sum_forms.h"
#include "compiler/runtime/block_runner.h"
#include "compiler/runtime/step_recorder.h"

namespace lockstep::compiler {

// Begins to prepare what adds gradients in these forms, side by side, beside the caller. Sums of more addends
// than the device takes are left out: who builds the program refuses them.
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
    // Memory of the program's regions, by number, that others own; null: it is taken here. UserError where
    // memory is out.
    std::function<std::byte*(size_t region)> given;
    // Of inspections: another block body's kernels and options, and who looks at what it shows.
    std::shared_ptr<const KernelSet> body_kernels = nullptr;
    const CompileOptions* body_options = nullptr;
    std::function<void(int64_t micro_batch, int output, const void* data)> show = {};
  };
  explicit Executor(Parts parts);  // what the parts refer to outlives it
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void refresh(Stream& stream);  // enqueues StepProgram::refresh
  // Enqueues StepProgram::instrs. The first one takes the memory of sums and staging. UserError where it is
  // out.
  void run(Stream& stream);
  // Takes the memory that steps alone need, which the first run() does else. UserError where it is out.
  void prepare();
  // Binds the program to where Parts::given says that its regions are now, since their owner has moved one.
  // Not while work of it is under way; what was captured of it is to be captured anew.
  void rebind();

  // Of the body, in what run() enqueues from now on (StepInput::give_up). A device is then at most a few
  // calls of the body behind the host.
  void give_up_when(const std::function<bool()>& asked);
  // What run() enqueues from now on is recorded; null: no more. The recorder outlives it.
  void record(StepRecorder* recorder);

  std::byte* at(const Span& span) const;                         // null for none
  const std::vector<Group*>& groups() const { return groups_; }  // that the program talks to
  const std::vector<CallTime>& times(size_t block) const { return runners_[block]->times(); }
  // Seconds per kind of instruction, "run body", "wait", ..., where timing is on: since the start.
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
  std::unique_ptr<Stream> to_device_, to_host_;  // queues of StartCopies, where there are any
  std::vector<Bound> refresh_, step_;
  std::map<std::string, double> seconds_;
  StepRecorder* recorder_ = nullptr;
  bool may_give_up_ = false;
  std::deque<std::shared_ptr<Event>> ends_;  // of the last calls of the body, where it may be given up
};

}  // namespace lockstep::compiler
