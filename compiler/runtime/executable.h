// Executable: one graph made ready to run by itself: a block, its memory and its kernels. A step's graphs are
// blocks of its program.
#pragma once

#include <memory>
#include <vector>

#include "compiler/runtime/block_runner.h"

namespace lockstep::compiler {

struct KernelSource;

class Executable {
 public:
  // A lowered graph without collectives (reference backend: any). UserError where memory is out.
  Executable(Graph graph, std::shared_ptr<const KernelSet> kernels, const CompileOptions& options);
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  // Enqueues the graph. inputs: one pointer of the device per graph input, dense.
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

// Kernels that the fused nodes of a graph need, one for each body.
std::vector<KernelSource> kernels_of(const Graph& graph, const CompileOptions& options);

}  // namespace lockstep::compiler
