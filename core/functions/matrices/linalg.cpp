// Diagonals, norms and powers of matrices.
#include "core/functions/matrices/linalg.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/functions/functions.h"
#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

namespace {
void need_matrix(std::string_view name, const Tensor& x, Here at) {
  need(name, {x}, at);
  if (x.ndim() < 2) refuse(name, {x}, at, str("input is ", x.text(), ", needs 2 or more dims"));
}
}  // namespace

Tensor diagonal(Tensor x, int64_t offset, Here at) {
  need_matrix("diagonal", x, at);
  const int64_t rows = x.size(-2), columns = x.size(-1);
  if (offset >= columns || -offset >= rows)
    refuse("diagonal", {x}, at,
           str("offset ", offset, " is outside ", x.text(), ": from ", 1 - rows, " to ", columns - 1));
  InFunction line(x, at);
  const int64_t first = std::max<int64_t>(offset, 0),
                count = std::min(columns - first, rows + std::min<int64_t>(offset, 0));
  const Tensor there = iota_like(x, -2) + static_cast<double>(offset) == iota_like(x, -1);
  return slice(sum(where(there, x, full_like(x, 0)), {-2}), -1, first, first + count);
}
Tensor diag_embed(Tensor x, Here at) {
  need("diag_embed", {x}, at);
  if (x.ndim() < 1) refuse("diag_embed", {x}, at, str("input is ", x.text(), ", needs 1 or more dims"));
  InFunction line(x, at);
  Shape shape = x.shape();
  shape.push_back(x.size(-1));
  const Tensor wide = broadcast_to(unsqueeze(x, -2), shape);
  return where(iota_like(wide, -2) == iota_like(wide, -1), wide, full_like(wide, 0));
}
Tensor diag(Tensor x, Here at) {
  need("diag", {x}, at);
  if (x.ndim() != 1 && x.ndim() != 2)
    refuse("diag", {x}, at,
           str("input is ", x.text(), ", needs 1 or 2 dims; diag_embed and diagonal take a batch"));
  return x.ndim() == 1 ? diag_embed(x, at) : diagonal(x, 0, at);
}
Tensor trace(Tensor x, Here at) {
  need_matrix("trace", x, at);
  InFunction line(x, at);
  return sum(diagonal(x), {-1});
}

Tensor matrix_norm(Tensor x, double p, Here at) {
  need_matrix("matrix_norm", x, at);
  if (std::abs(p) != 1 && !std::isinf(p))
    refuse("matrix_norm", {x}, at,
           str("p is ", number_text(p),
               ", needs 1, -1, infinity or -infinity; the Frobenius norm is norm(x, 2, {-2, -1})"));
  return rounded_once("matrix_norm", x, at, [&](const Tensor& v) {
    const Tensor sums = sum(abs(v), {std::isinf(p) ? -1 : -2});
    return p > 0 ? max(sums, {-1}) : min(sums, {-1});
  });
}

Tensor matrix_power(Tensor x, int64_t power, Here at) {
  need_matrix("matrix_power", x, at);
  if (x.size(-1) != x.size(-2))
    refuse("matrix_power", {x}, at, str("input is ", x.text(), ", needs as many rows as columns"));
  InFunction line(x, at);
  if (power == 0) return broadcast_to(eye(x, x.size(-1), -1, x.dtype()), x.shape());
  Tensor square = power < 0 ? inverse(x) : x, out;
  for (auto left = static_cast<uint64_t>(std::abs(power)); left; left >>= 1) {
    if (left & 1) out = out.defined() ? matmul(out, square) : square;
    if (left > 1) square = matmul(square, square);
  }
  return out;
}

}  // namespace lockstep
