// The keys train.lora.*: train adapters instead of the weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/key.h"

namespace lockstep::launcher {

struct LoraConfig {
  int64_t rank =
      key(&rank, "train.lora.rank", 0,
          "rank of adapters that are trained with frozen weights (LoRA); 0: none", between(0, 0x1p16));
  double alpha =
      key(&alpha, "train.lora.alpha", 16.0, "the output of adapters is scaled by alpha / rank", above(0));
  double dropout = key(&dropout, "train.lora.dropout", 0.0, "dropout on the input of adapters in training",
                       from_below(0, 1));
  std::vector<std::string> targets = key(&targets, "train.lora.targets", {},
                                         "globs of linear layers, or of their weights, that get adapters; "
                                         "none: all except heads, or heads if a model has no others");
  std::vector<std::string> also = key(&also, "train.lora.also", {},
                                      "globs of weights that are fully trained in addition to the adapters");
};

}  // namespace lockstep::launcher
