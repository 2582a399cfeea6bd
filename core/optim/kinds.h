// The optimizers that a config can name: one row each.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "core/optim/optimizer.h"
#include "core/optim/schedule.h"

namespace lockstep {

// What a config says, read as far as a kind has a use for it.
struct OptimizerChoice {
  Schedule lr = 0.0;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8, momentum = 0, alpha = 0.99, weight_decay = 0, clip = 0;
  bool nesterov = false;
};

struct OptimizerKind {
  std::string_view name;
  std::vector<std::string_view> reads;  // fields of the choice beside lr, weight_decay and clip
  std::unique_ptr<Optimizer> (*make)(Scope at, const OptimizerChoice& choice);
};
std::span<const OptimizerKind> optimizer_kinds();
std::vector<std::string> optimizer_names();
const OptimizerKind& optimizer_kind(std::string_view name);  // UserError naming the kinds

}  // namespace lockstep
