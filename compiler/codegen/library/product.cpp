// Roles of dims, and blocks of a product.
#include "compiler/codegen/library/product.h"

#include <algorithm>

namespace lockstep::compiler {

int64_t DimsOfRole::count() const {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}
std::optional<int64_t> DimsOfRole::stride() const {
  std::optional<int64_t> inner;
  int64_t span = 0;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (!inner)
      inner = strides[i], span = strides[i] * sizes[i];
    else if (strides[i] != span)
      return std::nullopt;
    else
      span *= sizes[i];
  }
  return inner ? *inner : 1;
}
int64_t DimsOfRole::offset(int64_t flat) const {
  int64_t at = 0;
  for (size_t i = sizes.size(); i-- > 0;) at += flat % sizes[i] * strides[i], flat /= sizes[i];
  return at;
}

OperandSide side_of(const Operand& operand, const std::vector<int64_t>& batch,
                    const std::vector<int64_t>& contract) {
  OperandSide side;
  auto add = [&](DimsOfRole& role, int64_t dim) {
    role.sizes.push_back(operand.shape[dim]);
    role.strides.push_back(operand.strides[dim]);
  };
  for (int64_t dim : batch) add(side.batch, dim);
  for (int64_t dim : contract) add(side.contract, dim);
  for (int64_t dim = 0; dim < static_cast<int64_t>(operand.shape.size()); ++dim)
    if (std::find(batch.begin(), batch.end(), dim) == batch.end() &&
        std::find(contract.begin(), contract.end(), dim) == contract.end())
      add(side.free, dim);
  return side;
}

std::optional<MatrixLie> lie_of(const DimsOfRole& rows, const DimsOfRole& cols) {
  auto r = rows.stride(), c = cols.stride();
  if (!r || !c) return std::nullopt;
  if (*c == 1 || cols.count() == 1) {
    if (*r >= std::max<int64_t>(1, cols.count()) || rows.count() == 1)
      return MatrixLie{false, std::max({*r, cols.count(), int64_t{1}})};
  }
  if (*r == 1 || rows.count() == 1) {
    if (*c >= std::max<int64_t>(1, rows.count()) || cols.count() == 1)
      return MatrixLie{true, std::max({*c, rows.count(), int64_t{1}})};
  }
  return std::nullopt;
}

ProductBlocks product_blocks(int64_t batch, int64_t m, int64_t n, int64_t k, double least_work) {
  const double work = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const bool along_m = m >= n;
  const int64_t side = along_m ? m : n;
  const double few = std::min(work / least_work, 4.0), many = work / (150 * least_work);
  const int64_t wanted = batch >= 8 ? 1 : static_cast<int64_t>(std::clamp(std::max(few, many), 1.0, 32.0));
  const int64_t step = std::max<int64_t>(48, (side / wanted + 47) / 48 * 48);
  return {along_m, step, std::max<int64_t>(1, (side + step - 1) / step)};
}

}  // namespace lockstep::compiler
