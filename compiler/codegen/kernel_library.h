// Compiled kernels: the system compiler turns source into machine code, which is cached on disk by content
// and loaded from memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/kernel.h"

namespace lockstep::compiler {

// Instruction sets of generated kernels. All give the same bits.
enum class Isa { avx512, avx2, plain };
Isa probe_isa();  // the best of this machine
// UserError unless the word is an instruction set of some machine, "auto" or "".
void check_isa_word(const std::string& word);
// "auto" probes. UserError for an unknown word, or for a set that this machine lacks.
Isa parse_isa(const std::string& word);
std::string_view name(Isa isa);
std::string compile_flags(Isa isa);  // as given to the compiler

struct KernelOptions {
  int threads = 2;          // parallel compilers
  std::string isa{};        // "" = LOCKSTEP_ISA
  std::string cache_dir{};  // "" = LOCKSTEP_CACHE, else the default of codegen/cpu/cache.h
};

// A loaded shared object. Copies share it; the last copy unloads it.
class KernelLibrary {
 public:
  KernelLibrary() = default;
  // Loads the bytes of `binary()`, from this rank or another. UserError if they were compiled for an
  // instruction set that this machine lacks; InternalError if they are damaged.
  static KernelLibrary from_binary(const std::string& bytes);

  KernelFn find(const std::string& name) const;  // InternalError when there is no such kernel
  MultiTensorFn find_multi_tensor(const std::string& name) const;
  const std::string& binary() const;  // machine code with its checksum, for a file or a broadcast
  std::string hash() const;           // of the machine code: part of the numerics certificate
  bool from_cache() const { return from_cache_; }
  explicit operator bool() const { return loaded_ != nullptr; }

 private:
  friend KernelLibrary compile_kernels(std::vector<KernelSource>, const KernelOptions&);
  struct Loaded;
  std::shared_ptr<const Loaded> loaded_;
  bool from_cache_ = false;
};

// Compiles each kernel once (equal names are one kernel) or takes the result from the cache. Safe with any
// number of concurrent callers, and on a folder that is read-only, full, damaged or absent (with a warning;
// kernels are then in memory only).
// The name of an entry is a hash of sources, flags, compiler version and instruction set. If the compiler is
// gone, the version that last filled the cache is used, so cached kernels need no compiler. UserError with
// the compiler's first lines if it is needed and missing, or fails.
KernelLibrary compile_kernels(std::vector<KernelSource> sources, const KernelOptions& options = {});

}  // namespace lockstep::compiler
