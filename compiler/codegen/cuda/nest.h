// The kernels of a planned body as CUDA C++.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/loops/plan.h"

namespace lockstep::cuda {

struct Function {
  std::string name;
  int64_t grid = 0;
  int block = 0;
  int shared = 0;  // bytes of dynamic shared memory
};
struct KernelText {
  std::string text;
  std::vector<Function> functions;  // in the order in which they run; none where there is nothing to do
  std::vector<int> aligned;         // per argument: bytes that its address must be a multiple of
  size_t workspace = 0;
};
KernelText kernel_text(const Graph& body, const codegen::Plan& plan, const std::string& name);

// "int" where every index of the plan fits it, else "long".
std::string index_type(const Graph& body, const codegen::Plan& plan);

}  // namespace lockstep::cuda
