// Instruction sets: detection on this machine, and the compiler flags for each.
#include "compiler/codegen/kernel_library.h"
#include "core/base/env.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
bool has(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("fma");
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::plain:
      return true;
  }
#endif
  return isa == Isa::plain;
}
}  // namespace

Isa probe_isa() { return has(Isa::avx512) ? Isa::avx512 : has(Isa::avx2) ? Isa::avx2 : Isa::plain; }

std::string_view name(Isa isa) { return isa == Isa::avx512 ? "avx512" : isa == Isa::avx2 ? "avx2" : "plain"; }

void check_isa_word(const std::string& word) {
  if (word.empty() || word == "auto") return;
  for (Isa isa : {Isa::avx512, Isa::avx2, Isa::plain})
    if (word == name(isa)) return;
  throw UserError(str("unknown instruction set \"", shortened(printable(word), 40),
                      "\" in LOCKSTEP_ISA; known: auto, avx512, avx2, plain"));
}

Isa parse_isa(const std::string& word) {
  check_isa_word(word);
  if (word.empty() || word == "auto") return probe_isa();
  for (Isa isa : {Isa::avx512, Isa::avx2, Isa::plain})
    if (word == name(isa)) {
      if (!has(isa))
        throw UserError(str("instruction set \"", word, "\" is not on this machine, which has \"",
                            name(probe_isa()), "\"; unset LOCKSTEP_ISA"));
      return isa;
    }
  throw InternalError(str("instruction set ", word));  // was checked before
}

// The bits do not depend on these: no contraction, no fast math, no flush to zero; integers wrap.
std::string compile_flags(Isa isa) {
  std::string flags =
      "-x c++ -std=c++20 -O3 -w -fPIC -fopenmp -ffp-contract=off -fno-math-errno -fno-trapping-math "
      "-fwrapv -fno-exceptions -fno-rtti -fno-plt "
      "-fno-asynchronous-unwind-tables";
#if defined(__x86_64__)
  flags += isa == Isa::avx512 ? " -march=x86-64-v4 -mtune=icelake-server -mprefer-vector-width=512"
           : isa == Isa::avx2 ? " -march=x86-64-v3"
                              : " -march=x86-64";
#else
  (void)isa;
#endif
  return flags;
}

}  // namespace lockstep::compiler
