// Attention forward and backward: blocks of query rows, scores in a small buffer, products on oneDNN's sgemm.
// One task per (batch, kv head), so that sums over query heads and row blocks have one fixed order.
// Probabilities are recomputed in the backward pass from the log-sum-exp (Dao et al., FlashAttention, 2022).
// Heads of bf16 and f16 are widened into f32 and rounded once.
#include <omp.h>

#include <algorithm>
#include <cmath>

#include "compiler/codegen/library/attention_rows.h"
#include "compiler/codegen/library/library.h"
#include "compiler/codegen/sums/halves.h"
#include "core/base/error.h"
#include "core/ops/attention.h"

namespace lockstep::compiler {

namespace {
using namespace rows;
constexpr int64_t kRows = 64;  // query rows per block

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

// Strides of a dense tensor over the scores [batch, heads, tokens, keys], 0 along its dims of size 1.
struct OverScores {
  int64_t stride[4] = {};
  int64_t at(int64_t b, int64_t h, int64_t t, int64_t s) const {
    return b * stride[0] + h * stride[1] + t * stride[2] + s * stride[3];
  }
};
OverScores over_scores(const Operand& operand) {
  LS_CHECK(is_dense(operand), "attention needs a dense mask and bias");
  OverScores out;
  int64_t next = 1;
  for (size_t d = 4; d-- > 0; next *= operand.shape[d]) out.stride[d] = operand.shape[d] == 1 ? 0 : next;
  return out;
}

class Attention : public HostCall {
 public:
  Attention(const Node& node, const std::vector<Operand>& in, const std::vector<Operand>& out)
      : reads_(attention_reads(node)), backward_(reads_.first > 0) {
    LS_CHECK(in.size() == reads_.inputs && !reads_.seed, node.op, " of ", in.size(), " inputs");
    const Operand &q = in[reads_.first], &k = in[reads_.first + 1];
    batch_ = q.shape[0], tokens_ = q.shape[1], heads_ = q.shape[2], size_ = q.shape[3], keys_ = k.shape[1],
    kv_heads_ = k.shape[2];
    scale_ = static_cast<float>(node.attrs.number("scale"));
    LS_CHECK(!reads_.causal || tokens_ == keys_, "causal attention over ", tokens_, " queries and ", keys_,
             " keys");
    for (size_t i = 0; i < (backward_ ? 5 : 3); ++i) in_[i] = heads_of(in[i]);
    for (size_t i = 0; i < (backward_ ? 3 : 1); ++i) out_[i] = heads_of(out[i]);
    if (reads_.mask) mask_ = over_scores(in[reads_.mask]);
    if (reads_.bias) bias_ = over_scores(in[reads_.bias]);
    dtype_ = q.dtype;
  }
  size_t workspace(int threads) const override { return static_cast<size_t>(threads) * per_thread() * 4; }
  std::string algorithm() const override {
    std::string prefix = is_half(dtype_) ? str(name(dtype_), " ") : "";
    return str(prefix, "sdpa", backward_ ? "_grad" : "", " b=", batch_, " t=", tokens_,
               keys_ == tokens_ ? std::string() : str(" s=", keys_), " h=", heads_, "/", kv_heads_,
               " d=", size_, masks_text(reads_), " rows=", kRows);
  }
  double flops() const override {
    return (backward_ ? 10.0 : 4.0) * static_cast<double>(batch_ * heads_) *
           attention_pairs(reads_, tokens_, keys_) * static_cast<double>(size_);
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
  struct Keys {
    int64_t from, to;  // to >= from
    int64_t count() const { return to - from; }
  };
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

  // Whether scores are scaled and masked one by one before the softmax, or whole ranges of keys are left out.
  bool one_by_one() const { return reads_.documents || reads_.mask || reads_.bias; }
  // Keys that row i may see by causal, window and length.
  Keys row_keys(void* const* args, int64_t b, int64_t i) const {
    int64_t from = reads_.window ? std::max<int64_t>(0, i - reads_.window + 1) : 0,
            to = reads_.causal ? i + 1 : keys_;
    if (reads_.lengths) to = std::clamp<int64_t>(static_cast<const int32_t*>(args[reads_.lengths])[b], 0, to);
    return {std::min(from, to), to};
  }
  // Keys of which any of rows [i0, i1) may see some; beside row_keys, those whose document lies between the
  // first and last one of the rows.
  Keys block_keys(void* const* args, int64_t b, int64_t i0, int64_t i1) const {
    Keys keys{row_keys(args, b, i0).from, row_keys(args, b, i1 - 1).to};
    if (reads_.documents) {
      const int32_t* ids = static_cast<const int32_t*>(args[reads_.documents]) + b * keys_;
      const auto [least, most] = std::minmax_element(ids + i0, ids + i1);
      auto other = [&](int64_t j) { return ids[j] < *least || ids[j] > *most; };
      while (keys.count() && other(keys.from)) ++keys.from;
      while (keys.count() && other(keys.to - 1)) --keys.to;
    }
    keys.to = std::max(keys.from, keys.to);
    return keys;
  }
  // Scores of row i and keys [from, to) scaled, with the bias, and -inf where the row does not see. False: it
  // sees nothing.
  bool masked(void* const* args, float* row, int64_t b, int64_t h, int64_t i, Keys keys) const {
    const int64_t n = keys.count();
    const float* bias =
        reads_.bias ? static_cast<const float*>(args[reads_.bias]) + bias_.at(b, h, i, keys.from) : nullptr;
    bias_row(row, n, scale_, bias, bias_.stride[3]);
    if (reads_.documents) {
      const int32_t* ids = static_cast<const int32_t*>(args[reads_.documents]) + b * keys_;
      keep_document(row, n, ids + keys.from, ids[i]);
    }
    if (reads_.mask)
      keep_masked(row, n, static_cast<const uint8_t*>(args[reads_.mask]) + mask_.at(b, h, i, keys.from),
                  mask_.stride[3]);
    return !sees_nothing(row, n);
  }

  void forward(void* const* args, float* scratch, int64_t b, int64_t kv) const {
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
  // Row i of the block's scores becomes exp(score - max), 0 where the row does not see; gives the sum (1 for
  // a row that sees nothing) and the log-sum-exp (0).
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
  Keys row_keys_in(void* const* args, int64_t b, int64_t i, Keys block) const {
    Keys keys = row_keys(args, b, i);
    keys.from = std::clamp(keys.from, block.from, block.to);
    keys.to = std::clamp(keys.to, keys.from, block.to);
    return keys;
  }
  static void zero_beside(float* row, Keys block, Keys keys) {
    fill_zero(row, keys.from - block.from);
    fill_zero(row + (keys.to - block.from), block.to - keys.to);
  }

  // args: do, q, k, v, o, lse, masks -> dq, dk, dv, dbias
  void backward(void* const* args, float* scratch, int64_t b, int64_t kv) const {
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
  // Row i of scores and of do v: probabilities, and gradients of the scores.
  void backward_row_of(void* const* args, float* p, float* ds, float delta, int64_t b, int64_t h, int64_t i,
                       Keys block) const {
    const int64_t row = (b * heads_ + h) * tokens_ + i;
    const float lse = static_cast<const float*>(args[5])[row];
    float* dbias =
        reads_.bias_gradient ? static_cast<float*>(args[reads_.inputs + 3]) + row * keys_ : nullptr;
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

  AttentionReads reads_;
  bool backward_;
  int64_t batch_, tokens_, heads_, size_, keys_, kv_heads_;
  float scale_;
  DType dtype_;
  Heads in_[5], out_[3];
  OverScores mask_, bias_;
};
}  // namespace

std::unique_ptr<LibraryCall> make_attention(const Node& node, const std::vector<Operand>& in,
                                            const std::vector<Operand>& out) {
  return std::make_unique<Attention>(node, in, out);
}

}  // namespace lockstep::compiler
