// Matrix products of linear layers in float8: which layers, and in what formats.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ops/apply.h"

namespace lockstep {

// What has a scale of its own: a tensor, or each row of what a product reads, along which it sums, so that
// small rows keep their digits beside large ones. By torchao's names.
enum class Float8Recipe : uint8_t { tensorwise, rowwise };
// UserError naming both for another word.
Float8Recipe parse_float8_recipe(std::string_view name, Here at = Here::current());

// Activations and weights are f8_e4m3. A glob names weights, or the layers that they belong to.
struct Float8Options {
  DType gradients = DType::f8_e5m2;    // of outputs; or f8_e4m3: a digit more, a smaller range
  std::vector<std::string> skip = {};  // layers that stay in bf16
  bool head = false;                   // heads and tied embeddings take part, too (no_hidden_matrices)
  Float8Recipe recipe = Float8Recipe::tensorwise;
};

}  // namespace lockstep
