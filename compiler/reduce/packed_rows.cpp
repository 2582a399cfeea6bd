// Arithmetic of the layout of rows by owner.
#include "compiler/reduce/packed_rows.h"

#include "core/base/error.h"

namespace lockstep::compiler {

PackedRows::PackedRows(const std::vector<Shape>& shapes, const RowOwners& owners,
                       const std::vector<int>& order, int rank, DType dtype)
    : owners_(owners), rank_(rank), dtype_(dtype), chunks_(order.size()) {
  LS_CHECK(dtype == DType::f32 || dtype == DType::bf16, "gradients of ", name(dtype));
  LS_CHECK(owners_.ranks() == static_cast<int>(order.size()), "owners of ", owners_.ranks(), " ranks for ",
           order.size());
  for (const Shape& shape : shapes) {
    LS_CHECK(!shape.empty(), "tensor ", tensors_.size(), " of a bucket has no rows");
    tensors_.push_back({shape[0], shape[0] ? numel(shape) / shape[0] : 0});
  }
  for (int r : order) {
    const int64_t begin = elements_;
    for (size_t t = 0; t < tensors_.size(); ++t) {
      auto [first, count] = owners_.rows(tensors_[t].rows, r);
      const int64_t width = tensors_[t].width;
      if (r == rank_) at_.push_back(elements_ - begin);
      if (count > 0 && width > 0) runs_.push_back({elements_, t, first * width, count * width});
      elements_ += count * width;
    }
    chunks_[r] = elements_ - begin;
    if (r == rank_) chunk_at_ = begin;
  }
}

std::pair<int64_t, int64_t> PackedRows::owned_rows(size_t tensor) const {
  return owners_.rows(tensors_.at(tensor).rows, rank_);
}

std::vector<int> own_last(int count, int own) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i)
    if (i != own) out.push_back(i);
  out.push_back(own);
  return out;
}

}  // namespace lockstep::compiler
