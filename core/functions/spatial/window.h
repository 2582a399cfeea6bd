// Window: sizes of convolution kernels and pooling windows that slide over spatial dims.
#pragma once

#include <string>
#include <vector>

#include "core/ops/op.h"

namespace lockstep {

// Sizes, strides, padding and dilation of windows over the last dims of a tensor. All lists have one number
// per spatial dim.
struct Window {
  std::vector<int64_t> sizes, stride, lo, hi, dilation;
  size_t dims() const { return sizes.size(); }
  // Elements that one window spans along d.
  int64_t span(size_t d) const { return dilation[d] * (sizes[d] - 1) + 1; }
  // The number of windows along d over `size` elements; 0 or less if none fits.
  int64_t count(size_t d, int64_t size) const {
    const int64_t left = size + lo[d] + hi[d] - span(d);
    return left < 0 ? 0 : left / stride[d] + 1;
  }
  bool pads() const;
};

// The attributes stride, lo, hi and dilation of a node, with these sizes. Fails if a list does not have one
// number per dim, or a number is out of range.
Window checked_window(const InferContext& c, std::vector<int64_t> sizes);
Window window_of(const Attrs& attrs, std::vector<int64_t> sizes);
// The number of windows along each spatial dim. Fails, naming both sizes, if none fits.
std::vector<int64_t> checked_counts(const InferContext& c, const Window& window,
                                    const std::vector<int64_t>& spatial);

// Expands a list of one number to all dims. Throws UserError, naming `role` and both lengths, for another
// length.
std::vector<int64_t> per_dim(std::string_view op, const std::vector<int64_t>& list, size_t dims,
                             std::string_view role, const SourceLine& at);

// x [lead..., s...] padded by `value` and cut: -> [lead..., o..., k...], overlapping copies (a view).
Tensor windows_of(Tensor x, const Window& window, double value);
// Its transpose: w [lead..., o..., k...] -> [lead..., spatial...], overlaps added, padding dropped.
// As a node, for gradients; or in primitives, for expansions.
Tensor fold_windows(Tensor w, const Window& window, const std::vector<int64_t>& spatial);
Tensor expanded_fold(Tensor w, const Window& window, const std::vector<int64_t>& spatial);

inline constexpr AttrField kWindowAttrs[] = {
    {"stride", AttrType::list}, {"lo", AttrType::list}, {"hi", AttrType::list}, {"dilation", AttrType::list}};
std::vector<AttrField> window_attrs(std::vector<AttrField> more = {});
Attrs attrs_of(const Window& window);  // without its sizes

}  // namespace lockstep
