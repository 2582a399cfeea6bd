// The keys train.float8.*: which layers multiply in float8 under train.precision float8, and how.
#pragma once

#include <string>
#include <vector>

#include "core/base/key.h"

namespace lockstep::launcher {

struct Float8Config {
  std::string gradients =
      key(&gradients, "train.float8.gradients", "e5m2",
          "format of output gradients in float8 products; e4m3: one more bit of precision, a smaller range",
          one_of({"e5m2", "e4m3"}));
  std::string recipe =
      key(&recipe, "train.float8.recipe", "tensorwise",
          "granularity of scales; tensorwise: per tensor; rowwise: per row of a product's operands (GPUs of "
          "compute capability 9.0); delayed: per tensor, from earlier steps",
          one_of({"tensorwise", "rowwise", "delayed"}));
  int64_t history = key(&history, "train.float8.history", int64_t{16},
                        "recipe delayed: number of earlier steps whose largest magnitudes determine a scale",
                        between(1, 0x1p16));
  std::vector<std::string> skip =
      key(&skip, "train.float8.skip", {},
          "globs of linear layers that stay in bf16 under train.precision float8");
  bool head = key(&head, "train.float8.head", false,
                  "whether heads, and embeddings tied to heads, also multiply in float8");
};

}  // namespace lockstep::launcher
