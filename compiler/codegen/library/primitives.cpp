// Runs oneDNN's primitives on the calling thread's stream with the caller's memory.
#include "compiler/codegen/library/primitives.h"

#include <omp.h>

#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep::compiler {

const dnnl::engine& onednn_engine() {
  static const dnnl::engine one(dnnl::engine::kind::cpu, 0);
  return one;
}

bool multiplies_bf16() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::avx512_core_bf16:
    case dnnl::cpu_isa::avx512_core_amx:
      return true;
    default:
      return false;
  }
}

int64_t aligned_bytes(size_t bytes) { return static_cast<int64_t>((bytes + 255) / 256 * 256); }

ForThreads::ForThreads(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
ForThreads::~ForThreads() { omp_set_num_threads(before_); }

void execute(const dnnl::primitive& primitive, std::initializer_list<BoundMemory> bound) {
  thread_local dnnl::stream stream(onednn_engine());
  std::unordered_map<int, dnnl::memory> args;
  for (const BoundMemory& one : bound)
    if (one.at) args.emplace(one.arg, dnnl::memory(one.desc, onednn_engine(), one.at));
  primitive.execute(stream, args);
}

Reorder::Reorder(dnnl::memory::desc from, dnnl::memory::desc to)
    : from_(std::move(from)), to_(std::move(to)) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::reorder::primitive_desc desc(onednn_engine(), from_, onednn_engine(), to_, attr);
  scratchpad_ = desc.scratchpad_desc();
  primitive_ = dnnl::reorder(desc);
}
void Reorder::run(const void* from, void* to) const {
  std::vector<char> scratch(scratchpad_.get_size());
  execute(primitive_, {{DNNL_ARG_FROM, from_, const_cast<void*>(from)},
                       {DNNL_ARG_TO, to_, to},
                       {DNNL_ARG_SCRATCHPAD, scratchpad_, scratch.empty() ? nullptr : scratch.data()}});
}

}  // namespace lockstep::compiler
