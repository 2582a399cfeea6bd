// oneDNN's primitives: the engine, their execution on the caller's memory, and reorders between layouts.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>

namespace lockstep::compiler {

const dnnl::engine& onednn_engine();
// Whether the processor multiplies bf16, so that oneDNN need not widen it.
bool multiplies_bf16();
// Bytes up to the next multiple of 256, so that what lies behind is aligned.
int64_t aligned_bytes(size_t bytes);

// While it lives, primitives of this thread are made for, and run by, as many threads: they are part of
// oneDNN's plan. No bit of a reorder depends on them.
class ForThreads {
 public:
  explicit ForThreads(int threads);
  ~ForThreads();
  ForThreads(const ForThreads&) = delete;

 private:
  int before_;
};

// An argument of a primitive; none where `at` is null.
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
