// BERT's encoder, shared by bert and bert_classifier: tokens see all others, positions are learned, norms
// follow the residual sums. Devlin et al., arXiv 1810.04805.
//
// Shapes: B sequences of a micro-batch, T tokens (at most `context`), C = width, F = hidden, V = vocab. FQNs
// are those of Hugging Face.
//
//   bert.embeddings.word_embeddings.weight [V,C]
//   bert.embeddings.position_embeddings.weight [context,C]
//   bert.embeddings.token_type_embeddings.weight [2,C]
//   bert.embeddings.LayerNorm.{weight,bias} [C]
//   bert.encoder.layer.I.attention.self.{query,key,value}.{weight [C,C],bias [C]}
//   bert.encoder.layer.I.attention.output.dense.{weight [C,C],bias [C]}
//   bert.encoder.layer.I.attention.output.LayerNorm.{weight,bias} [C]
//   bert.encoder.layer.I.intermediate.dense.{weight [F,C],bias [F]}
//   bert.encoder.layer.I.output.dense.{weight [C,F],bias [C]}
//   bert.encoder.layer.I.output.LayerNorm.{weight,bias} [C]
//
// Initialisation: normal 0.02; biases 0; norms 1.
#pragma once

#include "core/models/decoder.h"

namespace lockstep::models {

// The keys that the families share. A family adds its own after them.
struct BertKeys {
  int64_t vocab =
      key(&vocab, "vocab", 256, "number of token ids; text as bytes has 256", between(1, 0x1p31 - 1));
  int64_t context = key(&context, "context", 128, "tokens per sequence", between(1, 0x1p24));
  int64_t width =
      key(&width, "width", 128, "features per token; a multiple of model.heads", between(1, 0x1p20));
  int64_t depth = key(&depth, "depth", 4, "number of blocks", between(1, 1024));
  int64_t heads = key(&heads, "heads", 4, "attention heads", between(1, 0x1p20));
  int64_t hidden =
      key(&hidden, "hidden", 0, "features inside the MLP; 0 means 4 times the width", between(0, 0x1p24));
  double eps = key(&eps, "eps", 1e-12, "epsilon of the norms", above(0));
  double dropout =
      key(&dropout, "dropout", 0.0, "share of activations that is dropped in training", from_below(0, 1));
};

// norm(x + attn(x)), then norm(x + dense(gelu(dense(x)))).
class BertBlock {
 public:
  BertBlock(const Scope& at, const BertKeys& keys);
  // [B,T,C] -> same. `lengths`: i32 [B], tokens from lengths[b] on are masked; empty: none is.
  Tensor operator()(Tensor x, const Tensor& lengths) const;

 private:
  int64_t heads_;
  Linear query_, key_, value_, out_;
  LayerNorm norm1_;
  Linear up_, down_;
  LayerNorm norm2_;
  Dropout dropout_;
};

class BertEncoder {
 public:
  // `at` is the scope "bert"; `who` is the name in errors about ids.
  BertEncoder(std::string_view who, const Scope& at, const BertKeys& keys, Here line);
  // i32 [B,T] -> [B,T,C]; `lengths` as in a block. `segments`: i32 [B,T], 0 for a token of the first text and
  // 1 for one of the second; empty: all are 0.
  Tensor operator()(Tensor ids, const Tensor& lengths = {}, const Tensor& segments = {},
                    Here at = Here::current()) const;
  const Parameter& table() const { return token_.weight; }  // of tokens: [V,C]

 private:
  std::string who_;
  int64_t context_;
  Embedding token_, position_, segment_;
  LayerNorm norm_;
  Dropout dropout_;
  std::vector<BertBlock> blocks_;
};

// The shared parts of the Family rows: placement rules for tp, checks over several keys, and the sizes that
// tp has to divide.
std::vector<PlacementRule> bert_placements();
std::vector<std::string> bert_errors(const BertKeys& keys);
std::vector<SplitSize> bert_split_sizes(const BertKeys& keys);
RoughSize bert_rough(const BertKeys& keys);

}  // namespace lockstep::models
