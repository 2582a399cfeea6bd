// StepGuard: decides from a step's loss and gradient norm whether the step counts, is skipped, sends the run
// back to its last checkpoint, or ends it.
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
// ranks; so are the decisions. A skipped or rewound step keeps its number: schedule and data continue with
// those of the next step.
class StepGuard {
 public:
  enum class Action { go_on, skip, rewind, stop };
  struct Finding {
    Action action = Action::go_on;
    bool nonfinite = false;
    bool look = false;      // worth a search for the first value that is not finite
    bool of_state = false;  // found in the state before a save
    std::string words;      // "the loss is nan and the gradient norm is nan"; "" for no message
  };

  explicit StepGuard(const TrainConfig& config) : config_(config) {}

  // Limits beyond which the next step is not applied.
  void limit(compiler::StepInput& input) const;
  // Whether the limits keep such a step from being applied.
  bool beyond(float loss, float norm) const;
  // Decides after a step from its loss and norm, and from the largest norm of its optimizers.
  Finding judge(int64_t step, float loss, float norm);
  Finding judge(int64_t step, const compiler::StepResult& result);
  // Decides about a state that the last update made non-finite, found before a save. `words` name the value.
  Finding judge_state(const std::string& words);
  // The run is back at the state of `checkpoint`, and continues after `step`.
  void went_back(int64_t checkpoint, int64_t step);
  void saved(int64_t step);  // a checkpoint of `step` was written

  bool passed_over(int64_t step) const {
    return !ranges_.empty() && ranges_.back().second == step;
  }  // the last step
  int64_t passed_over() const { return passed_; }  // skipped steps of the run
  // Stored in checkpoints: the data for decisions, and the skipped steps.
  Json json() const;
  void restore(const Json& extra);  // takes json()'s result; anything else is an empty history

 private:
  Finding passing_over(const std::string& policy, Finding finding, int64_t step);
  double spike_limit(const std::deque<float>& values) const;  // infinity while there are too few

  const TrainConfig& config_;
  std::deque<float> losses_, norms_;                 // of the last steps that counted
  std::vector<std::pair<int64_t, int64_t>> ranges_;  // ranges of skipped steps, first and last
  int64_t passed_ = 0, in_a_row_ = 0, rewinds_ = 0;
  int64_t told_ = 0;  // the last step with a reported spike
};

}  // namespace lockstep::launcher
