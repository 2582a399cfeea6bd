// A contraction as a batched matrix product: the dims of each operand by their role, and the layout of a
// matrix.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/codegen/library/library.h"

namespace lockstep::compiler {

// Dims (size, stride) of one role.
struct DimsOfRole {
  std::vector<int64_t> sizes, strides;
  int64_t count() const;
  // The stride if the dims nest into one; else nullopt.
  std::optional<int64_t> stride() const;
  int64_t offset(int64_t flat) const;  // of the flat index
};
struct OperandSide {
  DimsOfRole batch, free, contract;
};
OperandSide side_of(const Operand& operand, const std::vector<int64_t>& batch,
                    const std::vector<int64_t>& contract);

// The layout of a matrix [rows, cols] for a product: {transposed, leading dim}, if one of its dims is dense.
struct MatrixLie {
  bool transposed;
  int64_t ld;
};
std::optional<MatrixLie> lie_of(const DimsOfRole& rows, const DimsOfRole& cols);

// Fixed blocks along the longer side of m x n, each for one thread. They depend only on the shape.
struct ProductBlocks {
  bool along_m;
  int64_t step, count;
};
ProductBlocks product_blocks(int64_t batch, int64_t m, int64_t n, int64_t k, double least_work);

// a [batch, free, contract] times b: [batch, free of a, free of b], dense, plus the bias [free of b].
std::unique_ptr<LibraryCall> make_product(const OperandSide& a, const OperandSide& b, bool bias, DType dtype);
// The product of bf16 operands with the processor's own instructions: sums in f32, the bias, then one
// rounding. Null if the processor has no such instructions, or if the product is too small to gain.
std::unique_ptr<LibraryCall> make_bf16_product(const OperandSide& a, const OperandSide& b, bool bias);

}  // namespace lockstep::compiler
