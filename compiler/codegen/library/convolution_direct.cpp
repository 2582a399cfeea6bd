// Convolution by oneDNN's primitives, channels last inside. A block is a run of samples and a part of the
// channels; both depend only on the shape. It is one primitive, made for one thread and run on one. bf16 goes
// to oneDNN on processors with bf16 instructions (products exact, sums in f32). Otherwise bf16, and f16 on
// every processor, is widened first. The gradient of a weight is summed over runs of samples in their order.
#include <omp.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "compiler/codegen/library/convolution.h"
#include "compiler/codegen/library/primitives.h"
#include "compiler/codegen/sums/halves.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
using Which = ConvolutionShape::Which;
using dnnl::memory;
using Dims = memory::dims;

constexpr int64_t kTasks = 8;       // at least this many blocks, if samples and channels allow it
constexpr int64_t kMostRuns = 64;   // runs of samples
constexpr int64_t kLeastPart = 32;  // channels of a part
// The same for the gradient of a weight in bf16. It reorders its operands once per part, and its products
// take less time than the sums of many runs. So it uses fewer of both, unless there is much work.
constexpr int64_t kHalfTasks = 4, kLeastHalfPart = 128;
constexpr double kMuchWork = 4e9;

// The primitive of one block of `samples` samples.
struct Block {
  int64_t samples = 0;
  dnnl::primitive primitive;
  memory::desc x, weight, y, bias, scratchpad;
  Reorder x_in, y_in, x_out, y_out;  // between the caller's layout and the primitive's
  int64_t x_bytes() const { return aligned_bytes(x.get_size()); }
  int64_t y_bytes() const { return aligned_bytes(y.get_size()); }
};

class DirectConvolution : public HostCall {
 public:
  explicit DirectConvolution(const ConvolutionShape& shape) : s_(shape) {
    widens_ = widens_halves(s_);
    type_ = s_.dtype == DType::bf16 && !widens_ ? memory::data_type::bf16 : memory::data_type::f32;
    parts_ = count_parts();
    const int64_t runs = s_.which == Which::weight
                             ? std::min(s_.n, std::max<int64_t>(1, weight_tasks() / parts_))
                             : std::min(s_.n, kMostRuns);
    step_ = (s_.n + runs - 1) / runs;
    runs_ = (s_.n + step_ - 1) / step_;
    ForThreads one(1);
    full_ = make_block(step_);
    if (s_.n % step_) rest_ = make_block(s_.n % step_);
  }

  size_t workspace(int threads) const override { return static_cast<size_t>(layout(threads).bytes); }
  std::string algorithm() const override {
    return str(convolution_text(s_), widens_ ? " as f32" : "", " oneDNN ", name_, " blocks=", runs_, "x",
               step_, " samples, ", parts_, parts_ == 1 ? " part" : " parts");
  }
  double flops() const override { return convolution_flops(s_); }

  void run(void* const* args, void* workspace, int threads) const override {
    const Layout at = layout(threads);
    char* base = static_cast<char*>(workspace);
    void *x = s_.which == Which::input ? args[2] : args[0],
         *y = s_.which == Which::forward ? args[s_.bias ? 3 : 2]
              : s_.which == Which::input ? args[0]
                                         : args[1],
         *w = s_.which == Which::weight ? args[2] : args[1];
    if (s_.which == Which::weight) return grad_weight(x, y, w, base, at, threads);
    void* weights = base + at.weights;
    place_weights(w, weights, base + at.wide_weights, threads);
    float* bias = reinterpret_cast<float*>(base + at.bias);
    if (s_.bias) copy_bias(args[2], bias);
#pragma omp parallel num_threads(threads)
    {
      omp_set_num_threads(1);
      char* own = base + at.threads + omp_get_thread_num() * at.per_thread;
#pragma omp for schedule(static)
      for (int64_t task = 0; task < runs_ * parts_; ++task)
        block(task / parts_, task % parts_, x, y, static_cast<char*>(weights), bias, own);
    }
  }

 private:
  struct Layout {
    int64_t weights = 0, wide_weights = 0, bias = 0, threads = 0, per_thread = 0, bytes = 0;
  };
  int64_t size() const { return static_cast<int64_t>(size_of(s_.dtype)); }
  bool forward() const { return s_.which == Which::forward; }
  // The channels that parts divide: those of the output.
  int64_t cut() const { return s_.which == Which::input ? s_.channels : s_.outputs; }
  int64_t part() const { return cut() / parts_; }
  int64_t part_channels() const { return s_.which == Which::input ? part() : s_.channels; }
  int64_t part_outputs() const { return s_.which == Which::input ? s_.outputs : part(); }
  int64_t part_weights() const { return s_.weights() / parts_; }
  // Whether the caller's layout of a block's side is that of the primitive.
  bool x_as_it_lies() const { return s_.channels_last && part_channels() == s_.channels; }
  bool y_as_it_lies() const { return s_.channels_last && part_outputs() == s_.outputs; }
  const Block& block_of(int64_t run) const { return (run + 1) * step_ <= s_.n ? full_ : rest_; }

  int64_t weight_tasks() const {
    return type_ == memory::data_type::bf16 && convolution_flops(s_) < kMuchWork ? kHalfTasks : kTasks;
  }
  // If samples alone give too few blocks, or if the gradient of a weight would be written once per run.
  int64_t count_parts() const {
    if (s_.groups != 1) return 1;
    const int64_t wanted = s_.which == Which::weight ? weight_tasks() : (kTasks + s_.n - 1) / s_.n;
    const int64_t least =
        s_.which == Which::weight && type_ == memory::data_type::bf16 ? kLeastHalfPart : kLeastPart;
    int64_t parts = 1;
    while (parts * 2 <= wanted && cut() % (parts * 2 * least) == 0) parts *= 2;
    return parts;
  }

  Dims with(int64_t a, int64_t b, const std::vector<int64_t>& rest) const {
    Dims out{a, b};
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
  }
  memory::format_tag last() const {
    return s_.dims() == 1   ? memory::format_tag::nwc
           : s_.dims() == 2 ? memory::format_tag::nhwc
                            : memory::format_tag::ndhwc;
  }
  // A run of samples and of channels of the caller's [n, all, spatial...].
  memory::desc plain(int64_t samples, int64_t channels, int64_t all,
                     const std::vector<int64_t>& spatial) const {
    const Dims whole = with(1, all, spatial);
    return {with(samples, channels, spatial), type_,
            s_.channels_last ? channels_last_strides(whole) : row_major_strides(whole)};
  }
  // Its offset, in bytes.
  int64_t plain_at(int64_t first, int64_t channel, int64_t all, int64_t size_of_plane) const {
    return (first * all * size_of_plane + (s_.channels_last ? channel : channel * size_of_plane)) * size();
  }
  // [O, C, k...] of a part, or [groups, O / groups, C / groups, k...].
  memory::desc plain_weight(memory::data_type type) const {
    if (s_.groups != 1) {
      Dims dims = with(s_.outputs / s_.groups, s_.channels / s_.groups, s_.sizes);
      dims.insert(dims.begin(), s_.groups);
      return {dims, type, row_major_strides(dims)};
    }
    const Dims whole = with(s_.outputs, s_.channels, s_.sizes);
    return {with(part_outputs(), part_channels(), s_.sizes), type,
            s_.channels_last ? channels_last_strides(whole) : row_major_strides(whole)};
  }
  // The offset of a part of the caller's weight, in elements.
  int64_t weight_at(int64_t p) const {
    if (s_.which != Which::input) return p * part_weights();
    return p * part() * (s_.channels_last ? 1 : s_.places());
  }

  Block make_block(int64_t samples) {
    const auto algorithm = dnnl::algorithm::convolution_direct;
    Block b;
    b.samples = samples;
    Dims dilation;
    for (int64_t d : s_.dilation) dilation.push_back(d - 1);
    const memory::desc x(with(samples, part_channels(), s_.spatial), type_, last()),
        y(with(samples, part_outputs(), s_.counts), type_, last());
    const Dims shape = plain_weight(type_).dims();
    const memory::desc any(shape, type_, memory::format_tag::any), w = full_.samples ? full_.weight : any;
    memory::desc bias;
    if (s_.bias)
      bias = memory::desc({s_.outputs / (forward() ? parts_ : 1)}, memory::data_type::f32,
                          memory::format_tag::a);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto kind = dnnl::prop_kind::forward_training;
    dnnl::convolution_forward::primitive_desc ahead(
        s_.bias ? dnnl::convolution_forward::desc(kind, algorithm, x, forward() ? w : any, bias, y, s_.stride,
                                                  dilation, s_.lo, s_.hi)
                : dnnl::convolution_forward::desc(kind, algorithm, x, forward() ? w : any, y, s_.stride,
                                                  dilation, s_.lo, s_.hi),
        attr, onednn_engine());
    auto keep = [&](const auto& desc, dnnl::primitive primitive) {
      b.primitive = std::move(primitive);
      b.scratchpad = desc.scratchpad_desc();
      name_ = desc.impl_info_str();
    };
    b.x = x, b.y = y, b.bias = bias;
    if (forward()) {
      b.weight = ahead.weights_desc();
      keep(ahead, dnnl::convolution_forward(ahead));
    } else if (s_.which == Which::input) {
      dnnl::convolution_backward_data::primitive_desc desc(
          {algorithm, x, w, y, s_.stride, dilation, s_.lo, s_.hi}, attr, onednn_engine(), ahead);
      b.weight = desc.weights_desc();
      keep(desc, dnnl::convolution_backward_data(desc));
    } else {
      const memory::desc dw =
          full_.samples ? full_.weight : memory::desc(shape, memory::data_type::f32, memory::format_tag::any);
      dnnl::convolution_backward_weights::primitive_desc desc(
          {algorithm, x, dw, y, s_.stride, dilation, s_.lo, s_.hi}, attr, onednn_engine(), ahead);
      b.weight = desc.diff_weights_desc();
      keep(desc, dnnl::convolution_backward_weights(desc));
    }
    const memory::desc px = plain(samples, part_channels(), widens_ ? part_channels() : s_.channels,
                                  s_.spatial),
                       py = plain(samples, part_outputs(), widens_ ? part_outputs() : s_.outputs, s_.counts);
    if (s_.which == Which::input)
      b.x_out = Reorder(x, px);
    else
      b.x_in = Reorder(px, x);
    if (forward())
      b.y_out = Reorder(y, py);
    else
      b.y_in = Reorder(py, y);
    return b;
  }

  int64_t x_room() const { return x_as_it_lies() ? 0 : full_.x_bytes(); }
  int64_t y_room() const { return y_as_it_lies() ? 0 : full_.y_bytes(); }
  // Scratch of a thread: x and y of a block and, if bf16 or f16 is widened, the caller's side of one of them.
  int64_t wide_bytes() const {
    return widens_ ? aligned_bytes(static_cast<size_t>(step_ * std::max(part_channels() * s_.elements(),
                                                                        part_outputs() * s_.windows())) *
                                   4)
                   : 0;
  }
  Layout layout(int threads) const {
    Layout at;
    const int64_t scratchpad = std::max(aligned_bytes(full_.scratchpad.get_size()),
                                        rest_.samples ? aligned_bytes(rest_.scratchpad.get_size()) : 0);
    int64_t next = 0;
    auto take = [&](int64_t bytes) { return std::exchange(next, next + bytes); };
    const bool weight = s_.which == Which::weight;
    at.weights = take(aligned_bytes(full_.weight.get_size()) * parts_ * (weight ? runs_ : 1));
    at.wide_weights = take(widens_ ? aligned_bytes(static_cast<size_t>(s_.weights()) * 4) : 0);
    at.bias = take(aligned_bytes(static_cast<size_t>(s_.bias ? s_.outputs : 0) * 4));
    at.threads = next;
    at.per_thread = x_room() + y_room() + scratchpad + wide_bytes();
    at.bytes = next + threads * at.per_thread;
    return at;
  }

  // Copies the caller's weight into the primitive's layout, part by part, by all threads: the order of copies
  // is irrelevant.
  void place_weights(const void* from, void* to, void* room, int threads) const {
    if (widens_) {
      const int64_t run = s_.weights() / s_.outputs;
#pragma omp parallel for num_threads(threads) schedule(static) if (s_.weights() > 65536)
      for (int64_t o = 0; o < s_.outputs; ++o)
        widen(s_.dtype, static_cast<const uint16_t*>(from) + o * run, static_cast<float*>(room) + o * run,
              run);
      from = room;
    }
    ForThreads all(threads);
    const Reorder& reorder = weight_reorder(threads);
    const int64_t element = widens_ ? 4 : size();
    for (int64_t p = 0; p < parts_; ++p)
      reorder.run(static_cast<const char*>(from) + weight_at(p) * element,
                  static_cast<char*>(to) + p * aligned_bytes(full_.weight.get_size()));
  }
  const Reorder& weight_reorder(int threads) const {
    std::lock_guard lock(mutex_);
    auto [found, fresh] = weight_reorders_.try_emplace(threads);
    if (fresh) found->second = Reorder(plain_weight(type_), full_.weight);
    return found->second;
  }
  void copy_bias(const void* from, float* to) const {
    if (is_half(s_.dtype))
      widen(s_.dtype, from, to, s_.outputs);
    else
      std::copy_n(static_cast<const float*>(from), s_.outputs, to);
  }

  // Samples from `first` and channels from `channel` of the caller's [n, all, size] into the block's layout.
  void read(const Reorder& in, const void* base, int64_t first, int64_t samples, int64_t channel,
            int64_t channels, int64_t all, int64_t size_of_plane, void* to, float* room) const {
    const char* from = static_cast<const char*>(base) + plain_at(first, channel, all, size_of_plane);
    if (!widens_) return in.run(from, to);
    const int64_t run = channels * size_of_plane;
    for (int64_t i = 0; i < samples; ++i)
      widen(s_.dtype, from + i * all * size_of_plane * size(), room + i * run, run);
    in.run(room, to);
  }
  void write(const Reorder& out, const void* from, void* base, int64_t first, int64_t samples,
             int64_t channel, int64_t channels, int64_t all, int64_t size_of_plane, float* room) const {
    char* to = static_cast<char*>(base) + plain_at(first, channel, all, size_of_plane);
    if (!widens_) return out.run(from, to);
    out.run(from, room);
    const int64_t run = channels * size_of_plane;
    for (int64_t i = 0; i < samples; ++i)
      narrow(s_.dtype, room + i * run, to + i * all * size_of_plane * size(), run);
  }

  // A thread's scratch for a block, or the caller's memory if it can be used directly.
  struct Sides {
    char *x, *y, *room_at;
  };
  Sides sides(int64_t first, void* x, void* y, char* own) const {
    auto at = [&](void* base, int64_t all, int64_t size_of_plane) {
      return static_cast<char*>(base) + plain_at(first, 0, all, size_of_plane);
    };
    return {x_as_it_lies() ? at(x, s_.channels, s_.elements()) : own,
            y_as_it_lies() ? at(y, s_.outputs, s_.windows()) : own + x_room(), own + x_room() + y_room()};
  }

  void block(int64_t run, int64_t p, void* x, void* y, char* weights, float* bias, char* own) const {
    const Block& b = block_of(run);
    const int64_t first = run * step_;
    const auto [bx, by, room_at] = sides(first, x, y, own);
    float* room = reinterpret_cast<float*>(room_at);
    void* scratch = room_at + wide_bytes();
    void* w = weights + p * aligned_bytes(full_.weight.get_size());
    if (forward()) {
      if (!x_as_it_lies())
        read(b.x_in, x, first, b.samples, 0, s_.channels, s_.channels, s_.elements(), bx, room);
      execute(b.primitive, {{DNNL_ARG_SRC, b.x, bx},
                            {DNNL_ARG_WEIGHTS, b.weight, w},
                            {DNNL_ARG_BIAS, b.bias, s_.bias ? bias + p * part() : nullptr},
                            {DNNL_ARG_DST, b.y, by},
                            {DNNL_ARG_SCRATCHPAD, b.scratchpad, scratch}});
      if (!y_as_it_lies())
        write(b.y_out, by, y, first, b.samples, p * part(), part(), s_.outputs, s_.windows(), room);
    } else {
      if (!y_as_it_lies())
        read(b.y_in, y, first, b.samples, 0, s_.outputs, s_.outputs, s_.windows(), by, room);
      execute(b.primitive, {{DNNL_ARG_DIFF_DST, b.y, by},
                            {DNNL_ARG_WEIGHTS, b.weight, w},
                            {DNNL_ARG_DIFF_SRC, b.x, bx},
                            {DNNL_ARG_SCRATCHPAD, b.scratchpad, scratch}});
      if (!x_as_it_lies())
        write(b.x_out, bx, x, first, b.samples, p * part(), part(), s_.channels, s_.elements(), room);
    }
  }

  void grad_weight(void* x, void* y, void* w, char* base, const Layout& at, int threads) const {
    const int64_t bytes = aligned_bytes(full_.weight.get_size());
    char* sums = base + at.weights;  // [parts][runs]
#pragma omp parallel num_threads(threads)
    {
      omp_set_num_threads(1);
      char* own = base + at.threads + omp_get_thread_num() * at.per_thread;
#pragma omp for schedule(static)
      for (int64_t task = 0; task < runs_ * parts_; ++task) {
        const int64_t run = task % runs_, p = task / runs_;
        const Block& b = block_of(run);
        const auto [bx, by, room_at] = sides(run * step_, x, y, own);
        float* room = reinterpret_cast<float*>(room_at);
        if (!x_as_it_lies())
          read(b.x_in, x, run * step_, b.samples, 0, s_.channels, s_.channels, s_.elements(), bx, room);
        if (!y_as_it_lies())
          read(b.y_in, y, run * step_, b.samples, p * part(), part(), s_.outputs, s_.windows(), by, room);
        execute(b.primitive, {{DNNL_ARG_SRC, b.x, bx},
                              {DNNL_ARG_DIFF_DST, b.y, by},
                              {DNNL_ARG_DIFF_WEIGHTS, b.weight, sums + task * bytes},
                              {DNNL_ARG_SCRATCHPAD, b.scratchpad, room_at + wide_bytes()}});
      }
      const int64_t count = static_cast<int64_t>(full_.weight.get_size() / 4);
      for (int64_t p = 0; p < parts_ && runs_ > 1; ++p) {
        float* total = reinterpret_cast<float*>(sums + p * runs_ * bytes);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < count; ++i)
          for (int64_t run = 1; run < runs_; ++run)
            total[i] += reinterpret_cast<const float*>(sums + (p * runs_ + run) * bytes)[i];
      }
    }
    ForThreads all(threads);
    const Reorder& reorder = sum_reorder(threads);
    float* wide = reinterpret_cast<float*>(base + at.wide_weights);
    for (int64_t p = 0; p < parts_; ++p)
      reorder.run(sums + p * runs_ * bytes, widens_ ? static_cast<void*>(wide + weight_at(p))
                                                    : static_cast<char*>(w) + weight_at(p) * size());
    if (widens_) narrow(s_.dtype, wide, w, s_.weights());
  }
  const Reorder& sum_reorder(int threads) const {
    std::lock_guard lock(mutex_);
    auto [found, fresh] = weight_reorders_.try_emplace(threads);
    if (fresh) found->second = Reorder(full_.weight, plain_weight(type_));
    return found->second;
  }

  ConvolutionShape s_;
  bool widens_ = false;
  memory::data_type type_ = memory::data_type::f32;
  int64_t parts_ = 1, step_ = 1, runs_ = 1;  // parts of channels; runs of `step` samples
  Block full_, rest_;                        // of `step` samples, and of the samples left
  std::string name_;                         // of the implementation that oneDNN chose
  mutable std::mutex mutex_;
  mutable std::map<int, Reorder> weight_reorders_;  // by threads
};
}  // namespace

std::unique_ptr<LibraryCall> make_direct_convolution(const ConvolutionShape& shape) {
  return std::make_unique<DirectConvolution>(shape);
}

}  // namespace lockstep::compiler
