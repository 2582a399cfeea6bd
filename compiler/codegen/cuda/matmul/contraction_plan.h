// From dot and linear to matrix products: which dims are batch, rows, columns and the sum, and their layout
// in memory. Needs no device.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/matmul/gemm.h"
#include "compiler/codegen/library/library.h"

namespace lockstep::compiler::cuda {

// Dims of one role of an operand: sizes and strides in elements, outermost first. Dims of size 1 are omitted,
// and nested dims are merged.
struct OperandRole {
  std::vector<int64_t> sizes, strides;
  int64_t count() const;
  bool operator==(const OperandRole&) const = default;
};
struct Side {
  OperandRole batch, free, contract;
};

struct ContractionPlan {
  int64_t m = 0, n = 0, k = 0, batch = 0;
  bool bias = false;
  DType in = DType::f32, out = DType::f32;
  // True: the product is `gemm`, launched once per entry of `at` (offsets of A, B and D in elements).
  // Otherwise `reason` names the strides that no leading dimension expresses, and the product is a loop over
  // `a` and `b`.
  bool matrix = false;
  std::string reason;
  GemmOptions gemm;
  std::vector<std::array<int64_t, 3>> at;
  Side a, b;
};

// `node` is dot or linear; `out` is dense. The alignment in `gemm` is 16 bytes for dense operands; other
// operands have the alignment that their strides allow.
ContractionPlan plan_contraction(const Node& node, const std::vector<Operand>& in,
                                 const std::vector<Operand>& out, bool tf32);

}  // namespace lockstep::compiler::cuda
