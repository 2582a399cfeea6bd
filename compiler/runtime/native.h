// Native: the executable of kernels and library calls in order, every value at a fixed place.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/target.h"
#include "compiler/runtime/executable.h"
#include "compiler/runtime/places.h"
#include "compiler/schedule/arena.h"
#include "core/device/buffer.h"

namespace lockstep {

// Values lie in one arena. Where several micro-batches run bucket by bucket
// (ExecutableSource::micro_batches), what outlives a bucket's calls is in an arena of each micro-batch, and
// the rest, with whole weights and workspaces, in one that they take turns in.
class Native : public Executable {
 public:
  Native(const ExecutableSource& source, std::shared_ptr<const KernelSet> kernels,
         const CompileOptions& options);

  void run(const std::vector<void*>& inputs, Stream& stream, const AfterGroup& after) override;
  void run(const std::vector<void*>& inputs, Stream& stream, const AfterGroup& after,
           WeightGathers& weights) override;
  void run_layers(const std::vector<std::vector<void*>>& inputs, Stream& stream, const AfterLayer& after,
                  WeightGathers& weights) override;
  const GatherPlan& gathers() const override { return gathers_; }
  const void* output(size_t index) const override;
  int64_t arena_bytes() const override { return arena_bytes_; }
  std::string algorithms() const override;
  std::string describe() const override;
  double flops() const override;
  std::vector<int> group_ready() const override;
  int calls() const override { return static_cast<int>(calls_.size()); }
  std::vector<CallTime> times() const override { return times_; }

 private:
  enum Region { kOwn = -1, kShared = -2 };  // of a micro-batch; of all
  struct Slot {                             // a pointer of a call: graph input `base`, or a Region
    int base = kOwn;
    int64_t offset = 0;
  };
  struct Call {
    const Kernel* kernel = nullptr;
    std::string kernel_name;
    std::unique_ptr<LibraryCall> library;
    std::vector<Slot> args;
    size_t inputs = 0;
    size_t workspace_bytes = 0;
    Slot workspace;
    NodeId node;
  };
  // A micro-batch that runs.
  struct Turn {
    const std::vector<void*>* inputs = nullptr;  // null: idle
    size_t micro_batch = 0;
    size_t group = 0;  // the next to be ready
  };

  void enqueue(std::vector<Turn> turns, Stream& stream, const AfterLayer& after, WeightGathers* weights);
  void enqueue_call(size_t call, const Turn& turn, Stream& stream);
  std::byte* pointer(const Slot& slot, const std::vector<void*>& inputs, size_t micro_batch) const;

  void make_calls();
  void hold_in_flight(PerValue<int>& first, PerValue<int>& last) const;
  void plan();
  void plan_streams();
  int bucket_of(int call) const;  // whose weights are the last that are waited for before the call; -1: none

  Graph graph_;
  PerValue<Place> places_;
  std::vector<std::vector<int>> groups_;
  std::vector<BodyCollectives> collectives_;  // per micro-batch
  std::vector<int> ready_;                    // per group: the call after which it is ready
  std::shared_ptr<const KernelSet> kernels_;
  CompileOptions options_;
  const Target& target_;
  TargetOptions target_options_;
  std::vector<int> streamed_;  // inputs
  GatherOptions gather_options_;
  GatherPlan gathers_;
  std::vector<Slot> segment_at_;  // per segment of it
  std::vector<Call> calls_;
  std::vector<CallTime> times_;
  std::vector<Slot> outputs_;
  std::vector<void*> inputs_;   // of the micro-batch whose outputs are read now
  size_t micro_batch_ = 0;      // it
  std::vector<void*> args_;     // of the call that is enqueued
  std::vector<Buffer> arenas_;  // per micro-batch
  Buffer shared_;               // nothing for one micro-batch
  int64_t arena_bytes_ = 0, floor_ = 0;
};

// "add,tanh": the ops of a fused node that compute.
std::string fused_text(const Graph& body);

}  // namespace lockstep
