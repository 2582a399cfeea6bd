// BestValidation: the best of what validations measured, and how many since were no better: which checkpoint
// is kept as the best one, and when a run ends early.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/base/json.h"
#include "launcher/config/run_config.h"

namespace lockstep::launcher {

// What is measured is the same bits on every rank and any number of ranks; so are the decisions.
class BestValidation {
 public:
  explicit BestValidation(const TrainConfig& config) : config_(config) {}

  // After the validation of `step`, which measured these: {"loss": 2.5, "accuracy": 0.6}. True where it is
  // the best so far. UserError where train.monitor is not among them.
  bool better(int64_t step, const std::map<std::string, double>& measured);
  // train.patience validations in a row were no better: the run ends.
  bool over() const { return config_.patience > 0 && waited_ >= config_.patience; }
  int64_t step() const { return step_; }  // of the best; 0: none yet
  std::string words() const;              // "val_loss was no lower than 0.31, of step 40, in 3 validations"

  // Between checkpoints.
  Json json() const;
  void restore(const Json& extra);  // what json() gave; anything else is an empty history

 private:
  const TrainConfig& config_;
  double value_ = 0;
  int64_t step_ = 0, waited_ = 0;
};

}  // namespace lockstep::launcher
