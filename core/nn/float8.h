// Matrix products of linear layers in float8: which layers, and in what formats.
#pragma once

#include <string>
#include <vector>

#include "core/types/dtype.h"

namespace lockstep {

// Activations and weights are f8_e4m3. A glob names weights, or the layers that they belong to.
struct Float8Options {
  DType gradients = DType::f8_e5m2;    // of outputs; or f8_e4m3: a digit more, a smaller range
  std::vector<std::string> skip = {};  // layers that stay in bf16
  bool head = false;                   // heads and tied embeddings take part, too (no_hidden_matrices)
};

}  // namespace lockstep
