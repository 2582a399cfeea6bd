// WeightAverage: an exponential moving average of weights (EMA), as for evaluation or a teacher.
#pragma once

#include "core/nn/state.h"

namespace lockstep {

// average = decay average + (1 - decay) p after each update, p the new weights; after the first it is p. A
// step that is passed over is none. Recorded as moments PATH.FQN.average, which lie on their owners; host
// scalar PATH.decay.
class WeightAverage {
 public:
  // Of all parameters that are trained, or of these. UserError unless 0 <= decay < 1, and where the path has
  // an optimizer or an average already.
  explicit WeightAverage(Scope at, double decay = 0.999, std::vector<Parameter> parameters = {},
                         Here line = Here::current());
  // Behind the optimizer's update, in the same step; `beside`: any tensor of it.
  void update(const Tensor& beside, Here at = Here::current());
  Parameter of(const Parameter& parameter) const;  // where its average lies

 private:
  State* state_;
  std::string path_;
  std::vector<Parameter> parameters_;
};

}  // namespace lockstep
