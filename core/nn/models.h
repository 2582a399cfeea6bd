// The models that a config can name: gpt and llama. A model knows no mesh.
//
// Shapes: B sequences of a micro-batch, T tokens (at most `context`), C = width, H heads of D = C / H, K =
// kv_heads, F = hidden, V = vocab.
//
//   gpt    token.weight [V,C] (also the head)        position.weight [context,C]
//          blocks.I.norm1.{weight,bias} [C]          blocks.I.attn.qkv.{weight [3C,C],bias [3C]}
//          blocks.I.attn.out.{weight [C,C],bias [C]} blocks.I.norm2.{weight,bias} [C]
//          blocks.I.mlp.up.{weight [4C,C],bias [4C]} blocks.I.mlp.down.{weight [C,4C],bias [C]}
//          norm.{weight,bias} [C]
//   llama  token.weight [V,C]
//          blocks.I.norm1.weight [C]                 blocks.I.attn.{q,out}.weight [C,C]
//          blocks.I.attn.{k,v}.weight [K D,C]        blocks.I.norm2.weight [C]
//          blocks.I.mlp.{gate,up}.weight [F,C]       blocks.I.mlp.down.weight [C,F]
//          norm.weight [C]                           head.weight [V,C]
//
// Initialisation: normal 0.02; residual projections (attn.out, mlp.down) 0.02 / sqrt(2 depth); biases 0;
// norms 1.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/nn/attention.h"
#include "core/nn/placement_rule.h"

namespace lockstep::models {

struct GptOptions {
  int64_t vocab = 256;
  int64_t context = 128;
  int64_t width = 128;
  int64_t depth = 4;
  int64_t heads = 4;
  double eps = 1e-5;
  double dropout = 0;  // after the embeddings, attn.out and mlp.down; in training only
};

struct LlamaOptions {
  int64_t vocab = 256;
  int64_t context = 128;
  int64_t width = 128;
  int64_t depth = 4;
  int64_t heads = 4;
  int64_t kv_heads = 0;  // 0: heads
  int64_t hidden = 0;    // 0: 8/3 of the width, rounded up to a multiple of 64
  double rope_theta = 10000;
  double eps = 1e-5;
  double dropout = 0;  // after the embedding, attn.out and mlp.down; in training only
};

// Pre-norm block: x + attn(norm1(x)), then x + down(gelu(up(norm2(x)))), gelu in its tanh form. [B,T,C] ->
// [B,T,C]
struct GptBlock {
  GptBlock(Scope at, const GptOptions& options);
  Tensor operator()(Tensor x) const;
  LayerNorm norm1;
  Attention attn;
  LayerNorm norm2;
  Linear up, down;
  Dropout attn_dropout, mlp_dropout;
};

// A GPT-2: learned positions, final norm, the head tied to the token table. Radford et al., 2019.
class Gpt {
 public:
  // UserError when an option is out of range or width is not a multiple of heads.
  Gpt(Scope at, const GptOptions& options, Here line = Here::current());
  // ids i32 [B,T] -> logits [B,T,V]. UserError when ids has other dims or T is more than the context.
  Tensor operator()(Tensor ids, bool training = true, Here at = Here::current()) const;
  static std::vector<PlacementRule> placements();  // the tp rows

 private:
  GptOptions options_;
  Embedding token_, position_;
  Dropout dropout_;
  Stack<GptBlock> blocks_;
  LayerNorm norm_;
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

// A Llama: rotary positions, RMSNorm, SwiGLU, grouped keys and values, a head of its own. Touvron et al.,
// 2023.
class Llama {
 public:
  // UserError when an option is out of range, width is not a multiple of heads, heads not one of kv_heads, or
  // the head dim is odd.
  Llama(Scope at, const LlamaOptions& options, Here line = Here::current());
  // ids i32 [B,T] -> logits [B,T,V]. UserError when ids has other dims or T is more than the context.
  Tensor operator()(Tensor ids, bool training = true, Here at = Here::current()) const;
  static std::vector<PlacementRule> placements();  // the tp rows

 private:
  LlamaOptions options_;
  Embedding token_;
  Dropout dropout_;
  Stack<LlamaBlock> blocks_;
  RmsNorm norm_;
  Linear head_;
};

// The options of every kind, as the config's "model" has them.
struct ModelOptions {
  std::string kind = "gpt";
  int64_t vocab = 256;
  int64_t context = 128;
  int64_t width = 128;
  int64_t depth = 4;
  int64_t heads = 4;
  int64_t kv_heads = 0;
  int64_t hidden = 0;
  double rope_theta = 10000;
  double eps = 1e-5;
  double dropout = 0;
};

// A model whatever its kind: a call, and the table of placements for State::place_by_default.
struct Model {
  std::function<Tensor(Tensor ids, bool training)> logits;
  std::vector<PlacementRule> placements;
};
// Records the model's parameters under `at`, which must be the root for the placement table to match.
// UserError for an unknown kind.
Model model_from(Scope at, const ModelOptions& options, Here line = Here::current());

}  // namespace lockstep::models
