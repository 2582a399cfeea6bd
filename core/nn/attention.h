// Causal self-attention for gpt (packed q, k, v) and for llama (separate, rotary, grouped keys and values).
// B sequences, T tokens, C = width, H heads of D = C / H features, K heads of keys and values.
#pragma once

#include "core/nn/layers.h"

namespace lockstep {

// UserError naming `who`, the line and both numbers when width % heads, heads % kv_heads, or (rotary) an odd
// head dim does not work.
void check_heads(std::string_view who, const SourceLine& at, int64_t width, int64_t heads, int64_t kv_heads,
                 bool rotary);

// qkv.weight [3C, C] with rows q, then k, then v; qkv.bias [3C]; out.weight [C, C]; out.bias [C].
class Attention {
 public:
  // UserError when width is not a multiple of heads.
  Attention(Scope at, int64_t width, int64_t heads, Init out_init = init::normal(kInitStd),
            Here line = Here::current());
  Tensor operator()(Tensor x, Here at = Here::current())
      const;  // [B, T, C] -> [B, T, C]; UserError for another number of dims

 private:
  std::string path_;
  int64_t width_, heads_;
  Linear qkv_, out_;
};

// q.weight [C, C], k.weight and v.weight [K D, C], out.weight [C, C]; no biases. Rotary embedding of q and k,
// half-split.
class LlamaAttention {
 public:
  // UserError when width is not a multiple of heads, heads not one of kv_heads, or D is odd.
  LlamaAttention(Scope at, int64_t width, int64_t heads, int64_t kv_heads, double rope_theta,
                 Init out_init = init::normal(kInitStd), Here line = Here::current());
  Tensor operator()(Tensor x, Here at = Here::current())
      const;  // [B, T, C] -> [B, T, C]; UserError for another number of dims

 private:
  std::string path_;
  int64_t width_, heads_, kv_heads_;
  double rope_theta_;
  Linear q_, k_, v_, out_;
};

}  // namespace lockstep
