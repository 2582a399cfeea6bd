// Reductions over `dims`, each named once. These dims are dropped or, with `keep`, become 1. Without the
// argument all dims are reduced; an empty list gives x itself. The order of additions follows from the sizes;
// it does not depend on threads, data ranks or fusion.
#pragma once

#include "core/ops/apply.h"

namespace lockstep {

// Sum of numbers, in x's dtype; 0 of nothing. bf16 and f16 are added in f32 and rounded once; integers wrap
// (PyTorch and NumPy widen them to i64: convert x first). Gradient: dy along the dims.
Tensor sum(Tensor x, std::vector<int64_t> dims, bool keep = false, Here at = Here::current());
Tensor sum(TensorAt x);
// Product, as sum; 1 of nothing. Gradient: dy times the product of the others, exact with zeros, too.
Tensor prod(Tensor x, std::vector<int64_t> dims, bool keep = false, Here at = Here::current());
Tensor prod(TensorAt x);
// Largest element, of any dtype (bool: any). A NaN wins. UserError over a dim of size 0. Gradient: dy shared
// equally by the elements that tie, as PyTorch's amax; none to a NaN.
Tensor max(Tensor x, std::vector<int64_t> dims, bool keep = false, Here at = Here::current());
Tensor max(TensorAt x);
// Smallest element (bool: all); the rest as in max.
Tensor min(Tensor x, std::vector<int64_t> dims, bool keep = false, Here at = Here::current());
Tensor min(TensorAt x);
// Whether any element, whether every element is not 0: bool, of any dtype. No gradient. As PyTorch.
Tensor any(Tensor x, std::vector<int64_t> dims, bool keep = false, Here at = Here::current());
Tensor any(TensorAt x);
Tensor all(Tensor x, std::vector<int64_t> dims, bool keep = false, Here at = Here::current());
Tensor all(TensorAt x);
// The index of the largest (smallest) element along `dim`: i32; of equal elements the first. A NaN wins. No
// gradient.
Tensor argmax(Tensor x, int dim, bool keep = false, Here at = Here::current());
Tensor argmin(Tensor x, int dim, bool keep = false, Here at = Here::current());

// Statistics of floats, computed in f32 (f64 for f64) and rounded once.
// Mean: the sum over the count; NaN of nothing. Gradient: dy / count along the dims. As PyTorch.
Tensor mean(Tensor x, std::vector<int64_t> dims, bool keep = false, Here at = Here::current());
Tensor mean(TensorAt x);
// sum((x - mean)^2) / (count - correction), and its root. The gradient of stddev is 0 where it is 0. As
// PyTorch's var and std (a function std would hide the namespace).
Tensor var(Tensor x, std::vector<int64_t> dims, double correction = 1, bool keep = false,
           Here at = Here::current());
Tensor var(TensorAt x);
Tensor stddev(Tensor x, std::vector<int64_t> dims, double correction = 1, bool keep = false,
              Here at = Here::current());
Tensor stddev(TensorAt x);
// (sum |x|^p)^(1 / p); p = infinity is the largest, -infinity the smallest |x|, and 0 counts what is not 0.
// The gradient is 0 where the norm is 0, and of an element that is 0. As PyTorch's linalg.vector_norm.
Tensor norm(Tensor x, double p, std::vector<int64_t> dims, bool keep = false, Here at = Here::current());
Tensor norm(Tensor x, double p, Here at = Here::current());
// log(sum(e^x)) without overflow: -infinity of a row of -infinity. Gradient: dy softmax(x). As PyTorch.
Tensor logsumexp(Tensor x, std::vector<int64_t> dims, bool keep = false, Here at = Here::current());

}  // namespace lockstep
