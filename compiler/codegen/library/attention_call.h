// Shared code of the CPU's attention calls: layout of heads, which keys a row attends to, masks over its
// scores.
#pragma once

#include "compiler/codegen/library/library.h"
#include "compiler/codegen/library/panels.h"
#include "core/table/attention.h"

namespace lockstep::compiler {

// [batch, tokens, heads, head_dim] with a dense last dim.
struct Heads {
  DType dtype = DType::f32;
  int64_t batch = 0, token = 0, head = 0;  // strides
  char* at(void* base, int64_t b, int64_t h, int64_t t) const {
    return static_cast<char*>(base) +
           (b * batch + h * head + t * token) * static_cast<int64_t>(size_of(dtype));
  }
};

// Strides of a dense tensor over the scores [batch, heads, tokens, keys], 0 along its dims of size 1.
struct OverScores {
  int64_t stride[4] = {};
  int64_t at(int64_t b, int64_t h, int64_t t, int64_t s) const {
    return b * stride[0] + h * stride[1] + t * stride[2] + s * stride[3];
  }
};

// One task per (batch, kv head), so that sums over query heads and row blocks have one fixed order.
class AttentionCall : public HostCall {
 public:
  static constexpr int64_t kRows = 64;  // query rows per block

  AttentionCall(const Node& node, const std::vector<Operand>& in, const std::vector<Operand>& out);
  size_t workspace(int threads) const override { return static_cast<size_t>(threads) * bytes_per_thread(); }
  std::string algorithm() const override;
  double flops() const override;
  void run(void* const* args, void* workspace, int threads) const override;

 protected:
  struct Keys {
    int64_t from, to;  // to >= from
    int64_t count() const { return to - from; }
  };
  virtual size_t bytes_per_thread() const = 0;
  virtual void forward(void* const* args, void* scratch, int64_t b, int64_t kv) const = 0;
  // args: do, q, k, v, o, lse, masks -> dq, dk, dv, dbias
  virtual void backward(void* const* args, void* scratch, int64_t b, int64_t kv) const = 0;

  // Whether scores must be scaled and masked one by one before the softmax. Otherwise whole ranges of keys
  // are left out.
  bool one_by_one() const { return reads_.documents || reads_.mask || reads_.bias; }
  // Keys that row i may attend to by causal mask, window and length.
  Keys row_keys(void* const* args, int64_t b, int64_t i) const;
  // Those of them that are in the block.
  Keys row_keys_in(void* const* args, int64_t b, int64_t i, Keys block) const;
  // A range that contains all keys that rows [i0, i1) may attend to: the union of row_keys, without keys at
  // its ends whose document is outside the range of the rows' documents.
  Keys block_keys(void* const* args, int64_t b, int64_t i0, int64_t i1) const;
  // Scores of row i and keys [from, to), scaled, with the bias, and -inf where the row does not attend.
  // False: the row attends to no key.
  bool masked(void* const* args, float* row, int64_t b, int64_t h, int64_t i, Keys keys) const;
  // Row (b, h, i) of the gradient of the scores, from key 0; null if it is not wanted.
  float* bias_gradient(void* const* args, int64_t b, int64_t h, int64_t i) const;

  AttentionReads reads_;
  bool backward_;
  int64_t batch_, tokens_, heads_, size_, keys_, kv_heads_;
  float scale_;
  DType dtype_;
  Heads in_[5], out_[3];
  OverScores mask_, bias_;
};

// With the processor's bf16 instructions; null if `unit` is none, or if heads have another dtype.
std::unique_ptr<LibraryCall> make_bf16_attention(const Node& node, const std::vector<Operand>& in,
                                                 const std::vector<Operand>& out, panels::Unit unit);

}  // namespace lockstep::compiler
