// WeightAverage: an exponential moving average of weights (EMA), as for evaluation or a teacher.
#pragma once

#include "core/nn/state.h"

namespace lockstep {

// After each update average = decay average + (1 - decay) p, with the new weights p; after the first it is p.
// A skipped step does not count. Recorded as moments PATH.FQN.average, placed on the ranks that own the rows;
// host scalar PATH.decay.
class WeightAverage {
 public:
  // Averages all trained parameters, or these. UserError unless 0 <= decay < 1, and when the path has an
  // optimizer or an average already.
  explicit WeightAverage(Scope at, double decay = 0.999, std::vector<Parameter> parameters = {},
                         Here line = Here::current());
  // Call after the optimizer's update, in the same step; `beside` is any tensor of the step.
  void update(const Tensor& beside, Here at = Here::current());
  Parameter of(const Parameter& parameter) const;  // the parameter's average

 private:
  State* state_;
  std::string path_;
  std::vector<Parameter> parameters_;
};

}  // namespace lockstep
