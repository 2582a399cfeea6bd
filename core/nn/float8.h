// Matrix products of linear layers in float8: which layers, and in what formats.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ops/apply.h"

namespace lockstep {

// What has a scale of its own: a tensor, or each row of what a product reads, along which it sums, so that
// small rows keep their digits beside large ones; both by what the tensor has (torchao's names). Or a tensor
// by what it had in the steps before (Transformer Engine's and Megatron's name).
enum class Float8Recipe : uint8_t { tensorwise, rowwise, delayed };
// UserError naming all for another word.
Float8Recipe parse_float8_recipe(std::string_view name, Here at = Here::current());

// What State::float8 records beside each weight that multiplies by the delayed recipe: LAYER.amax_history,
// f32 [3, history], which each step replaces: the newest entry comes first.
inline constexpr const char* kAmaxHistory = "amax_history";
inline constexpr int64_t kMostAmaxSteps = 65536;

// Activations and weights are f8_e4m3. A glob names weights, or the layers that they belong to.
struct Float8Options {
  DType gradients = DType::f8_e5m2;    // of outputs; or f8_e4m3: a digit more, a smaller range
  std::vector<std::string> skip = {};  // layers that stay in bf16
  bool head = false;                   // heads and tied embeddings take part, too (no_hidden_matrices)
  Float8Recipe recipe = Float8Recipe::tensorwise;
  int64_t history = 16;  // delayed: how many steps' largest magnitudes a scale follows from
};

}  // namespace lockstep
