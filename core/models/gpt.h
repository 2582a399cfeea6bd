// GPT-2. Radford et al., 2019. A model knows no mesh.
//
// Shapes: B sequences of a micro-batch, T tokens (at most `context`), C = width, H heads of D = C / H, V =
// vocab.
//
//   token.weight [V,C] (also the head)        position.weight [context,C]
//   blocks.I.norm1.{weight,bias} [C]          blocks.I.attn.qkv.{weight [3C,C],bias [3C]}
//   blocks.I.attn.out.{weight [C,C],bias [C]} blocks.I.norm2.{weight,bias} [C]
//   blocks.I.mlp.up.{weight [4C,C],bias [4C]} blocks.I.mlp.down.{weight [C,4C],bias [C]}
//   norm.{weight,bias} [C]
//
// Initialisation: normal 0.02; residual projections (attn.out, mlp.down) 0.02 / sqrt(2 depth); biases 0;
// norms 1.
#pragma once

#include <vector>

#include "core/base/key.h"
#include "core/nn/attention.h"
#include "core/nn/placement_rule.h"

namespace lockstep::models {

struct GptOptions {
  int64_t vocab =
      key(&vocab, "vocab", 256, "number of token ids; text as bytes has 256", between(1, 0x1p31 - 1));
  int64_t context = key(&context, "context", 128, "tokens per sequence", between(1, 0x1p24));
  int64_t width =
      key(&width, "width", 128, "features per token; a multiple of model.heads", between(1, 0x1p20));
  int64_t depth = key(&depth, "depth", 4, "number of blocks", between(1, 1024));
  int64_t heads = key(&heads, "heads", 4, "attention heads", between(1, 0x1p20));
  double eps = key(&eps, "eps", 1e-5, "epsilon of the norms", above(0));
  // Applied after the embeddings, attn.out and mlp.down, in training only.
  double dropout =
      key(&dropout, "dropout", 0.0, "share of activations that is dropped in training", from_below(0, 1));
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
  Tensor features(Tensor ids, Here at = Here::current()) const;  // the head's input: [B,T,C]
  static std::vector<PlacementRule> placements();                // the tp rows

 private:
  GptOptions options_;
  Embedding token_, position_;
  Dropout dropout_;
  Stack<GptBlock> blocks_;
  LayerNorm norm_;
};

}  // namespace lockstep::models
