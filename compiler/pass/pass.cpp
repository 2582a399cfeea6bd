// The words for backends, and the number of threads of options that name none.
#include "compiler/pass/pass.h"

#include <atomic>

#include "core/base/error.h"

namespace lockstep::compiler {

Backend parse_backend(const std::string& word) {
  if (word == "native") return Backend::native;
  if (word == "eager") return Backend::eager;
  if (word == "reference") return Backend::reference;
  throw UserError(str("compile.backend \"", word, "\" is none of native, eager, reference"));
}

namespace {
std::atomic<int> g_threads{1};
}  // namespace
int default_threads() { return g_threads; }
void set_default_threads(int threads) { g_threads = threads; }

}  // namespace lockstep::compiler
