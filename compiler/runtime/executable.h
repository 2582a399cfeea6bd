// Executable: a graph of one phase made ready to run on one device. The count, seed, body and fragments of a
// step are executables.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/pass.h"
#include "compiler/runtime/body_collectives.h"
#include "compiler/schedule/gathers.h"
#include "core/device/stream.h"

namespace lockstep {

struct KernelSource;
struct ProgramBlock;
class KernelSet;

struct CallTime {
  std::string what;  // "dot 4096x384x1152", "fused add,tanh", ...
  std::string kind;  // "contraction", "attention", "kernel", "rows"
  double seconds = 0;
  int64_t runs = 0;
  double flops = 0;   // of one run
  int64_t bytes = 0;  // read and written by one run
};

// Fills streamed inputs: asked bucket by bucket, in the order of the executable's GatherPlan.
class WeightGathers {
 public:
  virtual ~WeightGathers() = default;
  // `to`: one pointer per segment of the bucket, where the whole weight goes. What was enqueued before has
  // read what lay there.
  virtual void start(int bucket, const std::vector<void*>& to, Stream& stream) = 0;
  virtual void wait(int bucket, Stream& stream) = 0;
};

class Executable {
 public:
  virtual ~Executable() = default;
  // Called with g when every output of group g (and of the groups before it) is ready; outputs of a group may
  // be overwritten afterwards.
  using AfterGroup = std::function<void(int group)>;
  // Enqueues the graph on `stream`. inputs: one pointer of the device per graph input, dense. `after` is
  // called while enqueueing: what it enqueues on `stream` runs in between.
  virtual void run(const std::vector<void*>& inputs, Stream& stream, const AfterGroup& after = {}) = 0;
  // The same for a graph with streamed inputs: their pointers in `inputs` are not read, and `weights` is
  // called while enqueueing.
  virtual void run(const std::vector<void*>& inputs, Stream& stream, const AfterGroup& after,
                   WeightGathers& weights);
  // The same for all micro-batches of a step, bucket by bucket: the weights of a bucket are gathered once,
  // and the calls up to the next bucket run for one micro-batch after another. inputs: per micro-batch, as
  // above; empty: an idle one, for which nothing runs and `after` is called all the same. Groups are ready in
  // the order of buckets, and in that of micro-batches within.
  using AfterLayer = std::function<void(size_t micro_batch, int group)>;
  virtual void run_layers(const std::vector<std::vector<void*>>& inputs, Stream& stream,
                          const AfterLayer& after, WeightGathers& weights);
  virtual const GatherPlan& gathers() const;  // of the streamed inputs
  virtual const void* output(size_t index)
      const = 0;  // valid until the next run; a grouped output only until its group's call returns
  virtual int64_t arena_bytes() const = 0;
  virtual std::string algorithms()
      const = 0;  // kernels and library algorithms in order, for the numerics certificate
  virtual std::string describe() const = 0;   // the plan as text
  virtual double flops() const { return 0; }  // of the library calls of one run
  // Per group, the number of calls after which it is ready; and the number of calls of a run. What overlap is
  // proved with.
  virtual std::vector<int> group_ready() const { return {}; }
  virtual int calls() const { return 0; }
  virtual std::vector<CallTime> times() const { return {}; }
  virtual const ProgramBlock* block() const {
    return nullptr;
  }  // what it runs; null for the reference backend
};

// What must be compiled before an executable can be linked.
struct ExecutableSource {
  Graph graph;                           // lowered: fused nodes, library ops, views
  std::vector<std::vector<int>> groups;  // of output indices
  std::vector<int> streamed = {};        // inputs that are gathered while it runs (native backend)
  GatherOptions gather = {};
  int64_t micro_batches = 1;  // that run_layers runs at once, at most
  GroupOf group_of = {};      // for collectives of model dims inside the graph; empty on paper
};
// Kernels that the fused nodes of a graph need.
std::vector<KernelSource> kernels_of(const Graph& graph, const CompileOptions& options);

std::unique_ptr<Executable> make_native(const ExecutableSource& source,
                                        std::shared_ptr<const KernelSet> kernels,
                                        const CompileOptions& options);
std::unique_ptr<Executable> make_reference(const ExecutableSource& source);

// Whether executables record times (benchmarks).
void set_timing(bool on);
bool timing();

}  // namespace lockstep
