// Updates: optimizer nodes collected and run together, one multi-tensor launch per op.
#pragma once

#include <memory>
#include <vector>

#include "compiler/pass.h"
#include "compiler/schedule/phases.h"
#include "core/device/stream.h"

namespace lockstep {

struct KernelSource;
class KernelSet;

// One update node on this rank's rows: `count` elements per tensor. Outputs may be the storage of inputs.
struct UpdateCall {
  const Graph* graph = nullptr;
  const Node* node = nullptr;
  int64_t count = 0;
  std::vector<void*> inputs, outputs;
};

class UpdateBatcher {
 public:
  virtual ~UpdateBatcher() = default;
  virtual void add(const UpdateCall& call) = 0;  // may run later, at the latest in flush
  virtual void flush(Stream& stream) = 0;
};
// By generated kernels, or by the reference evaluator when `kernels` is null.
std::unique_ptr<UpdateBatcher> make_update_batcher(std::shared_ptr<const KernelSet> kernels, const CompileOptions& options);

// The kernels of the updates of a program, for compilation; and their names for the certificate.
std::vector<KernelSource> update_kernels(const Phases& phases, const CompileOptions& options);

}  // namespace lockstep
