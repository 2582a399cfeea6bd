// oneDNN's primitives: the engine, execution on the caller's memory, and reorders between layouts.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>

namespace lockstep::compiler {

const dnnl::engine& onednn_engine();
// Whether the processor has bf16 instructions, so that oneDNN need not widen bf16.
bool multiplies_bf16();
// Bytes rounded up to a multiple of 256, so that the next buffer is aligned.
int64_t aligned_bytes(size_t bytes);

// While it exists, primitives of this thread are made for, and run by, this number of threads, which is part
// of oneDNN's plan. Bits of a reorder do not depend on it.
class ForThreads {
 public:
  explicit ForThreads(int threads);
  ~ForThreads();
  ForThreads(const ForThreads&) = delete;

 private:
  int before_;
};

// An argument of a primitive; none if `at` is null.
struct BoundMemory {
  int arg;
  const dnnl::memory::desc& desc;
  void* at;
};
void execute(const dnnl::primitive& primitive, std::initializer_list<BoundMemory> bound);

// Copies between two layouts of one tensor, which may be the same.
class Reorder {
 public:
  Reorder() = default;
  Reorder(dnnl::memory::desc from, dnnl::memory::desc to);
  void run(const void* from, void* to) const;

 private:
  dnnl::memory::desc from_, to_, scratchpad_;
  dnnl::primitive primitive_;
};

}  // namespace lockstep::compiler
