// Convolution as a product of columns (im2col), for outputs of few positions: rows are windows, columns are
// (channel, place) in the order of the weight. Works on blocks of channels, each on one thread; sums in f32.
#include <omp.h>

#include <algorithm>

#include "compiler/codegen/library/convolution.h"
#include "compiler/codegen/sums/halves.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
using Which = ConvolutionShape::Which;
constexpr int64_t kBlocks = 8;

class ColumnConvolution : public HostCall {
 public:
  explicit ColumnConvolution(const ConvolutionShape& shape)
      : s_(shape), rows_(s_.n * s_.windows()), width_(s_.channels * s_.places()) {
    for (int64_t w = 0; w < s_.windows(); ++w)
      for (int64_t p = 0; p < s_.places(); ++p) elements_.push_back(element(w, p));
    blocked_ = s_.which == Which::forward ? s_.outputs : s_.channels;
    step_ = (blocked_ + kBlocks - 1) / kBlocks;
    blocks_ = (blocked_ + step_ - 1) / step_;
  }
  size_t workspace(int) const override { return 4 * (columns() + outputs() + widened()); }
  std::string algorithm() const override {
    return str(convolution_text(s_), " columns ", rows_, "x", width_, " sgemm blocks=", blocks_, "x", step_);
  }
  double flops() const override { return convolution_flops(s_); }

  void run(void* const* args, void* workspace, int threads) const override {
    float *cols = static_cast<float*>(workspace), *y = cols + columns(), *w = y + outputs();
    switch (s_.which) {
      case Which::forward:
        return forward(args, cols, y, weight(args[1], w, threads), threads);
      case Which::input:
        return input(args, cols, y, weight(args[1], w, threads), threads);
      case Which::weight:
        return grad_weight(args, cols, y, half() ? w : static_cast<float*>(args[2]), threads);
    }
  }

 private:
  bool half() const { return is_half(s_.dtype); }
  int64_t columns() const { return rows_ * width_; }
  int64_t outputs() const { return rows_ * s_.outputs; }
  int64_t widened() const { return half() ? s_.weights() : 0; }
  // The input element that place p of window w reads; -1 in the padding.
  int64_t element(int64_t w, int64_t p) const {
    int64_t at = 0, factor = 1;
    for (size_t d = s_.dims(); d-- > 0;) {
      const int64_t i = w % s_.counts[d] * s_.stride[d] + p % s_.sizes[d] * s_.dilation[d] - s_.lo[d];
      if (i < 0 || i >= s_.spatial[d]) return -1;
      at += i * factor;
      factor *= s_.spatial[d], w /= s_.counts[d], p /= s_.sizes[d];
    }
    return at;
  }
  const float* weight(const void* from, float* room, int threads) const {
    if (!half()) return static_cast<const float*>(from);
    const int64_t run = width_;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t o = 0; o < s_.outputs; ++o)
      widen(s_.dtype, static_cast<const uint16_t*>(from) + o * run, room + o * run, run);
    return room;
  }
  // One channel of one sample as f32.
  const float* plane(const void* base, int64_t index, int64_t size, float* room) const {
    if (!half()) return static_cast<const float*>(base) + index * size;
    widen(s_.dtype, static_cast<const uint16_t*>(base) + index * size, room, size);
    return room;
  }
  void write_plane(const float* from, void* base, int64_t index, int64_t size) const {
    if (half())
      narrow(s_.dtype, from, static_cast<uint16_t*>(base) + index * size, size);
    else
      std::copy_n(from, size, static_cast<float*>(base) + index * size);
  }
  void make_columns(const void* x, float* cols, int threads) const {
    const int64_t places = s_.places(), size = s_.elements();
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t sample = 0; sample < s_.n; ++sample) {
      std::vector<float> room(half() ? static_cast<size_t>(size) : 0);
      for (int64_t c = 0; c < s_.channels; ++c) {
        const float* from = plane(x, sample * s_.channels + c, size, room.data());
        for (int64_t w = 0; w < s_.windows(); ++w) {
          float* to = cols + (sample * s_.windows() + w) * width_ + c * places;
          const int64_t* at = elements_.data() + w * places;
          for (int64_t p = 0; p < places; ++p) to[p] = at[p] < 0 ? 0.0f : from[at[p]];
        }
      }
    }
  }
  // y [n, outputs, windows] as rows: [n, windows, outputs].
  void make_rows(const void* y, float* rows, int threads) const {
    const int64_t size = s_.windows();
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t sample = 0; sample < s_.n; ++sample) {
      float room[64];
      for (int64_t o = 0; o < s_.outputs; ++o) {
        const float* from = plane(y, sample * s_.outputs + o, size, room);
        for (int64_t w = 0; w < size; ++w) rows[(sample * size + w) * s_.outputs + o] = from[w];
      }
    }
  }

  void forward(void* const* args, float* cols, float* y, const float* w, int threads) const {
    make_columns(args[0], cols, threads);
    std::vector<float> bias(s_.bias ? s_.outputs : 0);
    if (s_.bias)
      half() ? widen(s_.dtype, args[2], bias.data(), s_.outputs)
             : static_cast<void>(std::copy_n(static_cast<const float*>(args[2]), s_.outputs, bias.data()));
    void* out = args[s_.bias ? 3 : 2];
    const int64_t size = s_.windows();
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t block = 0; block < blocks_; ++block) {
      const int64_t from = block * step_, to = std::min(blocked_, from + step_);
      sgemm(false, true, rows_, to - from, width_, cols, width_, w + from * width_, width_, 0.0f, y + from,
            s_.outputs);
      float room[64];
      for (int64_t sample = 0; sample < s_.n; ++sample)
        for (int64_t o = from; o < to; ++o) {
          for (int64_t p = 0; p < size; ++p)
            room[p] = y[(sample * size + p) * s_.outputs + o] + (s_.bias ? bias[o] : 0.0f);
          write_plane(room, out, sample * s_.outputs + o, size);
        }
    }
  }
  void input(void* const* args, float* cols, float* y, const float* w, int threads) const {
    make_rows(args[0], y, threads);
    const int64_t places = s_.places(), size = s_.elements();
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t block = 0; block < blocks_; ++block) {
      const int64_t from = block * step_, to = std::min(blocked_, from + step_);
      sgemm(false, false, rows_, (to - from) * places, s_.outputs, y, s_.outputs, w + from * places, width_,
            0.0f, cols + from * places, width_);
      std::vector<float> sums(size);
      for (int64_t sample = 0; sample < s_.n; ++sample)
        for (int64_t c = from; c < to; ++c) {
          std::fill(sums.begin(), sums.end(), 0.0f);
          for (int64_t i = 0; i < s_.windows(); ++i) {  // windows in order, places in order within each
            const float* part = cols + (sample * s_.windows() + i) * width_ + c * places;
            const int64_t* at = elements_.data() + i * places;
            for (int64_t p = 0; p < places; ++p)
              if (at[p] >= 0) sums[at[p]] += part[p];
          }
          write_plane(sums.data(), args[2], sample * s_.channels + c, size);
        }
    }
  }
  void grad_weight(void* const* args, float* cols, float* y, float* dw, int threads) const {
    make_columns(args[0], cols, threads);
    make_rows(args[1], y, threads);
    const int64_t places = s_.places();
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t block = 0; block < blocks_; ++block) {
      const int64_t from = block * step_, to = std::min(blocked_, from + step_), run = (to - from) * places;
      sgemm(true, false, s_.outputs, run, rows_, y, s_.outputs, cols + from * places, width_, 0.0f,
            dw + from * places, width_);
      for (int64_t o = 0; half() && o < s_.outputs; ++o)
        narrow(s_.dtype, dw + o * width_ + from * places,
               static_cast<uint16_t*>(args[2]) + o * width_ + from * places, run);
    }
  }

  ConvolutionShape s_;
  int64_t rows_, width_, blocked_ = 0, step_ = 1, blocks_ = 1;
  std::vector<int64_t> elements_;  // [windows, places]
};
}  // namespace

std::unique_ptr<LibraryCall> make_column_convolution(const ConvolutionShape& shape) {
  LS_CHECK(shape.groups == 1 && shape.windows() < 64, "columns of ", convolution_text(shape));
  return std::make_unique<ColumnConvolution>(shape);
}

}  // namespace lockstep::compiler
