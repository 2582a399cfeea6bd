// StepGuard: what a step's loss and gradient norm decide: the step counts, is passed over, sends the run back
// to its last checkpoint, or ends it.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "compiler/runtime/step.h"
#include "core/base/json.h"
#include "launcher/config/run_config.h"

namespace lockstep::launcher {

// Decisions follow from the losses and norms so far, which are the same bits on every rank and any number of
// ranks; so are the decisions. A step that is passed over, or gone back before, keeps its number: schedule
// and data go on with the next step's own.
class StepGuard {
 public:
  enum class Action { go_on, skip, rewind, stop };
  struct Finding {
    Action action = Action::go_on;
    bool nonfinite = false;
    bool look = false;      // it is worth the time to look for the first value that is not finite
    bool of_state = false;  // it was found in the state, when that was about to be saved
    std::string words;      // "the loss is nan and the gradient norm is nan"; "" where nothing is to be said
  };

  explicit StepGuard(const TrainConfig& config) : config_(config) {}

  // Limits beyond which the step that comes is not applied.
  void limit(compiler::StepInput& input) const;
  // Whether the limits let no such step be applied.
  bool beyond(float loss, float norm) const;
  // After a step: by its loss and norm, and by the largest norm of its optimizers.
  Finding judge(int64_t step, float loss, float norm);
  Finding judge(int64_t step, const compiler::StepResult& result);
  // What a state that the last step's update made non-finite is to lead to: found when it is about to be
  // saved. `words` name the value.
  Finding judge_state(const std::string& words);
  // The run is at the state of `checkpoint` again, and goes on behind `step`.
  void went_back(int64_t checkpoint, int64_t step);
  void saved(int64_t step);  // a checkpoint of `step` was written

  bool passed_over(int64_t step) const {
    return !ranges_.empty() && ranges_.back().second == step;
  }  // the last step
  int64_t passed_over() const { return passed_; }  // steps of the run whose updates do not count
  // Between checkpoints: what decisions depend on, and which steps were passed over.
  Json json() const;
  void restore(const Json& extra);  // what json() gave; anything else is an empty history

 private:
  Finding passing_over(const std::string& policy, Finding finding, int64_t step);
  double spike_limit(const std::deque<float>& values) const;  // infinity while there are too few

  const TrainConfig& config_;
  std::deque<float> losses_, norms_;                 // of the last steps that count
  std::vector<std::pair<int64_t, int64_t>> ranges_;  // steps passed over, first and last
  int64_t passed_ = 0, in_a_row_ = 0, rewinds_ = 0;
  int64_t told_ = 0;  // the last step of which a spike was told
};

}  // namespace lockstep::launcher
