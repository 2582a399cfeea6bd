// Contractions: dims in the order that `dot` gives them, and back.
#include "core/ops/functions/contract.h"

#include <algorithm>

#include "core/ops/functions/checks.h"
#include "core/ops/functions/operators.h"
#include "core/ops/functions/shape.h"

namespace lockstep {

using namespace functions;

namespace {
using Dims = std::vector<int64_t>;
Tensor dot(Tensor a, Tensor b, Dims a_batch, Dims b_batch, Dims a_contract, Dims b_contract, Here at) {
  return apply1(ops::dot, {a, b},
                {{"lhs_batch", std::move(a_batch)},
                 {"rhs_batch", std::move(b_batch)},
                 {"lhs_contract", std::move(a_contract)},
                 {"rhs_contract", std::move(b_contract)}},
                at);
}
Tensor with_leading(Tensor x, const Shape& leading, Here at) {
  Shape shape = leading;
  shape.push_back(x.size(-2));
  shape.push_back(x.size(-1));
  return broadcast_to(x, shape, at);
}
Tensor product(Tensor a, Tensor b, Here at) {
  auto types = [&] { return str("lhs ", a.text(), ", rhs ", b.text()); };
  if (a.size(-1) != b.size(-2))
    refuse("matmul", {a}, at,
           str("inner dims differ: lhs ", a.text(), " has ", a.size(-1), ", rhs ", b.text(), " has ",
               b.size(-2), "; transpose one side?"));
  Shape lhs = a.shape(), rhs = b.shape(), leading;
  lhs.resize(lhs.size() - 2);
  rhs.resize(rhs.size() - 2);
  if (!broadcast_shape(lhs, rhs, leading))
    refuse("matmul", {a}, at,
           str("leading dims differ: ", types(), "; they are matched from the last, and must be equal or 1"));
  if (numel(rhs) == 1 && leading == lhs) {  // one matrix for all rows
    const int64_t last = a.ndim() - 1;
    return dot(a, reshape(b, {b.size(-2), b.size(-1)}, at), {}, {}, {last}, {0}, at);
  }
  a = with_leading(a, leading, at);
  b = with_leading(b, leading, at);
  const auto rank = static_cast<int64_t>(leading.size());
  return dot(a, b, counted(0, rank), counted(0, rank), {rank + 1}, {rank}, at);
}
}  // namespace

Tensor matmul(Tensor a, Tensor b, Here at) {
  need("matmul", {a, b}, at);
  if (a.ndim() < 1 || b.ndim() < 1)
    refuse("matmul", {a}, at, str("lhs ", a.text(), ", rhs ", b.text(), ": both need 1 or more dims"));
  const auto taken = under_policy("matmul", {a, b}, source_line(*a.builder(), at));
  a = taken[0], b = taken[1];
  if (a.dtype() != b.dtype())
    refuse("matmul", {a}, at,
           str("dtypes differ: lhs ", a.text(), ", rhs ", b.text(), "; convert one side?"));
  InFunction line(a, at);
  const bool row = a.ndim() == 1, column = b.ndim() == 1;
  Tensor y = product(row ? unsqueeze(a, 0) : a, column ? unsqueeze(b, 1) : b, at);
  if (column) y = squeeze(y, -1);
  return row ? squeeze(y, column ? -1 : -2) : y;
}
Tensor bmm(Tensor a, Tensor b, Here at) {
  need("bmm", {a, b}, at);
  if (a.ndim() != 3 || b.ndim() != 3 || a.size(0) != b.size(0))
    refuse("bmm", {a}, at,
           str("lhs ", a.text(), ", rhs ", b.text(), ": need [batch, m, k] and [batch, k, n]"));
  return matmul(a, b, at);
}
Tensor outer(Tensor a, Tensor b, Here at) {
  need("outer", {a, b}, at);
  if (a.ndim() != 1 || b.ndim() != 1)
    refuse("outer", {a}, at, str("lhs ", a.text(), ", rhs ", b.text(), ": both need 1 dim"));
  InFunction line(a, at);
  return unsqueeze(a, 1) * unsqueeze(b, 0);
}
Tensor tensordot(Tensor a, Tensor b, Dims a_dims, Dims b_dims, Here at) {
  need("tensordot", {a, b}, at);
  for (int64_t& dim : a_dims) dim = dim_of("tensordot", a, dim, at);
  for (int64_t& dim : b_dims) dim = dim_of("tensordot", b, dim, at);
  return dot(a, b, {}, {}, a_dims, b_dims, at);
}
Tensor linear(Tensor x, Tensor weight, Tensor bias, Here at) {
  return apply1(ops::linear,
                bias.defined() ? std::vector<Tensor>{x, weight, bias} : std::vector<Tensor>{x, weight}, {},
                at);
}

}  // namespace lockstep
