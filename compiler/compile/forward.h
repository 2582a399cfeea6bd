// A compiled function without a loss: tokens in, logits out; one or several results. For generation and for
// tests; one rank, no communication.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "compiler/program/build/id_bounds.h"
#include "compiler/runtime/executable.h"
#include "compiler/trace/trace.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

// The seed and the step number from which a run's random numbers follow, as in a step.
struct DrawnFrom {
  uint64_t seed = 0;
  int64_t number = 1;
};

class Forward {
 public:
  // Traces `function` on one batch of these types and compiles it for the state's rank. The state must be
  // materialised or loaded before run(). UserError on a mesh of several ranks, for a function that updates
  // the state, and for a scalar that an optimizer passes to a step. Metrics are omitted.
  Forward(State& state, const std::vector<BatchField>& batch,
          const std::function<Tensor(const std::vector<Tensor>&)>& function, const CompileOptions& options,
          Here at = Here::current());
  // The same for several results, at least one.
  Forward(State& state, const std::vector<BatchField>& batch,
          const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& function,
          const CompileOptions& options, Here at = Here::current());
  ~Forward();
  Forward(Forward&&) noexcept;
  // One pointer per batch field. The first result is dense, of result_shape(), and valid until the next run.
  // Random numbers follow from `drawn`; by default from the state's seed and the number of the run, counted
  // from 1. UserError for an id outside the range that the function reads.
  const void* run(const std::vector<void*>& batch);
  const void* run(const std::vector<void*>& batch, const DrawnFrom& drawn);
  const Shape& result_shape() const { return results_.front().shape; }
  // Result i of the last run, and the types of all.
  const void* result(size_t i) const;
  const std::vector<BatchField>& results() const { return results_; }

 private:
  void add_results(const std::shared_ptr<Builder>& builder, const std::vector<Tensor>& results,
                   const std::string& line);
  void* scalar(size_t input, const DrawnFrom& drawn);

  State& state_;
  Graph graph_;
  std::vector<IdBound> ids_;
  std::vector<BatchField> fields_, results_;
  int64_t runs_ = 0;
  std::shared_ptr<const KernelSet> kernels_;
  const Target& target_;
  std::unique_ptr<Stream> stream_;
  std::map<size_t, Buffer> batch_, scalars_;  // on the device, by field and by input
  std::vector<Buffer> host_;                  // results, if the host cannot address the device's memory
  std::unique_ptr<Executable> executable_;
};

}  // namespace lockstep::compiler
