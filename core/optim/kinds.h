// The optimizers that a config can name: one row each.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/nn/lora.h"
#include "core/optim/optimizer.h"
#include "core/optim/schedule.h"

namespace lockstep {

// The optimizer options of a config; a kind reads those that it uses.
struct OptimizerChoice {
  Schedule lr = 0.0, muon_lr = 0.0;  // muon_lr: the rate of Muon's matrices
  std::array<double, 2> betas = {0.9, 0.95};
  DType moments = DType::f32;
  double eps = 1e-8, momentum = 0, alpha = 0.99, weight_decay = 0, clip = 0;
  bool nesterov = false;
  double muon_momentum = 0.95;
  bool muon_nesterov = true;
  int64_t muon_iterations = 5;
  std::string muon_rate = "match_rms_adamw";
  std::vector<std::string> muon_adamw = {};  // globs of matrices that AdamW updates; each names one
  double beta2_decay = -0.8, eps2 = 1e-3, d = 1;
  struct Group {  // parameters with their own options
    std::vector<Parameter> parameters;
    Schedule lr;
    double weight_decay;
  };
  std::vector<Group> groups = {};
};

struct OptimizerKind {
  std::string_view name;
  std::vector<std::string_view> reads;  // fields of the choice in addition to lr, weight_decay and clip
  std::unique_ptr<Optimizer> (*make)(Scope at, const OptimizerChoice& choice);
};
std::span<const OptimizerKind> optimizer_kinds();
std::vector<std::string> optimizer_names();
const OptimizerKind& optimizer_kind(std::string_view name);  // UserError naming the kinds

}  // namespace lockstep
