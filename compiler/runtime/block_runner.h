// BlockRunner: enqueues the calls of a block: kernels, library calls, the reference evaluator, collectives of
// model dims. It owns no memory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/target.h"
#include "compiler/program/blocks/block.h"
#include "compiler/runtime/collectives.h"
#include "compiler/runtime/step_recorder.h"

namespace lockstep::compiler {

struct CallTime {
  std::string what;    // "dot 4096x384x1152", "fused add,tanh", ...
  std::string family;  // "contraction", "float8", "convolution", "attention", "kernel", "rows"
  double seconds = 0;
  int64_t runs = 0;
  double flops = 0;   // of one run
  int64_t bytes = 0;  // read and written by one run
};

// Whether each call and instruction is timed separately (benchmarks).
void set_timing(bool on);
bool timing();

class BlockRunner {
 public:
  // Block, options and collectives must outlive this. Without kernels, a block of the native and eager
  // backends can be inspected but not run. `collectives` may be null if the block has none.
  BlockRunner(const ProgramBlock& block, std::shared_ptr<const KernelSet> kernels,
              const CompileOptions& options, const Collectives* collectives);

  // Device addresses of a run's slots, and the run's operations in progress.
  struct Memory {
    std::vector<void*> inputs;  // per graph input; null for inputs that are gathered into an arena
    std::byte* own = nullptr;
    std::byte* shared = nullptr;
    // For a run of several micro-batches: bytes from one arena to the next, and per input from one to the
    // next.
    int64_t micro_batches = 1, own_stride = 0;
    std::vector<int64_t> strides = {};
    Device* device = nullptr;                               // of the memory
    std::vector<std::shared_ptr<Work>>* flights = nullptr;  // by BlockCall::flight
  };
  void run(int first, int last, const Memory& memory, Stream& stream);
  static std::byte* at(const BlockPlace& slot, const Memory& memory);
  static int64_t stride(const BlockPlace& slot, const Memory& memory);
  const std::vector<CallTime>& times() const { return times_; }
  void record(StepRecorder* recorder) { recorder_ = recorder; }  // null: stops recording
  // Applies from now on (StepInput::give_up); empty: never.
  void give_up_when(std::function<bool()> asked) { give_up_ = std::move(asked); }
  int flights() const { return static_cast<int>(starts_.size()); }

 private:
  void run_call(size_t call, const Memory& memory, Stream& stream);
  // The runs of a library call that cannot run together. They run in parallel on their own streams, where
  // each fills the idle end of another, or one after another.
  void run_each(const LibraryCall& call, std::byte* workspace, const Repeats& repeats, Device* device,
                Stream& stream);
  void evaluate(const BlockCall& call, Stream& stream) const;

  const ProgramBlock& block_;
  std::shared_ptr<const KernelSet> kernels_;
  const CompileOptions& options_;
  const Collectives* collectives_;
  std::vector<const Kernel*> kernel_of_;        // per call; null for other calls
  std::vector<StartCollective> starts_;         // by flight
  std::vector<CallTime> times_;                 // per call
  std::vector<void*> args_;                     // of the call being enqueued
  std::vector<int64_t> strides_;                // of its arguments
  std::vector<std::unique_ptr<Stream>> sides_;  // for runs in parallel
  StepRecorder* recorder_ = nullptr;
  std::function<bool()> give_up_;
};

}  // namespace lockstep::compiler
