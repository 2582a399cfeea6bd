// Executable: one graph with its block, memory and kernels, ready to run alone. A step's graphs are instead
// blocks of its program.
#pragma once

#include <memory>
#include <vector>

#include "compiler/runtime/block_runner.h"

namespace lockstep::compiler {

struct KernelSource;

class Executable {
 public:
  // A lowered graph without collectives (reference backend: any graph). UserError if there is not enough
  // memory.
  Executable(Graph graph, std::shared_ptr<const KernelSet> kernels, const CompileOptions& options);
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  // Enqueues the graph. `inputs`: one device pointer per graph input, dense.
  void run(const std::vector<void*>& inputs, Stream& stream);
  const void* output(size_t index) const;  // dense; valid until the next run
  const ProgramBlock& block() const { return block_; }

 private:
  ProgramBlock block_;
  CompileOptions options_;
  BlockRunner runner_;
  Buffer arena_;
  BlockRunner::Memory memory_;
};

// The kernels of a graph's fused nodes, one for each body.
std::vector<KernelSource> kernels_of(const Graph& graph, const CompileOptions& options);

}  // namespace lockstep::compiler
