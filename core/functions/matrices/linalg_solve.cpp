// Elimination and factorisations, one step per row, and functions built on them.
#include "core/functions/functions.h"
#include "core/functions/matrices/linalg.h"
#include "core/ops/checks.h"
#include "core/ops/rules.h"

namespace lockstep {

using namespace functions;
using rules::wide;

namespace {
Tensor turned(const Tensor& x) { return transpose(x, -2, -1); }
Tensor row_of(const Tensor& x, int64_t k) { return slice(x, -2, k, k + 1); }
Tensor column_of(const Tensor& x, int64_t k) { return slice(x, -1, k, k + 1); }
// Numbers of rows, [n, 1].
Tensor row_numbers(const Tensor& x) { return unsqueeze(arange(x, 0, static_cast<double>(x.size(-2))), 1); }
Tensor zero_of(const Tensor& x) { return full_like(x, 0); }

void need_square(std::string_view name, const Tensor& x, Here at) {
  need_floats(name, {x}, at);
  if (x.ndim() < 2 || x.size(-1) != x.size(-2) || x.size(-1) < 1)
    refuse(name, {x}, at, str("input is ", x.text(), ", needs as many rows as columns: [..., n, n]"));
  if (x.size(-1) > kLargestMatrix)
    refuse(name, {x}, at,
           str("input is ", x.text(), ", and at most ", kLargestMatrix,
               " rows are taken: the steps of each row are written out"));
}

struct Eliminated {
  Tensor solution;             // of b
  std::vector<Tensor> pivots;  // [..., 1, 1] each
  Tensor sign;                 // of the exchanges of rows, [..., 1, 1]
};
// Gauss-Jordan elimination of a [..., n, n] with right-hand sides b [..., n, m] and partial pivoting (the
// largest element of each column). An empty `b` computes only the pivots and divides by none that is 0.
Eliminated eliminate(const Tensor& a, const Tensor& b) {
  Eliminated out;
  Tensor m = b.defined() ? concat({a, b}, -1) : a;
  const Tensor rows = row_numbers(a);
  for (int64_t k = 0; k < a.size(-1); ++k) {
    const auto at = static_cast<double>(k);
    const Tensor size = masked_fill(abs(column_of(m, k)), rows < at, -1);
    const Tensor chosen = argmax(size, -2, true);
    const Tensor is_chosen = rows == chosen;
    const Tensor pivot_row = sum(where(is_chosen, m, zero_of(m)), {-2}, true);
    const Tensor pivot = column_of(pivot_row, k), exchanged = where(is_chosen, row_of(m, k), m);
    const Tensor scaled = pivot_row / (b.defined() ? pivot : masked_fill(pivot, pivot == 0.0, 1));
    m = where(rows == at, scaled, exchanged - column_of(exchanged, k) * scaled);
    out.pivots.push_back(pivot);
    const Tensor one = full_like(pivot, 1), turn = where(chosen == at, one, -one);
    out.sign = out.sign.defined() ? out.sign * turn : turn;
  }
  if (b.defined()) out.solution = slice(m, -1, a.size(-1), m.size(-1));
  return out;
}
Tensor inverse_of(const Tensor& x) {
  return eliminate(x, broadcast_to(eye(x, x.size(-1), -1, x.dtype()), x.shape())).solution;
}

// The derivative of det, finite for a singular a: elimination with the identity and complete pivoting. So
// only the last pivot can be 0 unless all cofactors are 0, and nothing is divided by it.
Tensor cofactors(const Tensor& a) {
  const int64_t n = a.size(-1);
  const Tensor rows = row_numbers(a), columns = turned(rows);
  Shape flat = a.shape();
  flat.end()[-2] = 1, flat.back() = n * n;
  Tensor m = concat({a, broadcast_to(eye(a, n, -1, a.dtype()), a.shape())}, -1), done, scale;
  for (int64_t k = 0; k < n; ++k) {
    const Tensor left = slice(m, -1, 0, n);
    const Tensor size = k == 0 ? abs(left) : masked_fill(abs(left), done || turned(done), -1);
    const Tensor place = argmax(reshape(size, flat), -1, true), row = place / n, column = place % n;
    const auto picked = [&](const Tensor& x, const Tensor& here, int64_t dim) {
      return sum(where(here, x, zero_of(x)), {dim}, true);
    };
    const Tensor is_chosen = rows == row, is_target = rows == column, is_column = columns == column;
    const Tensor pivot_row = picked(m, is_chosen, -2);
    const Tensor pivot = picked(slice(pivot_row, -1, 0, n), is_column, -1);
    const Tensor exchanged = where(is_chosen, picked(m, is_target, -2), m);
    const Tensor factors = picked(slice(exchanged, -1, 0, n), is_column, -1);
    const Tensor one = full_like(pivot, 1), turn = where(row == column, one, -one);
    if (k + 1 < n) {
      const Tensor scaled = pivot_row / masked_fill(pivot, pivot == 0.0, 1);
      m = where(is_target, scaled, exchanged - factors * scaled);
      done = done.defined() ? done || is_target : is_target;
    } else {
      m = where(is_target, pivot_row, exchanged * pivot - factors * pivot_row);
    }
    const Tensor by = k + 1 < n ? turn * pivot : turn;
    scale = scale.defined() ? scale * by : by;
  }
  return turned(scale * slice(m, -1, n, 2 * n));
}

Tensor triangular(const Tensor& a, const Tensor& b, bool upper) {
  const int64_t n = a.size(-1);
  std::vector<Tensor> found(n);
  Tensor rest = b;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t k = upper ? n - 1 - i : i;
    const Tensor column = column_of(a, k), y = row_of(rest, k) / row_of(column, k);
    found[k] = y;
    if (i + 1 < n) rest = rest - column * y;
  }
  return concat(found, -2);
}

Tensor factor(const Tensor& x) {
  const Tensor rows = row_numbers(x);
  std::vector<Tensor> columns;
  Tensor rest = x;
  for (int64_t k = 0; k < x.size(-1); ++k) {
    const auto at = static_cast<double>(k);
    const Tensor below = column_of(rest, k), root = sqrt(row_of(below, k));
    const Tensor column = masked_fill(where(rows == at, root, below / root), rows < at, 0);
    columns.push_back(column);
    if (k + 1 < x.size(-1)) rest = rest - column * turned(column);
  }
  return concat(columns, -1);
}

// [..., n, n] and [..., n, m] with the same leading dims, in f32 (f64 for f64).
std::pair<Tensor, Tensor> equation(std::string_view name, const Tensor& a, const Tensor& b, Here at) {
  need_square(name, a, at);
  need_floats(name, {a, b}, at);
  Shape lhs = a.shape(), leading;
  lhs.resize(lhs.size() - 2);
  const auto misfit = [&] {
    refuse(name, {a}, at, str("lhs ", a.text(), ", rhs ", b.text(), ": need [..., n, n] and [..., n, m]"));
  };
  if (b.ndim() < 2 || b.size(-2) != a.size(-1)) misfit();
  Shape rhs = b.shape();
  rhs.resize(rhs.size() - 2);
  if (!broadcast_shape(lhs, rhs, leading)) misfit();
  const auto led = [&](const Tensor& x) {
    Shape shape = leading;
    shape.insert(shape.end(), {x.size(-2), x.size(-1)});
    return broadcast_to(wide(x), shape);
  };
  return {led(a), led(b)};
}
// Whether b is one right-hand side: [n], or one for each matrix, the dims of a without the last.
bool one_each(const Tensor& a, const Tensor& b) {
  Shape rows = a.shape();
  if (!rows.empty()) rows.pop_back();
  return b.ndim() == 1 || b.shape() == rows;
}
Tensor rounded(const Tensor& y, DType dtype) { return y.dtype() == dtype ? y : convert(y, dtype); }

// A solver of a y = b, used with a and, for the gradient, with a^T.
using Solver = std::function<Tensor(const Tensor& a, const Tensor& b)>;
Tensor solved(const std::pair<Tensor, Tensor>& of, const Solver& forward, const Solver& back,
              const std::function<Tensor(const Tensor&)>& part) {
  return custom_gradient(
      [&](const std::vector<Tensor>& in) {
        const Tensor y = forward(in[0], in[1]);
        return Computed{{y}, {in[0], y}};
      },
      [&](const std::vector<Tensor>& saved, const std::vector<Tensor>& dy) -> std::vector<Tensor> {
        const Tensor db = back(turned(saved[0]), dy[0]);
        return {part(-matmul(db, turned(saved[1]))), db};
      })({of.first, of.second})[0];
}
// A scalar of each matrix, [...] -> [..., 1, 1].
Tensor as_matrix(const Tensor& x) { return unsqueeze(unsqueeze(x, -1), -1); }
}  // namespace

Tensor cholesky(Tensor x, Here at) {
  need_square("cholesky", x, at);
  return rounded_once("cholesky", x, at, [](const Tensor& v) {
    return custom_gradient(
        [](const std::vector<Tensor>& in) {
          const Tensor y = factor(in[0]);
          return Computed{{y}, {y}};
        },
        [](const std::vector<Tensor>& saved, const std::vector<Tensor>& dy) -> std::vector<Tensor> {
          // Murray, arXiv 1602.07527: y^-T phi(y^T dy) y^-1, made symmetric; phi halves the diagonal.
          const Tensor y = saved[0], up = turned(y), product = matmul(up, dy[0]);
          const Tensor phi = (tril(product) + tril(product, -1)) * 0.5;
          const Tensor left = triangular(up, phi, true), both = turned(triangular(up, turned(left), true));
          return {(both + turned(both)) * 0.5};
        })({v})[0];
  });
}
Tensor solve_triangular(Tensor a, Tensor b, bool upper, Here at) {
  need("solve_triangular", {a, b}, at);
  InFunction line(a, at);
  const Precision unrounded(a, DType::f32);
  const auto solver = [](bool up) {
    return [up](const Tensor& m, const Tensor& r) { return triangular(m, r, up); };
  };
  return rounded(solved(equation("solve_triangular", a, b, at), solver(upper), solver(!upper),
                        [upper](const Tensor& da) { return upper ? triu(da) : tril(da); }),
                 b.dtype());
}
Tensor solve(Tensor a, Tensor b, Here at) {
  need("solve", {a, b}, at);
  InFunction line(a, at);
  if (one_each(a, b)) return squeeze(solve(a, unsqueeze(b, -1), at), -1);
  const Precision unrounded(a, DType::f32);
  const Solver solver = [](const Tensor& m, const Tensor& r) { return eliminate(m, r).solution; };
  return rounded(solved(equation("solve", a, b, at), solver, solver, [](const Tensor& da) { return da; }),
                 b.dtype());
}
Tensor inverse(Tensor x, Here at) {
  need_square("inverse", x, at);
  return rounded_once("inverse", x, at, [](const Tensor& v) {
    return custom_gradient(
        [](const std::vector<Tensor>& in) {
          const Tensor y = inverse_of(in[0]);
          return Computed{{y}, {turned(y)}};
        },
        [](const std::vector<Tensor>& saved, const std::vector<Tensor>& dy) -> std::vector<Tensor> {
          return {-matmul(saved[0], matmul(dy[0], saved[0]))};
        })({v})[0];
  });
}
Tensor det(Tensor x, Here at) {
  need_square("det", x, at);
  return rounded_once("det", x, at, [](const Tensor& v) {
    return custom_gradient(
        [](const std::vector<Tensor>& in) {
          const Eliminated made = eliminate(in[0], {});
          Tensor y = made.sign;
          for (const Tensor& pivot : made.pivots) y = y * pivot;
          y = select(select(y, -1, 0), -1, 0);
          return Computed{{y}, {in[0]}};
        },
        [](const std::vector<Tensor>& saved, const std::vector<Tensor>& dy) -> std::vector<Tensor> {
          return {as_matrix(dy[0]) * cofactors(saved[0])};
        })({v})[0];
  });
}
SignAndLogDet slogdet(Tensor x, Here at) {
  need_square("slogdet", x, at);
  InFunction line(x, at);
  const Precision unrounded(x, DType::f32);
  const std::vector<Tensor> made = custom_gradient(
      [](const std::vector<Tensor>& in) {
        const Tensor pivots_of = in[0];
        const Eliminated found = eliminate(pivots_of, {});
        const Tensor pivots = concat(found.pivots, -1);  // [..., 1, n]
        const auto flat = [](const Tensor& y) { return select(y, -1, 0); };
        return Computed{{flat(squeeze(found.sign, -1)) * prod(flat(turned(sign(pivots))), {-1}),
                         sum(flat(turned(log(abs(pivots)))), {-1})},
                        {in[0]}};
      },
      [](const std::vector<Tensor>& saved, const std::vector<Tensor>& dy) -> std::vector<Tensor> {
        return {as_matrix(dy[1]) * turned(inverse_of(saved[0]))};
      })({wide(x)});
  return {rounded(made[0], x.dtype()), rounded(made[1], x.dtype())};
}

}  // namespace lockstep
