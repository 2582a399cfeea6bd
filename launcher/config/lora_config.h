// The keys train.lora.*: train adapters instead of the weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/key.h"

namespace lockstep::launcher {

struct LoraConfig {
  int64_t rank =
      key(&rank, "train.lora.rank", 0, "of adapters that are trained beside frozen weights (LoRA); 0: none",
          between(0, 0x1p16));
  double alpha = key(&alpha, "train.lora.alpha", 16.0, "what adapters add is times alpha / rank", above(0));
  double dropout = key(&dropout, "train.lora.dropout", 0.0,
                       "share of what adapters read that is dropped in training", from_below(0, 1));
  std::vector<std::string> targets =
      key(&targets, "train.lora.targets", {},
          "globs of the weights of linear layers, or of the layers, that have adapters; none: all but heads, "
          "or heads where a model has no other");
  std::vector<std::string> also =
      key(&also, "train.lora.also", {}, "globs of weights that are trained as a whole beside the adapters");
};

}  // namespace lockstep::launcher
