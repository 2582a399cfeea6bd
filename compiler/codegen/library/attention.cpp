// Attention forward and backward: blocks of query rows, scores in a small buffer, products on oneDNN's sgemm.
// One task per (batch, kv head), so that sums over query heads and row blocks have one fixed order.
// Probabilities are recomputed in the backward pass from the log-sum-exp (Dao et al., FlashAttention, 2022).
// Heads of bf16 and f16 are widened into f32 and rounded once.
#include <omp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "compiler/codegen/library/library.h"
#include "compiler/codegen/sums/halves.h"
#include "core/base/error.h"

// The row loops exist once per instruction set; without contraction each gives the same bits.
#if defined(__x86_64__) && !defined(LOCKSTEP_SANITIZED)
#define LS_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define LS_CLONES
#endif

namespace lockstep::compiler {

namespace {
constexpr int64_t kRows = 64;  // query rows per block
constexpr int kLanes = 16;     // accumulators of a row sum

// exp for x up to 88 (and -inf): 2^n * p(r), Cephes coefficients; exact 0 below the smallest normal number.
inline float exp_f32(float x) {
  float clipped = x < -87.3f ? -87.3f : x > 88.0f ? 88.0f : x;
  float n = (clipped * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
  float r = clipped - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  float scale = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return x < -87.3f ? 0.0f : p * scale;
}

inline float lane_total(const float* lanes) {
  float t[kLanes];
  for (int i = 0; i < kLanes; ++i) t[i] = lanes[i];
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) t[i] += t[i + half];
  return t[0];
}

// scores[0..count) = exp(scale * scores - max); returns {max, sum}. count is padded to lanes with exact zeros
// by the caller's buffer width.
LS_CLONES void softmax_row(float* row, int64_t count, float scale, float* max_out, float* sum_out) {
  float best[kLanes], lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) best[i] = -std::numeric_limits<float>::infinity(), lanes[i] = 0;
  int64_t whole = count / kLanes * kLanes;
  for (int64_t j = 0; j < whole; j += kLanes)
    for (int i = 0; i < kLanes; ++i) {
      float v = row[j + i] * scale;
      row[j + i] = v;
      best[i] = v > best[i] ? v : best[i];
    }
  for (int64_t j = whole; j < count; ++j) {
    row[j] *= scale;
    best[j - whole] = row[j] > best[j - whole] ? row[j] : best[j - whole];
  }
  float max = best[0];
  for (int i = 1; i < kLanes; ++i) max = best[i] > max ? best[i] : max;
  for (int64_t j = 0; j < whole; j += kLanes)
    for (int i = 0; i < kLanes; ++i) {
      float e = exp_f32(row[j + i] - max);
      row[j + i] = e;
      lanes[i] += e;
    }
  for (int64_t j = whole; j < count; ++j) {
    row[j] = exp_f32(row[j] - max);
    lanes[j - whole] += row[j];
  }
  *max_out = max;
  *sum_out = lane_total(lanes);
}

LS_CLONES void scale_row(float* row, int64_t count, float by) {
  for (int64_t j = 0; j < count; ++j) row[j] *= by;
}
// p = exp(scale * s - lse) in place of s; ds = p * (dp - delta) * scale in place of dp.
LS_CLONES void backward_row(float* s, float* dp, int64_t count, float scale, float lse, float delta) {
  for (int64_t j = 0; j < count; ++j) {
    float x = s[j] * scale - lse;
    float p = exp_f32(x);
    s[j] = p;
    dp[j] = p * (dp[j] - delta) * scale;
  }
}
LS_CLONES float dot_row(const float* a, const float* b, int64_t count) {
  float lanes[kLanes] = {};
  int64_t whole = count / kLanes * kLanes;
  for (int64_t j = 0; j < whole; j += kLanes)
    for (int i = 0; i < kLanes; ++i) lanes[i] += a[j + i] * b[j + i];
  for (int64_t j = whole; j < count; ++j) lanes[j - whole] += a[j] * b[j];
  return lane_total(lanes);
}
LS_CLONES void fill_zero(float* row, int64_t count) {
  for (int64_t j = 0; j < count; ++j) row[j] = 0.0f;
}

// [batch, tokens, heads, head_dim] with a dense last dim.
struct Heads {
  DType dtype = DType::f32;
  int64_t batch = 0, token = 0, head = 0;  // strides
  char* at(void* base, int64_t b, int64_t h, int64_t t) const {
    return static_cast<char*>(base) +
           (b * batch + h * head + t * token) * static_cast<int64_t>(size_of(dtype));
  }
};
// One head as f32, [tokens, head_dim]: where it lies, or widened into scratch.
struct Panel {
  float* at;
  int64_t token;  // stride
};
Heads heads_of(const Operand& operand) {
  LS_CHECK(operand.dtype == DType::f32 || is_half(operand.dtype),
           "attention on the CPU takes f32, bf16, f16, not ", name(operand.dtype));
  LS_CHECK(operand.strides[3] == 1 || operand.shape[3] == 1, "attention needs a dense last dim");
  return {operand.dtype, operand.strides[0], operand.strides[1], operand.strides[2]};
}

class Attention : public HostCall {
 public:
  Attention(const Node& node, const std::vector<Operand>& in, const std::vector<Operand>& out)
      : backward_(node.op == ops::sdpa_grad) {
    const Operand& q = in[backward_ ? 1 : 0];
    const Operand& k = in[backward_ ? 2 : 1];
    batch_ = q.shape[0], tokens_ = q.shape[1], heads_ = q.shape[2], size_ = q.shape[3], keys_ = k.shape[1],
    kv_heads_ = k.shape[2];
    causal_ = node.attrs.flag("causal");
    scale_ = static_cast<float>(node.attrs.number("scale"));
    LS_CHECK(!causal_ || tokens_ == keys_, "causal attention over ", tokens_, " queries and ", keys_,
             " keys");
    for (size_t i = 0; i < in.size(); ++i)
      if (in[i].shape.size() == 4) in_[i] = heads_of(in[i]);
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i].shape.size() == 4) out_[i] = heads_of(out[i]);
    dtype_ = q.dtype;
  }
  size_t workspace(int threads) const override { return static_cast<size_t>(threads) * per_thread() * 4; }
  std::string algorithm() const override {
    std::string prefix = is_half(dtype_) ? str(name(dtype_), " ") : "";
    return str(prefix, "sdpa", backward_ ? "_grad" : "", " b=", batch_, " t=", tokens_, " h=", heads_, "/",
               kv_heads_, " d=", size_, causal_ ? " causal" : "", " rows=", kRows);
  }
  double flops() const override {
    double pairs = static_cast<double>(tokens_) * static_cast<double>(keys_) * (causal_ ? 0.5 : 1.0);
    return (backward_ ? 10.0 : 4.0) * static_cast<double>(batch_ * heads_) * pairs *
           static_cast<double>(size_);
  }
  void run(void* const* args, void* workspace, int threads) const override {
    int64_t tasks = batch_ * kv_heads_;
#pragma omp parallel num_threads(threads) if (tasks > 1)
    {
      float* scratch =
          static_cast<float*>(workspace) + static_cast<size_t>(omp_get_thread_num()) * per_thread();
#pragma omp for schedule(static)
      for (int64_t task = 0; task < tasks; ++task)
        backward_ ? backward(args, scratch, task / kv_heads_, task % kv_heads_)
                  : forward(args, scratch, task / kv_heads_, task % kv_heads_);
    }
  }

 private:
  size_t per_thread() const {
    int64_t panels = is_half(dtype_) ? (backward_ ? 4 : 2) * (tokens_ + keys_) * size_ : 0;
    return 2 * kRows * keys_ + 64 + panels;
  }
  // A head that is read, and room for one that is written; `room` moves behind what they took.
  Panel read(const Heads& heads, void* base, int64_t b, int64_t h, int64_t tokens, float*& room) const {
    Panel panel = place(heads, base, b, h, tokens, room);
    for (int64_t t = 0; is_half(dtype_) && t < tokens; ++t)
      widen(dtype_, heads.at(base, b, h, t), panel.at + t * size_, size_);
    return panel;
  }
  Panel place(const Heads& heads, void* base, int64_t b, int64_t h, int64_t tokens, float*& room) const {
    if (!is_half(dtype_)) return {reinterpret_cast<float*>(heads.at(base, b, h, 0)), heads.token};
    Panel panel{room, size_};
    room += tokens * size_;
    return panel;
  }
  void write(const Panel& panel, const Heads& heads, void* base, int64_t b, int64_t h, int64_t tokens) const {
    for (int64_t t = 0; is_half(dtype_) && t < tokens; ++t)
      narrow(dtype_, panel.at + t * size_, heads.at(base, b, h, t), size_);
  }
  // Keys that rows [i0, i1) may see.
  int64_t visible(int64_t i1) const { return causal_ ? i1 : keys_; }
  int64_t row_keys(int64_t i) const { return causal_ ? i + 1 : keys_; }

  void forward(void* const* args, float* scratch, int64_t b, int64_t kv) const {
    float* panels = scratch + 2 * kRows * keys_ + 64;
    auto [k, k_token] = read(in_[1], args[1], b, kv, keys_, panels);
    auto [v, v_token] = read(in_[2], args[2], b, kv, keys_, panels);
    float* lse = static_cast<float*>(args[4]);
    int64_t group = heads_ / kv_heads_;
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      float* room = panels;
      auto [q, q_token] = read(in_[0], args[0], b, h, tokens_, room);
      Panel out = place(out_[0], args[3], b, h, tokens_, room);
      auto [o, o_token] = out;
      for (int64_t i0 = 0; i0 < tokens_; i0 += kRows) {
        int64_t i1 = std::min(tokens_, i0 + kRows), rows = i1 - i0, n = visible(i1);
        sgemm(false, true, rows, n, size_, q + i0 * q_token, q_token, k, k_token, 0.0f, scratch, n);
        float sums[kRows];
        for (int64_t i = i0; i < i1; ++i) {
          float* row = scratch + (i - i0) * n;
          float max = 0;
          softmax_row(row, row_keys(i), scale_, &max, &sums[i - i0]);
          fill_zero(row + row_keys(i), n - row_keys(i));
          lse[(b * heads_ + h) * tokens_ + i] = max + std::log(sums[i - i0]);
        }
        sgemm(false, false, rows, size_, n, scratch, n, v, v_token, 0.0f, o + i0 * o_token, o_token);
        for (int64_t i = i0; i < i1; ++i) scale_row(o + i * o_token, size_, 1.0f / sums[i - i0]);
      }
      write(out, out_[0], args[3], b, h, tokens_);
    }
  }

  // args: do, q, k, v, o, lse -> dq, dk, dv
  void backward(void* const* args, float* scratch, int64_t b, int64_t kv) const {
    float* panels = scratch + 2 * kRows * keys_ + 64;
    auto [k, k_token] = read(in_[2], args[2], b, kv, keys_, panels);
    auto [v, v_token] = read(in_[3], args[3], b, kv, keys_, panels);
    Panel dk = place(out_[1], args[7], b, kv, keys_, panels),
          dv = place(out_[2], args[8], b, kv, keys_, panels);
    const float* lse = static_cast<const float*>(args[5]);
    int64_t group = heads_ / kv_heads_;
    float* ds = scratch + kRows * keys_;
    for (int64_t j = 0; j < keys_; ++j)
      fill_zero(dk.at + j * dk.token, size_), fill_zero(dv.at + j * dv.token, size_);
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      float* room = panels;
      auto [grad, grad_token] = read(in_[0], args[0], b, h, tokens_, room);
      auto [q, q_token] = read(in_[1], args[1], b, h, tokens_, room);
      auto [o, o_token] = read(in_[4], args[4], b, h, tokens_, room);
      Panel dq = place(out_[0], args[6], b, h, tokens_, room);
      for (int64_t i0 = 0; i0 < tokens_; i0 += kRows) {
        int64_t i1 = std::min(tokens_, i0 + kRows), rows = i1 - i0, n = visible(i1);
        const float* grad0 = grad + i0 * grad_token;
        const float* q0 = q + i0 * q_token;
        sgemm(false, true, rows, n, size_, q0, q_token, k, k_token, 0.0f, scratch, n);
        sgemm(false, true, rows, n, size_, grad0, grad_token, v, v_token, 0.0f, ds, n);
        for (int64_t i = i0; i < i1; ++i) {
          float delta = dot_row(grad + i * grad_token, o + i * o_token, size_);
          float* p_row = scratch + (i - i0) * n;
          float* ds_row = ds + (i - i0) * n;
          backward_row(p_row, ds_row, row_keys(i), scale_, lse[(b * heads_ + h) * tokens_ + i], delta);
          fill_zero(p_row + row_keys(i), n - row_keys(i));
          fill_zero(ds_row + row_keys(i), n - row_keys(i));
        }
        sgemm(true, false, n, size_, rows, scratch, n, grad0, grad_token, 1.0f, dv.at, dv.token);
        sgemm(true, false, n, size_, rows, ds, n, q0, q_token, 1.0f, dk.at, dk.token);
        sgemm(false, false, rows, size_, n, ds, n, k, k_token, 0.0f, dq.at + i0 * dq.token, dq.token);
      }
      write(dq, out_[0], args[6], b, h, tokens_);
    }
    write(dk, out_[1], args[7], b, kv, keys_);
    write(dv, out_[2], args[8], b, kv, keys_);
  }

  bool backward_, causal_;
  int64_t batch_, tokens_, heads_, size_, keys_, kv_heads_;
  float scale_;
  DType dtype_;
  Heads in_[6], out_[3];
};
}  // namespace

std::unique_ptr<LibraryCall> make_attention(const Node& node, const std::vector<Operand>& in,
                                            const std::vector<Operand>& out) {
  return std::make_unique<Attention>(node, in, out);
}

}  // namespace lockstep::compiler
