// Fuzz target: a sealed file of the kernel cache. What opens is what was sealed; what is not opens never.
#include "compiler/codegen/cache/kernel_cache.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {

void cache_entry(std::string_view bytes) {
  const std::string entry(bytes);
  std::string isa;
  if (auto code = compiler::cpu::open_sealed(entry, &isa))
    FUZZ_CHECK(compiler::cpu::open_sealed(compiler::cpu::seal(*code, isa)) == code, isa);
  const std::string sealed = compiler::cpu::seal(entry, "avx2");
  FUZZ_CHECK(compiler::cpu::open_sealed(sealed, &isa) == entry && isa == "avx2", isa);
  for (size_t at : {size_t{0}, sealed.size() / 2, sealed.size() - 1}) {
    std::string changed = sealed;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    FUZZ_CHECK(!compiler::cpu::open_sealed(changed), "byte ", at, " of ", sealed.size());
  }
}

}  // namespace lockstep::fuzz
