// Attention layers: packed self-attention for gpt and ViT, separate projections with rotary positions for
// llama, and attention to another sequence for T5, BERT and decoders. B sequences, T tokens, C = width, H
// heads of D = C / H features (or head_dim), K heads of keys and values.
#pragma once

#include <optional>

#include "core/nn/layers.h"

namespace lockstep {

// Throws UserError, naming `who`, the line and both numbers, if heads does not divide width, kv_heads does
// not divide heads, or (rotary) the head dim is odd.
void check_heads(std::string_view who, const SourceLine& at, int64_t width, int64_t heads, int64_t kv_heads,
                 bool rotary);

// Options of a layer's attention, for every call.
struct AttentionLayerOptions {
  bool causal = true;                // a token sees itself and those before it
  bool bias = true;                  // of the projections
  int64_t kv_heads = 0;              // heads of keys and values; 0: as many as heads
  int64_t head_dim = 0;              // 0: width / heads
  int64_t memory_width = 0;          // width of the memory (MultiheadAttention); 0: width
  int64_t window = 0;                // with causal: itself and the window - 1 before it
  double dropout = 0;                // of probabilities, while training: 0 <= dropout < 1
  std::optional<double> scale = {};  // of q k^T; 1 / sqrt(D) if not given (T5: 1)
  Init out_init = init::normal(kInitStd);
};
// Masks of one call, and the bias added to the scores: as in sdpa (AttentionOptions).
struct AttentionMasks {
  Tensor mask = {}, bias = {}, documents = {}, lengths = {};
};

// qkv.weight [(H + 2K) D, C] with rows q, then k, then v; qkv.bias; out.weight [C, H D]; out.bias [C].
class Attention {
 public:
  // UserError when width is not a multiple of heads (without head_dim), or heads is not a multiple of
  // kv_heads.
  Attention(Scope at, int64_t width, int64_t heads, Init out_init = init::normal(kInitStd),
            Here line = Here::current());
  Attention(Scope at, int64_t width, int64_t heads, const AttentionLayerOptions& options,
            Here line = Here::current());
  // [B, T, C] -> [B, T, C]; UserError for another number of dims
  Tensor operator()(Tensor x, Here at = Here::current()) const;
  Tensor operator()(Tensor x, const AttentionMasks& masks, Here at = Here::current()) const;

 private:
  std::string path_;
  int64_t width_, heads_;
  AttentionLayerOptions options_;
  Linear qkv_, out_;
};

// q.weight [H D, C], k.weight and v.weight [K D, memory_width], out.weight [C, H D], each with a bias unless
// options.bias is false. Causal only if options are given with `causal`.
class MultiheadAttention {
 public:
  MultiheadAttention(Scope at, int64_t width, int64_t heads,
                     const AttentionLayerOptions& options = {.causal = false}, Here line = Here::current());
  // query [B, T, C], memory [B, S, memory_width] -> [B, T, C]: keys and values come from the memory.
  Tensor operator()(Tensor query, Tensor memory, const AttentionMasks& masks = {},
                    Here at = Here::current()) const;

 private:
  std::string path_;
  int64_t width_, heads_;
  AttentionLayerOptions options_;
  Linear q_, k_, v_, out_;
};

// Rotary positions and masks of LlamaAttention.
struct LlamaAttentionOptions {
  RopeOptions rope = {};
  int64_t window = 0;     // Mistral: a token sees itself and the window - 1 before it; 0: all before it
  bool qkv_bias = false;  // Qwen 2
  int64_t head_dim = 0;   // 0: width / heads
  Init out_init = init::normal(kInitStd);
};
// q.weight [H D, C], k.weight and v.weight [K D, C], out.weight [C, H D]; biases of q, k and v only with
// qkv_bias. Causal, with rotary positions of q and k.
class LlamaAttention {
 public:
  // UserError when width is not a multiple of heads, heads is not a multiple of kv_heads, or D is odd.
  LlamaAttention(Scope at, int64_t width, int64_t heads, int64_t kv_heads, double rope_theta,
                 Init out_init = init::normal(kInitStd), Here line = Here::current());
  LlamaAttention(Scope at, int64_t width, int64_t heads, int64_t kv_heads,
                 const LlamaAttentionOptions& options, Here line = Here::current());
  // [B, T, C] -> [B, T, C]; UserError for another number of dims. `positions`: as in RopeOptions.
  Tensor operator()(Tensor x, Here at = Here::current()) const;
  Tensor operator()(Tensor x, const AttentionMasks& masks, Tensor positions = {},
                    Here at = Here::current()) const;

 private:
  std::string path_;
  int64_t width_, heads_, kv_heads_;
  LlamaAttentionOptions options_;
  Linear q_, k_, v_, out_;
};

}  // namespace lockstep
