// The evaluator's arrays: a tensor as doubles (floats) or int64 (integers and bool). And the table of its
// formulas.
#pragma once

#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/reference/host_tensor.h"
#include "core/base/error.h"
#include "core/ir/graph.h"

namespace lockstep::compiler::reference {

// `f` has the elements of a float tensor. `i` has those of an integer or bool tensor (u64 as its 64 bits),
// and the bits of a float8. The other one is empty.
struct DenseArray {
  DType dtype = DType::f64;
  Shape shape;
  std::vector<double> f;
  std::vector<int64_t> i;
  bool real() const { return is_float(dtype); }
  int64_t size() const { return numel(shape); }
  int64_t dim(int d) const { return shape[d < 0 ? d + static_cast<int>(shape.size()) : d]; }
};

DenseArray make(DType dtype, Shape shape);  // zeros
DenseArray load(const HostTensor& tensor);
// Rounds. `dtype` is the array's own, or f64 for a float array.
HostTensor store(const DenseArray& array, DType dtype);

// Dtype of statistics (means, log-sum-exp, losses) of a tensor of this dtype: at least f32, f64 for f64.
inline DType statistics_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// The last dim as columns, all others as rows.
struct Rows {
  int64_t rows = 1, columns = 1;
};
inline Rows rows_of(const Shape& shape) {
  Rows made;
  for (size_t d = 0; d + 1 < shape.size(); ++d) made.rows *= shape[d];
  if (!shape.empty()) made.columns = shape.back();
  return made;
}

struct Call {
  const Node& node;
  const std::vector<DenseArray>& in;
  const Attrs& attrs() const { return node.attrs; }
};
using Formula = std::vector<DenseArray> (*)(const Call&);
struct FormulaRow {
  OpId op;
  Formula formula;
};

// One table per family.
std::span<const FormulaRow> pointwise_formulas();
std::span<const FormulaRow> creation_formulas();  // creation, random
std::span<const FormulaRow> view_formulas();      // view, index
std::span<const FormulaRow> reduce_formulas();    // reduce, dot
std::span<const FormulaRow> composite_formulas();
std::span<const FormulaRow> attention_formulas();    // rope, sdpa
std::span<const FormulaRow> convolution_formulas();  // convolution, windows, pooling
std::span<const FormulaRow> float8_formulas();
// Bits of the nearest number; values beyond the largest become the largest.
uint8_t encode_float8(DType dtype, float value);
std::span<const FormulaRow> update_formulas();  // update, norm and clip, lanes

// The elements in another order: out[index] = in[offset + sum index[d] * strides[d]], row-major over `shape`.
DenseArray gather(const DenseArray& in, const Shape& shape, const std::vector<int64_t>& strides,
                  int64_t offset = 0);
// `in` with its dims in this order, dense.
DenseArray permuted(const DenseArray& in, const std::vector<int64_t>& order);

// Applies `write` to the vector with the elements: f or i.
template <class F>
void with_elements(DenseArray& array, F&& write) {
  if (array.real())
    write(array.f);
  else
    write(array.i);
}

}  // namespace lockstep::compiler::reference
