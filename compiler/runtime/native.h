// Native: a block made ready to run: kernels and library calls in order, every value at its planned place.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/target.h"
#include "compiler/program/block.h"
#include "compiler/runtime/executable.h"
#include "core/device/buffer.h"

namespace lockstep {

class Native : public Executable {
 public:
  Native(const ExecutableSource& source, std::shared_ptr<const KernelSet> kernels,
         const CompileOptions& options);

  void run(const std::vector<void*>& inputs, Stream& stream, const AfterGroup& after) override;
  void run(const std::vector<void*>& inputs, Stream& stream, const AfterGroup& after,
           WeightGathers& weights) override;
  void run_layers(const std::vector<std::vector<void*>>& inputs, Stream& stream, const AfterLayer& after,
                  WeightGathers& weights) override;
  const GatherPlan& gathers() const override { return block_.gathers; }
  const void* output(size_t index) const override;
  int64_t arena_bytes() const override { return block_.arena_bytes(); }
  std::string algorithms() const override { return block_.algorithms(); }
  std::string describe() const override { return block_.text(); }
  double flops() const override { return block_.flops(); }
  std::vector<int> group_ready() const override;
  int calls() const override { return static_cast<int>(block_.calls.size()); }
  std::vector<CallTime> times() const override { return times_; }
  const ProgramBlock* block() const override { return &block_; }

 private:
  // A micro-batch that runs.
  struct Turn {
    const std::vector<void*>* inputs = nullptr;  // null: idle
    size_t micro_batch = 0;
    size_t group = 0;  // the next to be ready
  };

  void enqueue(std::vector<Turn> turns, Stream& stream, const AfterLayer& after, WeightGathers* weights);
  void enqueue_call(size_t call, const Turn& turn, Stream& stream);
  std::byte* pointer(const BlockSlot& slot, const std::vector<void*>& inputs, size_t micro_batch) const;

  ProgramBlock block_;
  std::vector<BodyCollectives> collectives_;  // per micro-batch
  std::shared_ptr<const KernelSet> kernels_;
  std::vector<const Kernel*> kernel_of_;  // per call; null for other calls, and where there are no kernels
  CompileOptions options_;
  std::vector<CallTime> times_;
  std::vector<void*> inputs_;   // of the micro-batch whose outputs are read now
  size_t micro_batch_ = 0;      // it
  std::vector<void*> args_;     // of the call that is enqueued
  std::vector<Buffer> arenas_;  // per micro-batch
  Buffer shared_;               // nothing for one micro-batch
};

}  // namespace lockstep
