// Attention, the masks it takes, and rotary positions. B sequences, T tokens, S keys, H heads of D features.
#pragma once

#include <optional>

#include "core/ops/apply.h"

namespace lockstep {

// Which keys a token sees, and what is added to its scores. Masks combine: a token sees a key if causal,
// window, lengths, documents and mask all allow it.
struct AttentionOptions {
  bool causal = false;               // token i sees keys 0 ... i; as many keys as tokens
  std::optional<double> scale = {};  // of q k^T; 1 / sqrt(D) if not given
  // bool, true = visible; its dims are matched from the last with [B, H, T, S] and are equal or 1. Masks made
  // from indices or lengths (causal_mask, window_mask, padding_mask below, tril of ones, comparisons of
  // arange), also combined by &&, are recognised. They become causal, window and lengths, and the mask is
  // never computed.
  Tensor mask = {};
  // floats of q's dtype or f32, dims as in mask: added to the scaled scores; -inf masks. Its gradient is that
  // of the scores, summed over dims of size 1.
  Tensor bias = {};
  int64_t window = 0;  // with causal: a token sees itself and the window - 1 before it; 0: all before it
  // Each attention probability p becomes 0 with this probability, else p / (1 - dropout). Random numbers are
  // keyed per sample, as in dropout().
  double dropout = 0;
  Tensor documents = {};  // i32 [B, T]: a token sees tokens of its own number; as many keys as tokens
  Tensor lengths = {};    // i32 [B]: keys from lengths[b] on are padding and masked
};

// softmax(scale q k^T + bias) v per head: q [B, T, H, D], k and v [B, S, kv_heads, D] -> like q. kv_heads
// divides H: query head h reads key head h / (H / kv_heads). A masked key has the weight 0, which multiplies
// its value: the value must be finite, since 0 times NaN or infinity is NaN, as in PyTorch. A kernel may skip
// keys after `lengths`; fill padding with zeros if this must not matter. A token that sees no key gives 0,
// and its gradients are 0. Scores, softmax and sums are f32 (f64 for f64). A GPU uses cuDNN for bf16 and f16
// with no masks but causal and window. cuDNN rounds the probabilities before it multiplies by v, and the
// gradients of the scores before those of q and k. Forward keeps the log-sum-exp, not the scores; the
// gradients of q, k, v and bias recompute the scores and sum in a fixed order. It is one kernel without a [T,
// S] tensor, except with dropout and for the gradient of the bias. Vaswani et al., arXiv 1706.03762; heads in
// groups: Ainslie et al., arXiv 2305.13245; the window: Jiang et al., arXiv 2310.06825; the gradient: Dao et
// al., arXiv 2205.14135. PyTorch's scaled_dot_product_attention has heads before tokens.
Tensor sdpa(Tensor q, Tensor k, Tensor v, const AttentionOptions& options, Here at = Here::current());
Tensor sdpa(Tensor q, Tensor k, Tensor v, bool causal = true, Here at = Here::current());

// Masks for `mask` above, bool; sdpa recognises them and does not compute them. `beside` is any tensor of the
// graph.
Tensor causal_mask(Tensor beside, int64_t tokens, Here at = Here::current());  // [T, T]: key <= token
// [T, T]: key <= token and key > token - window.
Tensor window_mask(Tensor beside, int64_t tokens, int64_t window, Here at = Here::current());
// lengths i32 [B] -> [B, 1, 1, keys]: key < length.
Tensor padding_mask(Tensor lengths, int64_t keys, Here at = Here::current());

// How rotary positions rotate the pairs of a head.
struct RopeOptions {
  double theta = 10000;
  Tensor positions = {};     // i32 [T] or [B, T]; 0, 1, 2, ... if not given
  bool interleaved = false;  // pairs (2i, 2i + 1), as GPT-J and Meta's Llama; else (i, i + dims / 2)
  int64_t dims = 0;          // how many leading features of a head rotate, an even number; 0: all
  double factor = 1;         // frequencies are divided by it: longer contexts (arXiv 2306.15595)
  // With `original` tokens, as Llama 3.1: wavelengths above original / low tokens are stretched by the
  // factor, those below original / high are not, and those between are interpolated.
  int64_t original = 0;
  double low = 1, high = 4;
};
// Rotary positions: x [batch, tokens, heads, head_dim] -> same. At position t pair i is rotated by t
// theta^(-2 i / dims), theta > 0. Frequencies are computed in f64, angles and products in f32 (f64 for f64).
// Gradient: dy rotated back. Su et al., arXiv 2104.09864, with the half-split pairs of GPT-NeoX and Hugging
// Face's Llama, or with neighbouring pairs.
Tensor rope(Tensor x, const RopeOptions& options, Here at = Here::current());
Tensor rope(Tensor x, double theta, Here at = Here::current());

}  // namespace lockstep
