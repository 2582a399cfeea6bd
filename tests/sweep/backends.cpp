// Native and eager, on the CPU and on CUDA.
#include "tests/sweep/backends.h"

#include <iostream>

#include "compiler/codegen/cuda/cuda_target.h"

namespace lockstep::sweep {

using namespace compiler;

std::vector<sweep::Backend> backends() {
  std::vector<sweep::Backend> out{
      compiled_backend("native", lockstep::compiler::Backend::native, cpu_target()),
      compiled_backend("eager", lockstep::compiler::Backend::eager, cpu_target())};
  std::string why;
  if (cuda_available(&why)) {
    out.push_back(compiled_backend("cuda native", lockstep::compiler::Backend::native, cuda_target(0)));
    out.push_back(compiled_backend("cuda eager", lockstep::compiler::Backend::eager, cuda_target(0)));
  } else {
    std::cout << "left out: CUDA: " << why << "\n";
  }
  return out;
}

}  // namespace lockstep::sweep
