// The gradient of max_pool: each window's gradient is added at the position of its largest element, windows
// in row-major order, a channel of a sample on one thread. bf16 and f16 are added in f32 and rounded once.
#include <omp.h>

#include <algorithm>

#include "compiler/codegen/library/library.h"
#include "compiler/codegen/sums/halves.h"
#include "core/base/error.h"
#include "core/functions/spatial/window.h"

namespace lockstep::compiler {

namespace {
using List = std::vector<int64_t>;

class MaxPoolGrad : public HostCall {
 public:
  // `planes`: channels of all samples; dy and the places are [planes, counts...], dx [planes, spatial...].
  MaxPoolGrad(DType dtype, int64_t planes, Window window, List spatial, List counts)
      : dtype_(dtype),
        planes_(planes),
        window_(std::move(window)),
        spatial_(std::move(spatial)),
        counts_(std::move(counts)),
        windows_(numel(counts_)),
        elements_(numel(spatial_)),
        strides_(row_major_strides(spatial_)) {
    for (int64_t k = 0; k < numel(window_.sizes); ++k) {
      place_dims_.push_back(coordinates(k, window_.sizes));
      int64_t& at = place_at_.emplace_back(0);
      for (size_t d = 0; d < spatial_.size(); ++d) {
        place_dims_.back()[d] *= window_.dilation[d];
        at += place_dims_.back()[d] * strides_[d];
      }
    }
    for (int64_t w = 0; w < windows_; ++w) {
      const List first = first_of(w);
      int64_t& at = window_at_.emplace_back(0);
      bool inside = true;
      for (size_t d = 0; d < spatial_.size(); ++d) {
        at += first[d] * strides_[d];
        inside = inside && first[d] >= 0 && first[d] + window_.span(d) <= spatial_[d];
      }
      inside_.push_back(inside);
    }
  }

  size_t workspace(int threads) const override {
    return is_half(dtype_) ? threads * (windows_ + elements_) * sizeof(float) : 0;
  }
  std::string algorithm() const override {
    return str("max_pool_grad ", name(dtype_), " ", planes_, "x", counts_, " into ", spatial_, " windows ",
               window_.sizes, " stride ", window_.stride, " from ", window_.lo, " dilation ",
               window_.dilation, ", in order");
  }
  double flops() const override { return static_cast<double>(planes_ * windows_); }

  void run(void* const* args, void* workspace, int threads) const override {
    const auto* places = static_cast<const int32_t*>(args[1]);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t p = 0; p < planes_; ++p) {
      const int32_t* place = places + p * windows_;
      if (dtype_ == DType::f64) {
        add(static_cast<const double*>(args[0]) + p * windows_, place,
            static_cast<double*>(args[2]) + p * elements_);
      } else if (dtype_ == DType::f32) {
        add(static_cast<const float*>(args[0]) + p * windows_, place,
            static_cast<float*>(args[2]) + p * elements_);
      } else {
        float* dy = static_cast<float*>(workspace) + omp_get_thread_num() * (windows_ + elements_);
        float* dx = dy + windows_;
        widen(dtype_, static_cast<const uint16_t*>(args[0]) + p * windows_, dy, windows_);
        add(dy, place, dx);
        narrow(dtype_, dx, static_cast<uint16_t*>(args[2]) + p * elements_, elements_);
      }
    }
  }

 private:
  static List coordinates(int64_t i, const List& sizes) {
    List out(sizes.size());
    for (size_t d = sizes.size(); d-- > 0; i /= sizes[d]) out[d] = i % sizes[d];
    return out;
  }
  // The first element of a window; negative in the padding.
  List first_of(int64_t w) const {
    List out = coordinates(w, counts_);
    for (size_t d = 0; d < out.size(); ++d) out[d] = out[d] * window_.stride[d] - window_.lo[d];
    return out;
  }
  // Whether a place of a window at the border is an element. If a whole window is -inf, its first place may
  // be in the padding.
  bool is_element(int64_t w, int32_t place) const {
    const List first = first_of(w);
    for (size_t d = 0; d < first.size(); ++d) {
      const int64_t at = first[d] + place_dims_[place][d];
      if (at < 0 || at >= spatial_[d]) return false;
    }
    return true;
  }
  template <class T>
  void add(const T* dy, const int32_t* place, T* dx) const {
    std::fill_n(dx, elements_, T(0));
    for (int64_t w = 0; w < windows_; ++w)
      if (inside_[w] || is_element(w, place[w])) dx[window_at_[w] + place_at_[place[w]]] += dy[w];
  }

  DType dtype_;
  int64_t planes_;
  Window window_;
  List spatial_, counts_;
  int64_t windows_, elements_;
  List strides_, place_at_, window_at_;  // offsets of places and windows; their sum is an element's offset
  std::vector<List> place_dims_;
  std::vector<char> inside_;  // windows that touch no padding
};
}  // namespace

std::unique_ptr<LibraryCall> make_pooling(const Node& node, const std::vector<Operand>& in,
                                          const std::vector<Operand>& out) {
  for (const auto& operand : in) LS_CHECK(is_dense(operand), node.op, " reads dense operands");
  const Shape &dy = in[0].shape, &dx = out[0].shape;
  return std::make_unique<MaxPoolGrad>(out[0].dtype, dx[0] * dx[1],
                                       window_of(node.attrs, node.attrs.list("sizes")),
                                       List(dx.begin() + 2, dx.end()), List(dy.begin() + 2, dy.end()));
}

}  // namespace lockstep::compiler
