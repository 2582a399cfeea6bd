// Attention forward and backward: blocks of query rows, scores in a small buffer, products on oneDNN's sgemm.
// Probabilities are recomputed in the backward pass from the log-sum-exp (Dao et al., FlashAttention, 2022).
// Heads of f16, and of bf16 on processors without bf16 instructions, are widened to f32 and rounded once.
#include <algorithm>
#include <cmath>

#include "compiler/codegen/library/attention_call.h"
#include "compiler/codegen/library/attention_rows.h"
#include "compiler/codegen/sums/halves.h"

namespace lockstep::compiler {

namespace {
using namespace rows;
// One head as f32, [tokens, head_dim]: in place, or widened into scratch.
struct Panel {
  float* at;
  int64_t token;  // stride
};
class Attention : public AttentionCall {
 public:
  using AttentionCall::AttentionCall;

 private:
  size_t bytes_per_thread() const override {
    const int64_t panels = is_half(dtype_) ? (backward_ ? 4 : 2) * (tokens_ + keys_) * size_ : 0;
    return static_cast<size_t>(2 * kRows * keys_ + 64 + panels) * sizeof(float);
  }
  // Functions for a head that is read, and for one that is written. `room` advances past the scratch that
  // they use.
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

  void forward(void* const* args, void* room_of_thread, int64_t b, int64_t kv) const override {
    float* scratch = static_cast<float*>(room_of_thread);
    float* panels = scratch + 2 * kRows * keys_ + 64;
    auto [k, k_token] = read(in_[1], args[1], b, kv, keys_, panels);
    auto [v, v_token] = read(in_[2], args[2], b, kv, keys_, panels);
    void* to = args[reads_.inputs];
    float* lse = static_cast<float*>(args[reads_.inputs + 1]);
    int64_t group = heads_ / kv_heads_;
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      float* room = panels;
      auto [q, q_token] = read(in_[0], args[0], b, h, tokens_, room);
      Panel out = place(out_[0], to, b, h, tokens_, room);
      auto [o, o_token] = out;
      for (int64_t i0 = 0; i0 < tokens_; i0 += kRows) {
        int64_t i1 = std::min(tokens_, i0 + kRows), rows = i1 - i0;
        const Keys block = block_keys(args, b, i0, i1);
        const int64_t n = block.count();
        if (n)
          sgemm(false, true, rows, n, size_, q + i0 * q_token, q_token, k + block.from * k_token, k_token,
                0.0f, scratch, n);
        float sums[kRows];
        for (int64_t i = i0; i < i1; ++i)
          lse[(b * heads_ + h) * tokens_ + i] =
              softmax(args, scratch + (i - i0) * n, b, h, i, block, &sums[i - i0]);
        if (n)
          sgemm(false, false, rows, size_, n, scratch, n, v + block.from * v_token, v_token, 0.0f,
                o + i0 * o_token, o_token);
        for (int64_t i = i0; i < i1; ++i) {
          if (n)
            scale_row(o + i * o_token, size_, 1.0f / sums[i - i0]);
          else
            fill_zero(o + i * o_token, size_);
        }
      }
      write(out, out_[0], to, b, h, tokens_);
    }
  }
  // Row i of the block's scores becomes exp(score - max), 0 for keys that the row does not attend to. Returns
  // the sum (1 for a row that attends to nothing) and the log-sum-exp (0).
  float softmax(void* const* args, float* row, int64_t b, int64_t h, int64_t i, Keys block,
                float* sum) const {
    const Keys keys = row_keys_in(args, b, i, block);
    float *first = row + (keys.from - block.from), max = 0;
    *sum = 1;
    bool sees = keys.count() > 0;
    if (sees && one_by_one()) {
      sees = masked(args, first, b, h, i, keys);
      if (sees) softmax_row(first, keys.count(), 1.0f, &max, sum);
    } else if (sees) {
      softmax_row(first, keys.count(), scale_, &max, sum);
    }
    if (!sees) {
      fill_zero(row, block.count());
      return 0;
    }
    zero_beside(row, block, keys);
    return max + std::log(*sum);
  }
  static void zero_beside(float* row, Keys block, Keys keys) {
    fill_zero(row, keys.from - block.from);
    fill_zero(row + (keys.to - block.from), block.to - keys.to);
  }

  void backward(void* const* args, void* room_of_thread, int64_t b, int64_t kv) const override {
    float* scratch = static_cast<float*>(room_of_thread);
    float* panels = scratch + 2 * kRows * keys_ + 64;
    auto [k, k_token] = read(in_[2], args[2], b, kv, keys_, panels);
    auto [v, v_token] = read(in_[3], args[3], b, kv, keys_, panels);
    void* const* to = args + reads_.inputs;
    Panel dk = place(out_[1], to[1], b, kv, keys_, panels), dv = place(out_[2], to[2], b, kv, keys_, panels);
    int64_t group = heads_ / kv_heads_;
    float* ds = scratch + kRows * keys_;
    for (int64_t j = 0; j < keys_; ++j)
      fill_zero(dk.at + j * dk.token, size_), fill_zero(dv.at + j * dv.token, size_);
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      float* room = panels;
      auto [grad, grad_token] = read(in_[0], args[0], b, h, tokens_, room);
      auto [q, q_token] = read(in_[1], args[1], b, h, tokens_, room);
      auto [o, o_token] = read(in_[4], args[4], b, h, tokens_, room);
      Panel dq = place(out_[0], to[0], b, h, tokens_, room);
      for (int64_t i0 = 0; i0 < tokens_; i0 += kRows) {
        int64_t i1 = std::min(tokens_, i0 + kRows), rows = i1 - i0;
        const Keys block = block_keys(args, b, i0, i1);
        const int64_t n = block.count();
        const float* grad0 = grad + i0 * grad_token;
        const float* q0 = q + i0 * q_token;
        const float *k0 = k + block.from * k_token, *v0 = v + block.from * v_token;
        if (n) {
          sgemm(false, true, rows, n, size_, q0, q_token, k0, k_token, 0.0f, scratch, n);
          sgemm(false, true, rows, n, size_, grad0, grad_token, v0, v_token, 0.0f, ds, n);
        }
        for (int64_t i = i0; i < i1; ++i) {
          float delta = dot_row(grad + i * grad_token, o + i * o_token, size_);
          backward_row_of(args, scratch + (i - i0) * n, ds + (i - i0) * n, delta, b, h, i, block);
        }
        if (!n) {
          for (int64_t i = i0; i < i1; ++i) fill_zero(dq.at + i * dq.token, size_);
          continue;
        }
        sgemm(true, false, n, size_, rows, scratch, n, grad0, grad_token, 1.0f, dv.at + block.from * dv.token,
              dv.token);
        sgemm(true, false, n, size_, rows, ds, n, q0, q_token, 1.0f, dk.at + block.from * dk.token, dk.token);
        sgemm(false, false, rows, size_, n, ds, n, k0, k_token, 0.0f, dq.at + i0 * dq.token, dq.token);
      }
      write(dq, out_[0], to[0], b, h, tokens_);
    }
    write(dk, out_[1], to[1], b, kv, keys_);
    write(dv, out_[2], to[2], b, kv, keys_);
  }
  // Row i of scores and of do v becomes probabilities, and gradients of the scores.
  void backward_row_of(void* const* args, float* p, float* ds, float delta, int64_t b, int64_t h, int64_t i,
                       Keys block) const {
    const float lse = static_cast<const float*>(args[5])[(b * heads_ + h) * tokens_ + i];
    float* dbias = bias_gradient(args, b, h, i);
    const Keys keys = row_keys_in(args, b, i, block);
    float *p0 = p + (keys.from - block.from), *ds0 = ds + (keys.from - block.from);
    if (one_by_one()) {
      masked(args, p0, b, h, i, keys);
      backward_biased_row(p0, ds0, dbias ? dbias + keys.from : nullptr, keys.count(), scale_, lse, delta);
      if (dbias) zero_beside(dbias, {0, keys_}, keys);
    } else {
      backward_row(p0, ds0, keys.count(), scale_, lse, delta);
    }
    zero_beside(p, block, keys);
    zero_beside(ds, block, keys);
  }
};
}  // namespace

std::unique_ptr<LibraryCall> make_attention(const Node& node, const std::vector<Operand>& in,
                                            const std::vector<Operand>& out) {
  if (auto own = make_bf16_attention(node, in, out, panels::best_unit())) return own;
  return std::make_unique<Attention>(node, in, out);
}

}  // namespace lockstep::compiler
