// Replaces the CUDA target in builds that did not find CUDA's headers.
#include "compiler/codegen/cuda/cuda_target.h"
#include "core/base/error.h"

namespace lockstep::compiler {

bool cuda_available(std::string* why) {
  if (why) *why = "this program was built without CUDA (its headers were not found then)";
  return false;
}

int cuda_devices() { return 0; }

const Target& cuda_target(int) {
  throw UserError(
      "train.device cuda: this program was built without CUDA, because its headers were not found; install "
      "the CUDA toolkit, run "
      "scripts/build.sh again, or use train.device cpu");
}

}  // namespace lockstep::compiler
