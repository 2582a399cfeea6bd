// Fine-tuning with low-rank adapters on frozen weights (LoRA, Hu et al., arXiv 2106.09685).
#pragma once

#include <string>
#include <vector>

#include "core/nn/parameter.h"

namespace lockstep {

// Globs name weights, or the layers that they belong to: "blocks.*.attn.q", "**.weight".
struct LoraOptions {
  int64_t rank = 8;
  double alpha = 16;   // the adapter's output is multiplied by alpha / rank
  double dropout = 0;  // of adapters' inputs, in training: 0 <= dropout < 1
  // Empty: all linear layers but the heads (no_hidden_matrices), or the heads if the model has no other.
  std::vector<std::string> targets = {};
  // Weights that are trained in full in addition to the adapters.
  std::vector<std::string> also = {};
};

// The adapter of a weight W [out, in]: x W^T becomes x W^T + scale dropout(x) A^T B^T.
struct LowRank {
  Parameter a, b;  // [rank, in], [out, rank]
  double scale = 1, dropout = 0;
  std::string path;  // of the layer
};

// "blocks.3.attn.q" of "blocks.3.attn.q.weight" and of its bias, and "in_proj" of "in_proj_weight".
std::string layer_of(const std::string& fqn);
// Whether a glob names the tensor, or its layer.
bool names_weight(const std::string& glob, const std::string& fqn);
// Globs of embeddings and heads under their common names: the matrices that do not belong to hidden layers.
std::vector<std::string> no_hidden_matrices();

}  // namespace lockstep
