// Options of float8 matrix products in linear layers: which layers, formats and scales.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ops/apply.h"

namespace lockstep {

// tensorwise: one scale per tensor. rowwise: one scale per row of an operand (the dim that the product sums),
// so that small rows keep their digits next to large ones. Both follow from the current values (torchao's
// names). delayed: one scale per tensor from its values in earlier steps (Transformer Engine's and Megatron's
// name).
enum class Float8Recipe : uint8_t { tensorwise, rowwise, delayed };
// Throws UserError, listing all recipes, for another word.
Float8Recipe parse_float8_recipe(std::string_view name, Here at = Here::current());

// With the delayed recipe State::float8 records LAYER.amax_history, f32 [3, history], for each weight. Each
// step replaces it; the newest entry is first.
inline constexpr const char* kAmaxHistory = "amax_history";
inline constexpr int64_t kMostAmaxSteps = 65536;

// Activations and weights are f8_e4m3. A glob names weights, or the layers that they belong to.
struct Float8Options {
  DType gradients = DType::f8_e5m2;    // of outputs; or f8_e4m3: a digit more, a smaller range
  std::vector<std::string> skip = {};  // layers that stay in bf16
  bool head = false;                   // includes heads and tied embeddings (no_hidden_matrices)
  Float8Recipe recipe = Float8Recipe::tensorwise;
  int64_t history = 16;  // delayed: the number of steps whose largest magnitudes determine a scale
};

}  // namespace lockstep
