// The decoder of qwen, gemma and mistral: rotary positions, RMSNorm, gated MLPs and grouped-query attention,
// with Hugging Face's FQNs.
//
// Shapes: B sequences of a micro-batch, T tokens (at most `context`), C = width, H heads and K kv_heads of D
// = head_dim, F = hidden, V = vocab.
//
//   model.embed_tokens.weight [V,C]
//   model.layers.I.input_layernorm.weight [C]
//   model.layers.I.self_attn.q_proj.weight [H D,C]        .bias [H D] (qkv_bias)
//   model.layers.I.self_attn.{k,v}_proj.weight [K D,C]    .bias [K D] (qkv_bias)
//   model.layers.I.self_attn.{q,k}_norm.weight [D] (qk_norm)
//   model.layers.I.self_attn.o_proj.weight [C,H D]
//   model.layers.I.post_attention_layernorm.weight [C]
//   model.layers.I.mlp.{gate,up}_proj.weight [F,C]        model.layers.I.mlp.down_proj.weight [C,F]
//   model.norm.weight [C]                                 lm_head.weight [V,C] (unless tied)
//
// Initialisation: normal 0.02; biases 0; norms as if by weights of 1.
#pragma once

#include "core/models/decoder.h"
#include "core/models/heads.h"

namespace lockstep::models {

// The keys that these families share. A family adds its own after them.
struct RotaryKeys {
  int64_t vocab =
      key(&vocab, "vocab", 256, "number of token ids; text as bytes has 256", between(1, 0x1p31 - 1));
  int64_t context = key(&context, "context", 128, "tokens per sequence", between(1, 0x1p24));
  int64_t width = key(&width, "width", 128, "features per token", between(1, 0x1p20));
  int64_t depth = key(&depth, "depth", 4, "number of blocks", between(1, 1024));
  int64_t heads = key(&heads, "heads", 4, "attention heads", between(1, 0x1p20));
  int64_t kv_heads =
      key(&kv_heads, "kv_heads", 0, "heads of keys and values, a divisor of model.heads; 0 means model.heads",
          between(0, 0x1p20));
  int64_t head_dim = key(&head_dim, "head_dim", 0, "features of a head; 0 means model.width / model.heads",
                         between(0, 0x1p16));
  int64_t hidden =
      key(&hidden, "hidden", 0, "features inside the MLP; 0 chooses from the width", between(0, 0x1p24));
  double dropout =
      key(&dropout, "dropout", 0.0, "share of activations that is dropped in training", from_below(0, 1));
};

struct RotaryDecoderOptions {
  // The sizes from the keys; a default replaces each 0.
  RotaryDecoderOptions(const RotaryKeys& keys, double theta, double eps);
  DecoderSizes sizes;
  bool chosen_head_dim;  // the head dim follows from width and heads
  int64_t kv_heads, head_dim, hidden;
  double rope_theta;
  bool qkv_bias = false;
  bool qk_norm = false;        // heads of q and k are normalised before the rotation
  bool from_one = false;       // norms multiply by 1 + weight, which starts at 0
  bool tied = false;           // the head is the token table
  bool gelu = false;           // the gate's activation; else silu
  bool scaled_tokens = false;  // token features times sqrt(width)
  double logit_softcap = 0;    // logits are softcap tanh(logits / softcap); 0: as they are
  int64_t window = 0;          // tokens that a token sees, itself included; 0: all before it, and itself
};

// RmsNorm that multiplies by weight or by 1 + weight.
class CountedRmsNorm {
 public:
  CountedRmsNorm(Scope at, int64_t width, double eps, bool from_one, Here line = Here::current());
  Tensor operator()(Tensor x, Here at = Here::current()) const;  // [..., width] -> same

 private:
  std::string path_;
  Parameter weight_;
  double eps_;
  bool from_one_;
};

class RotaryAttention {
 public:
  RotaryAttention(const Scope& at, const RotaryDecoderOptions& options);
  Tensor operator()(Tensor x) const;  // [B,T,C] -> same

 private:
  RotaryDecoderOptions options_;
  Linear q_, k_, v_, out_;
  std::vector<CountedRmsNorm> head_norms_;  // of q and of k, or none
};

// x + attn(norm(x)), then x + down(act(gate(y)) * up(y)) with y = norm(x).
class RotaryBlock {
 public:
  RotaryBlock(const Scope& at, const RotaryDecoderOptions& options);
  Tensor operator()(Tensor x) const;  // [B,T,C] -> same

 private:
  bool gelu_;
  CountedRmsNorm norm1_;
  RotaryAttention attn_;
  CountedRmsNorm norm2_;
  Linear gate_, up_, down_;
  Dropout dropout_;
};

class RotaryDecoder {
 public:
  // The options must have no rotary_errors; `who` is the name in errors about inputs.
  RotaryDecoder(std::string_view who, const Scope& at, const RotaryDecoderOptions& options, Here line);
  Tensor operator()(Tensor ids, Here at = Here::current()) const;  // i32 [B,T] -> logits [B,T,V]
  Tensor features(Tensor ids, Here at = Here::current()) const;    // the head's input: [B,T,C]

 private:
  std::string who_;
  RotaryDecoderOptions options_;
  Embedding token_;
  Dropout dropout_;
  Stack<RotaryBlock> blocks_;
  CountedRmsNorm norm_;
  std::vector<Linear> head_;  // one, or none where it is tied
};

// The shared parts of the Family rows: the model, checks over several keys, and the sizes that tp has to
// divide.
Model rotary_model(std::string_view who, const Scope& at, const RotaryDecoderOptions& options, Here line);
std::vector<std::string> rotary_errors(const RotaryDecoderOptions& options);
std::vector<SplitSize> rotary_split_sizes(const RotaryDecoderOptions& options);

}  // namespace lockstep::models
