// Llama: rotary positions, RMSNorm, SwiGLU, grouped keys and values. Touvron et al., 2023.
//
// Shapes: B sequences of a micro-batch, T tokens (at most `context`), C = width, H heads of D = head_dim, K =
// kv_heads, F = hidden, V = vocab.
//
//   token.weight [V,C]
//   blocks.I.norm1.weight [C]                 blocks.I.attn.q.weight [H D,C]
//   blocks.I.attn.{k,v}.weight [K D,C]        blocks.I.attn.out.weight [C,H D]
//   blocks.I.norm2.weight [C]                 blocks.I.mlp.{gate,up}.weight [F,C]
//   blocks.I.mlp.down.weight [C,F]            norm.weight [C]
//   head.weight [V,C] (unless tied)
//
// Initialisation: normal 0.02; residual projections (attn.out, mlp.down) 0.02 / sqrt(2 depth); norms 1.
#pragma once

#include <vector>

#include "core/base/key.h"
#include "core/nn/attention.h"
#include "core/nn/placement_rule.h"

namespace lockstep::models {

struct LlamaOptions {
  int64_t vocab =
      key(&vocab, "vocab", 256, "number of token ids; text as bytes has 256", between(1, 0x1p31 - 1));
  int64_t context = key(&context, "context", 128, "tokens per sequence", between(1, 0x1p24));
  int64_t width =
      key(&width, "width", 128, "features per token; a multiple of model.heads", between(1, 0x1p20));
  int64_t depth = key(&depth, "depth", 4, "number of blocks", between(1, 1024));
  int64_t heads = key(&heads, "heads", 4, "attention heads", between(1, 0x1p20));
  int64_t kv_heads =
      key(&kv_heads, "kv_heads", 0, "heads of keys and values, a divisor of model.heads; 0 means model.heads",
          between(0, 0x1p20));
  int64_t head_dim = key(&head_dim, "head_dim", 0, "features of a head; 0 means model.width / model.heads",
                         between(0, 0x1p16));
  // 0: 8/3 of the width, rounded up to a multiple of 64.
  int64_t hidden =
      key(&hidden, "hidden", 0, "features inside the MLP; 0 chooses from the width", between(0, 0x1p24));
  double rope_theta = key(&rope_theta, "rope_theta", 10000.0, "base of the rotary embedding", above(0));
  double rope_factor =
      key(&rope_factor, "rope_factor", 1.0,
          "rotary frequencies are divided by it, for contexts longer than the first", above(0));
  int64_t rope_original =
      key(&rope_original, "rope_original", 0,
          "Llama 3.1: tokens of the first training; waves longer than model.rope_original / model.rope_low "
          "are stretched by model.rope_factor, those shorter than model.rope_original / model.rope_high are "
          "not; 0: all are",
          between(0, 0x1p31 - 1));
  double rope_low = key(&rope_low, "rope_low", 1.0, "with model.rope_original: see there", above(0));
  double rope_high = key(&rope_high, "rope_high", 4.0, "with model.rope_original: see there", above(0));
  bool tied = key(&tied, "tied", false, "the head is the token table");
  double eps = key(&eps, "eps", 1e-5, "epsilon of the norms", above(0));
  // Applied after the embedding, attn.out and mlp.down, in training only.
  double dropout =
      key(&dropout, "dropout", 0.0, "share of activations that is dropped in training", from_below(0, 1));
};

// Pre-norm block: x + attn(norm1(x)), then SwiGLU: x + down(silu(gate(y)) * up(y)) with y = norm2(x). [B,T,C]
// -> [B,T,C]
struct LlamaBlock {
  LlamaBlock(Scope at, const LlamaOptions& options);
  Tensor operator()(Tensor x) const;
  RmsNorm norm1;
  LlamaAttention attn;
  RmsNorm norm2;
  Linear gate, up, down;
  Dropout attn_dropout, mlp_dropout;
};

// A Llama: rotary positions, RMSNorm, SwiGLU, grouped keys and values. Touvron et al., 2023.
class Llama {
 public:
  // Throws UserError if an option is out of range, width is not a multiple of heads (without head_dim), heads
  // is not a multiple of kv_heads, or the head dim is odd.
  Llama(Scope at, const LlamaOptions& options, Here line = Here::current());
  // ids i32 [B,T] -> logits [B,T,V]. UserError when ids has other dims or T is more than the context.
  Tensor operator()(Tensor ids, bool training = true, Here at = Here::current()) const;
  Tensor features(Tensor ids, Here at = Here::current()) const;  // the head's input: [B,T,C]
  static std::vector<PlacementRule> placements();                // the tp rows

 private:
  LlamaOptions options_;
  Embedding token_;
  Dropout dropout_;
  Stack<LlamaBlock> blocks_;
  RmsNorm norm_;
  std::vector<Linear> head_;  // one, or none where it is tied
};

}  // namespace lockstep::models
