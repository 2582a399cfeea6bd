// Running sums and sorting along one dim. Nothing is quadratic: a running sum over n elements takes about
// log2(n) passes, a sort log2(n)^2 / 2.
#pragma once

#include "core/ops/apply.h"

namespace lockstep {

// Element i is the sum (product) of elements 0 ... i of numbers along `dim`. bf16 and f16 in f32, rounded
// once; integers wrap (PyTorch widens them to i64). The order of additions follows from the size: shifted
// copies are added, by 1, 2, 4, ... places. Gradient: the same sums from the other end; of a product exact
// with zeros.
Tensor cumsum(Tensor x, int dim, Here at = Here::current());
Tensor cumprod(Tensor x, int dim, Here at = Here::current());

struct ValuesAndIndices {
  Tensor values;   // x's dtype; their gradient goes to the elements chosen
  Tensor indices;  // i32
};
// The largest (smallest) element along `dim` and its index; of equal elements the first. A NaN wins. As
// PyTorch's max(dim), which gives i64.
ValuesAndIndices max_with_index(Tensor x, int dim, bool keep = false, Here at = Here::current());
ValuesAndIndices min_with_index(Tensor x, int dim, bool keep = false, Here at = Here::current());
// Sorted along `dim`: f32, bf16, f16 and integers of at most 32 bits. Equal elements keep their order (0
// equals -0); NaN counts as the largest. It is a bitonic network over pairs of element and index, packed into
// one integer. As PyTorch's sort(stable=True). Elements along `dim`: fewer than 2^31.
ValuesAndIndices sort(Tensor x, int dim = -1, bool descending = false, Here at = Here::current());
Tensor argsort(Tensor x, int dim = -1, bool descending = false, Here at = Here::current());
// The k largest (smallest) along `dim`, in order; of equal elements the first. As PyTorch, which chooses any
// of them.
ValuesAndIndices topk(Tensor x, int64_t k, int dim = -1, bool largest = true, Here at = Here::current());
// The middle element along `dim`, the lower one of two; NaN if any element is NaN. As PyTorch.
ValuesAndIndices median(Tensor x, int dim = -1, bool keep = false, Here at = Here::current());

}  // namespace lockstep
