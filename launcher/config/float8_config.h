// The keys train.float8.*: which layers multiply in float8 under train.precision float8, and how.
#pragma once

#include <string>
#include <vector>

#include "core/base/key.h"

namespace lockstep::launcher {

struct Float8Config {
  std::string gradients =
      key(&gradients, "train.float8.gradients", "e5m2",
          "format of gradients of outputs in float8 products; e4m3: a digit more, a smaller range",
          one_of({"e5m2", "e4m3"}));
  std::string recipe =
      key(&recipe, "train.float8.recipe", "tensorwise",
          "what has a scale of its own; tensorwise: a tensor; rowwise: each row of a product's operands "
          "(GPUs of compute capability 9.0); delayed: a tensor, from the steps before",
          one_of({"tensorwise", "rowwise", "delayed"}));
  int64_t history =
      key(&history, "train.float8.history", int64_t{16},
          "recipe delayed: how many steps' largest magnitudes a scale follows from", between(1, 0x1p16));
  std::vector<std::string> skip =
      key(&skip, "train.float8.skip", {},
          "globs of linear layers that stay in bf16 under train.precision float8");
  bool head = key(&head, "train.float8.head", false,
                  "whether heads, and embeddings that are heads, multiply in float8, too");
};

}  // namespace lockstep::launcher
