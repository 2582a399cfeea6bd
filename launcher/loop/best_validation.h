// BestValidation: tracks the best validation result, whose checkpoint is kept as the best one, and counts
// validations in a row that did not improve by more than train.min_delta, for early stopping.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "launcher/config/run_config.h"

namespace lockstep::launcher {

// Measurements have the same bits on every rank and any number of ranks, and so have the decisions.
class BestValidation {
 public:
  explicit BestValidation(const TrainConfig& config) : config_(config) {}

  // UserError when train.monitor is not one of the values that a validation measures: {"loss", "accuracy"}.
  void check(const std::vector<std::string>& measured) const;
  // Called after the validation of `step` with its values: {"loss": 2.5, "accuracy": 0.6}. True if it is the
  // best so far, by any margin; never if the loss is not finite. UserError when train.monitor is not among
  // them.
  bool better(int64_t step, const std::map<std::string, double>& measured);
  // Whether the run must end: train.patience validations in a row did not improve on the last improvement by
  // more than train.min_delta.
  bool over() const { return config_.patience > 0 && waited_ >= config_.patience; }
  int64_t step() const { return best_.step; }  // step of the best; 0: none yet
  std::string found() const;                   // "val_loss 0.31, of step 40"
  std::string words() const;  // "val_loss was no lower than 0.31, of step 40, in 3 validations"

  // Between checkpoints.
  Json json() const;
  void restore(const Json& extra);  // takes json()'s result; anything else is an empty history

 private:
  std::string name() const;  // train.monitor without val_
  struct Measured {
    double value = 0;
    int64_t step = 0;  // 0: none yet
  };
  bool beats(double value, const Measured& other, double by) const;

  const TrainConfig& config_;
  Measured best_, mark_;  // mark_: the value that the next one must improve on to reset the patience
  int64_t waited_ = 0;
};

}  // namespace lockstep::launcher
