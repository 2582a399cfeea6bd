// BestValidation: the best of what validations measured, which is the checkpoint that is kept as the best
// one, and how many in a row were not better by more than train.min_delta, after which a run ends early.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "launcher/config/run_config.h"

namespace lockstep::launcher {

// What is measured is the same bits on every rank and any number of ranks; so are the decisions.
class BestValidation {
 public:
  explicit BestValidation(const TrainConfig& config) : config_(config) {}

  // UserError where train.monitor is none of the numbers that a validation measures: {"loss", "accuracy"}.
  void check(const std::vector<std::string>& measured) const;
  // After the validation of `step`, which measured these: {"loss": 2.5, "accuracy": 0.6}. True where it is
  // the best so far, by however little; never where the loss is not finite. UserError where train.monitor is
  // not among them.
  bool better(int64_t step, const std::map<std::string, double>& measured);
  // train.patience validations in a row were not better, by more than train.min_delta, than the last one that
  // was: the run ends.
  bool over() const { return config_.patience > 0 && waited_ >= config_.patience; }
  int64_t step() const { return best_.step; }  // of the best; 0: none yet
  std::string found() const;                   // "val_loss 0.31, of step 40"
  std::string words() const;  // "val_loss was no lower than 0.31, of step 40, in 3 validations"

  // Between checkpoints.
  Json json() const;
  void restore(const Json& extra);  // what json() gave; anything else is an empty history

 private:
  std::string name() const;  // of train.monitor, without val_
  struct Measured {
    double value = 0;
    int64_t step = 0;  // 0: none yet
  };
  bool beats(double value, const Measured& other, double by) const;

  const TrainConfig& config_;
  Measured best_, mark_;  // mark_: what the next one must be better than to end the wait
  int64_t waited_ = 0;
};

}  // namespace lockstep::launcher
