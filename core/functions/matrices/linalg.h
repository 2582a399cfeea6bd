// Matrices: diagonals, norms, powers, factors and solutions, over the last two dims of x; leading dims are a
// batch. Conventions of dtypes, rounding and gradients are those at the head of functions.h. All are
// compositions. Solvers and factorisations are unrolled, one step per row, for matrices of at most
// kLargestMatrix rows; their gradients are written by hand and may be differentiated again.
#pragma once

#include "core/ops/apply.h"

namespace lockstep {

inline constexpr int64_t kLargestMatrix = 64;

// The diagonal `offset` columns right of the main one: numbers [..., m, n] -> [..., k]. UserError when it is
// outside. Gradient: dy there, else 0. As PyTorch's diagonal over the last two dims.
Tensor diagonal(Tensor x, int64_t offset = 0, Here at = Here::current());
// Numbers [..., n] -> [..., n, n] with x on the diagonal, else 0. Gradient: the diagonal of dy. As PyTorch.
Tensor diag_embed(Tensor x, Here at = Here::current());
// [n] -> [n, n] as diag_embed; [m, n] -> its diagonal. As PyTorch.
Tensor diag(Tensor x, Here at = Here::current());
// The sum of the main diagonal: numbers [..., m, n] -> [...]. Gradient: dy on the diagonal. As PyTorch's
// trace, which takes one matrix.
Tensor trace(Tensor x, Here at = Here::current());
// The largest sum of |x| of a column (p = 1) or of a row (p = infinity), the smallest for -1 and -infinity:
// floats [..., m, n] -> [...]. Computed in f32 (f64 for f64) and rounded once. The Frobenius norm is norm(x,
// 2, {-2, -1}). UserError for another p. As PyTorch's linalg.matrix_norm.
Tensor matrix_norm(Tensor x, double p, Here at = Here::current());
// x x ... x, `power` times, by squaring: floats [..., n, n]. A negative power is one of the inverse; 0 gives
// the identity. Products round as matmul. As PyTorch.
Tensor matrix_power(Tensor x, int64_t power, Here at = Here::current());

// Floats, computed in f32 (f64 for f64) and rounded once. UserError unless [..., n, n], n at most
// kLargestMatrix.
// y with y y^T = x and upper part 0, for a symmetric, positive definite x, of which only the lower part is
// read; NaN for another x. Gradient: symmetric. As PyTorch's linalg.cholesky.
Tensor cholesky(Tensor x, Here at = Here::current());
// y with a y = b: a [..., n, n], of which only the lower (`upper`: upper) part is read, b [..., n, m];
// leading dims broadcast. Gradients: a^-T dy for b; for a, minus that times y^T in the part that is read. As
// PyTorch's linalg.solve_triangular.
Tensor solve_triangular(Tensor a, Tensor b, bool upper, Here at = Here::current());
// y with a y = b, by elimination with row exchanges: a [..., n, n], b [..., n, m]; leading dims broadcast. b
// may be one right-hand side, [n], or one for each matrix, [..., n]; y then has its shape. Infinite or NaN
// for a singular a. Gradients as in solve_triangular, for all of a. As PyTorch's linalg.solve.
Tensor solve(Tensor a, Tensor b, Here at = Here::current());
// x^-1; infinite or NaN where x is singular. Gradient: -y^T dy y^T. As PyTorch's linalg.inv.
Tensor inverse(Tensor x, Here at = Here::current());
// The determinant [...], 0 for a singular x. Gradient: dy times the cofactors, finite for a singular x, too;
// the second gradient is right if x has rank n - 1 or n. As PyTorch.
Tensor det(Tensor x, Here at = Here::current());

// The determinant as its sign and the logarithm of its size.
struct SignAndLogDet {
  Tensor sign;    // 1, -1, or 0 where x is singular; no gradient
  Tensor logabs;  // log |det x|, -infinity where x is singular; gradient: dy x^-T
};
// Sign and logarithm of the determinant, for determinants that overflow or underflow. As PyTorch's
// linalg.slogdet.
SignAndLogDet slogdet(Tensor x, Here at = Here::current());

}  // namespace lockstep
