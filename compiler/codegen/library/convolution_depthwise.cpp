// The gradient of a depthwise convolution's weight, channels last, 16 channels at a time. oneDNN 2.6 has no
// special kernel for it: it computes a convolution of that many groups, at 1 to 10 GFLOP/s. The sum of a
// place runs over windows of a row, rows, samples of a run, and runs, each in order. A block of channels and
// a run of samples runs on one thread.
#include <omp.h>

#include <algorithm>
#include <bit>

#include "compiler/codegen/library/convolution.h"
#include "compiler/codegen/sums/halves.h"
#include "core/base/clones.h"
#include "core/base/text.h"

namespace lockstep::compiler {

namespace {
constexpr int64_t kLanes = 16;
// At least this many blocks of channels and runs of samples, if there are as many.
constexpr int64_t kTasks = 16;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));

// Pixels of 16 channels of one sample: x with its padding, and y.
struct Tile {
  int64_t rows, columns;           // of y
  int64_t sizes[2];                // of the weight
  int64_t stride[2], dilation[2];  // rows, columns
  int64_t x_rows, x_columns, lo_row, lo_column;
};

// For `count` adjacent places, over one row of y: one register per place.
template <int kPlaces>
[[gnu::always_inline]] inline void add_places(const Lanes* x, const Lanes* y, const Tile& t, Lanes* sums) {
  Lanes sum[kPlaces] = {};
  for (int64_t column = 0; column < t.columns; ++column)
    for (int i = 0; i < kPlaces; ++i) sum[i] += y[column] * x[column * t.stride[1] + i * t.dilation[1]];
  for (int i = 0; i < kPlaces; ++i) sums[i] += sum[i];
}

// sums[place] += the products of a sample's tile.
LS_CLONES void add_sample(const Lanes* x, const Lanes* y, const Tile& t, Lanes* sums) {
  for (int64_t row = 0; row < t.rows; ++row, y += t.columns)
    for (int64_t i = 0; i < t.sizes[0]; ++i) {
      const Lanes* at = x + (row * t.stride[0] + i * t.dilation[0]) * t.x_columns;
      for (int64_t j = 0; j < t.sizes[1];) {
        const Lanes* from = at + j * t.dilation[1];
        Lanes* to = sums + i * t.sizes[1] + j;
        switch (std::min<int64_t>(8, t.sizes[1] - j)) {
          case 1:
            add_places<1>(from, y, t, to), j += 1;
            break;
          case 2:
            add_places<2>(from, y, t, to), j += 2;
            break;
          case 3:
            add_places<3>(from, y, t, to), j += 3;
            break;
          case 4:
            add_places<4>(from, y, t, to), j += 4;
            break;
          case 5:
            add_places<5>(from, y, t, to), j += 5;
            break;
          case 6:
            add_places<6>(from, y, t, to), j += 6;
            break;
          case 7:
            add_places<7>(from, y, t, to), j += 7;
            break;
          default:
            add_places<8>(from, y, t, to), j += 8;
        }
      }
    }
}

// `count` pixels with `lanes` of `channels` channels, as f32; further lanes are 0.
template <class Widen, class Element>
[[gnu::always_inline]] inline void take(const Element* from, int64_t count, int64_t channels, int64_t lanes,
                                        Lanes* to, Widen widen) {
  float* out = reinterpret_cast<float*>(to);
  if (lanes == kLanes) {
    for (int64_t i = 0; i < count; ++i)
      for (int64_t c = 0; c < kLanes; ++c) out[i * kLanes + c] = widen(from[i * channels + c]);
  } else {
    for (int64_t i = 0; i < count; ++i)
      for (int64_t c = 0; c < kLanes; ++c)
        out[i * kLanes + c] = c < lanes ? widen(from[i * channels + c]) : 0.0f;
  }
}
LS_CLONES void take_f32(const float* from, int64_t count, int64_t channels, int64_t lanes, Lanes* to) {
  take(from, count, channels, lanes, to, [](float value) { return value; });
}
LS_CLONES void take_bf16(const uint16_t* from, int64_t count, int64_t channels, int64_t lanes, Lanes* to) {
  take(from, count, channels, lanes, to,
       [](uint16_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); });
}

class DepthwiseWeightGradient : public HostCall {
 public:
  explicit DepthwiseWeightGradient(const ConvolutionShape& s)
      : s_(s),
        blocks_((s.channels + kLanes - 1) / kLanes),
        runs_(std::min(s.n, (kTasks + blocks_ - 1) / blocks_)) {
    tile_ = {s.counts[0],
             s.counts[1],
             {s.sizes[0], s.sizes[1]},
             {s.stride[0], s.stride[1]},
             {s.dilation[0], s.dilation[1]},
             0,
             0,
             s.lo[0],
             s.lo[1]};
    tile_.x_rows = (tile_.rows - 1) * tile_.stride[0] + (tile_.sizes[0] - 1) * tile_.dilation[0] + 1;
    tile_.x_columns = (tile_.columns - 1) * tile_.stride[1] + (tile_.sizes[1] - 1) * tile_.dilation[1] + 1;
  }
  size_t workspace(int threads) const override {
    return static_cast<size_t>(blocks_ * runs_ * s_.places() + threads * per_thread()) * sizeof(Lanes);
  }
  std::string algorithm() const override {
    return str(convolution_text(s_), " ", kLanes, " channels at a time, runs=", runs_);
  }
  double flops() const override { return convolution_flops(s_); }

  void run(void* const* args, void* workspace, int threads) const override {
    Lanes* const sums = static_cast<Lanes*>(workspace);  // [blocks][runs][places]
    Lanes* const rooms = sums + blocks_ * runs_ * s_.places();
#pragma omp parallel num_threads(threads)
    {
      Lanes* const room = rooms + omp_get_thread_num() * per_thread();
#pragma omp for schedule(static)
      for (int64_t task = 0; task < blocks_ * runs_; ++task)
        sum_run(args, task / runs_, task % runs_, sums + task * s_.places(), room);
#pragma omp for schedule(static)
      for (int64_t block = 0; block < blocks_; ++block)
        write(sums + block * runs_ * s_.places(), block, args[2], reinterpret_cast<float*>(room));
    }
  }

 private:
  // Number of vectors; a channel's places fit, too.
  int64_t per_thread() const { return tile_.x_rows * tile_.x_columns + tile_.rows * tile_.columns; }
  int64_t lanes_of(int64_t block) const { return std::min(kLanes, s_.channels - block * kLanes); }

  void take_pixels(const void* base, int64_t pixel, int64_t count, int64_t block, Lanes* to) const {
    const int64_t at = pixel * s_.channels + block * kLanes, lanes = lanes_of(block);
    if (s_.dtype == DType::f32)
      take_f32(static_cast<const float*>(base) + at, count, s_.channels, lanes, to);
    else
      take_bf16(static_cast<const uint16_t*>(base) + at, count, s_.channels, lanes, to);
  }

  // Row `row` of a sample's x with its padding.
  void take_row(const void* x, int64_t sample, int64_t row, int64_t block, Lanes* to) const {
    const int64_t from_row = row - tile_.lo_row, first = std::max<int64_t>(0, tile_.lo_column),
                  last = std::min(tile_.x_columns, s_.spatial[1] + tile_.lo_column);
    if (from_row < 0 || from_row >= s_.spatial[0] || first >= last) {
      std::fill_n(to, tile_.x_columns, Lanes{});
      return;
    }
    std::fill_n(to, first, Lanes{});
    take_pixels(x, (sample * s_.spatial[0] + from_row) * s_.spatial[1] + first - tile_.lo_column,
                last - first, block, to + first);
    std::fill_n(to + last, tile_.x_columns - last, Lanes{});
  }

  void sum_run(void* const* args, int64_t block, int64_t run, Lanes* sums, Lanes* room) const {
    std::fill_n(sums, s_.places(), Lanes{});
    Lanes* const x = room;
    Lanes* const y = room + tile_.x_rows * tile_.x_columns;
    for (int64_t sample = s_.n * run / runs_; sample < s_.n * (run + 1) / runs_; ++sample) {
      for (int64_t row = 0; row < tile_.x_rows; ++row)
        take_row(args[0], sample, row, block, x + row * tile_.x_columns);
      take_pixels(args[1], sample * s_.windows(), s_.windows(), block, y);
      add_sample(x, y, tile_, sums);
    }
  }

  // Adds the sums of a block's runs and writes the weight: [channels, places].
  void write(Lanes* sums, int64_t block, void* to, float* room) const {
    const int64_t places = s_.places();
    for (int64_t run = 1; run < runs_; ++run)
      for (int64_t i = 0; i < places; ++i) sums[i] += sums[run * places + i];
    for (int64_t lane = 0; lane < lanes_of(block); ++lane) {
      const int64_t at = (block * kLanes + lane) * places;
      float* const out = s_.dtype == DType::f32 ? static_cast<float*>(to) + at : room;
      for (int64_t i = 0; i < places; ++i) out[i] = sums[i][lane];
      if (s_.dtype != DType::f32) narrow(s_.dtype, room, static_cast<uint16_t*>(to) + at, places);
    }
  }

  ConvolutionShape s_;
  int64_t blocks_, runs_;
  Tile tile_;
};
}  // namespace

bool is_depthwise_weight_gradient(const ConvolutionShape& s) {
  return s.which == ConvolutionShape::Which::weight && s.dims() == 2 && s.groups > 1 &&
         s.groups == s.channels && s.outputs == s.channels &&
         (s.dtype == DType::f32 || s.dtype == DType::bf16);
}

std::unique_ptr<LibraryCall> make_depthwise_weight_gradient(const ConvolutionShape& shape) {
  return std::make_unique<DepthwiseWeightGradient>(shape);
}

}  // namespace lockstep::compiler
