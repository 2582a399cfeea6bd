// A compiled function without a loss: tokens in, logits out. For generation and for tests; one rank, no
// communication.
#pragma once

#include <memory>

#include "compiler/program/id_bounds.h"
#include "compiler/runtime/executable.h"
#include "compiler/trace/trace.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

class Forward {
 public:
  // Traces `function` on one batch of these types and compiles it for the state's rank. The state is
  // materialised or loaded before run(). UserError on a mesh of several ranks.
  Forward(State& state, const std::vector<BatchField>& batch,
          const std::function<Tensor(const std::vector<Tensor>&)>& function, const CompileOptions& options,
          Here at = Here::current());
  ~Forward();
  Forward(Forward&&) noexcept;
  // One pointer per batch field; the result is dense, of result_shape(), valid until the next run. UserError
  // for an id outside what the function reads by it.
  const void* run(const std::vector<void*>& batch);
  const Shape& result_shape() const { return shape_; }

 private:
  State& state_;
  Graph graph_;
  std::vector<IdBound> ids_;
  Shape shape_;
  std::shared_ptr<const KernelSet> kernels_;
  const Target& target_;
  std::unique_ptr<Stream> stream_;
  std::vector<Buffer> batch_;  // on the device
  Buffer result_;              // on the host
  std::unique_ptr<Executable> executable_;
};

}  // namespace lockstep::compiler
