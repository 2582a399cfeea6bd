// Compiled kernels: source to machine code by the system compiler, cached on disk by content, loaded from
// memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/kernel.h"

namespace lockstep::compiler {

// Instruction sets of generated kernels. All give the same bits.
enum class Isa { avx512, avx2, plain };
Isa probe_isa();  // the best of this machine
// UserError for a word that is no instruction set of any machine, nor "auto" or "".
void check_isa_word(const std::string& word);
Isa parse_isa(
    const std::string& word);  // "auto" probes; UserError for an unknown word or a set this machine lacks
std::string_view name(Isa isa);
std::string compile_flags(Isa isa);  // as given to the compiler

struct KernelOptions {
  int threads = 2;          // compilers at a time
  std::string isa{};        // "" = LOCKSTEP_ISA
  std::string cache_dir{};  // "" = LOCKSTEP_CACHE, else the default of codegen/cpu/cache.h
};

// A loaded shared object. Copies share it; it is unloaded with the last copy.
class KernelLibrary {
 public:
  KernelLibrary() = default;
  // Loads the bytes of `binary()`, on this rank or another. UserError when it was compiled for an instruction
  // set this machine lacks; InternalError when the bytes are damaged.
  static KernelLibrary from_binary(const std::string& bytes);

  KernelFn find(const std::string& name) const;  // InternalError when there is no such kernel
  MultiTensorFn find_multi_tensor(const std::string& name) const;
  const std::string& binary() const;  // machine code with its checksum, for a file or a broadcast
  std::string hash() const;           // of the machine code: enters the numerics certificate
  bool from_cache() const { return from_cache_; }
  explicit operator bool() const { return loaded_ != nullptr; }

 private:
  friend KernelLibrary compile_kernels(std::vector<KernelSource>, const KernelOptions&);
  struct Loaded;
  std::shared_ptr<const Loaded> loaded_;
  bool from_cache_ = false;
};

// Compiles each kernel once (equal names are one kernel) or takes the result from the cache. Safe with any
// number of concurrent callers, on a folder that is read-only, full, damaged or absent (with a warning,
// kernels then live in memory only). An entry's name is made of sources, flags, compiler version and
// instruction set; where the compiler is gone, of the version that last filled the cache, so that kernels
// that are all there need none. UserError with the compiler's first lines when it is needed and missing, or
// fails.
KernelLibrary compile_kernels(std::vector<KernelSource> sources, const KernelOptions& options = {});

}  // namespace lockstep::compiler
