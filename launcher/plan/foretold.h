// Foretold: compares a run's predicted and measured step time, once, after the tenth step of a process.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/predict.h"

namespace lockstep::launcher {

class Foretold {
 public:
  static constexpr size_t kSteps = 10;
  // Does not plan again or allocate on a device. There is no prediction for a device without a roofline or a
  // step without calls.
  // `units`: from units_of_step.
  Foretold(const RunConfig& config, const StepUnits& units, const LiveMesh& mesh,
           const compiler::StepPlan& plan, const Device& device);
  // Adds a step's seconds, and its exposed seconds per mesh dim (computation stalled for collectives). At the
  // tenth step returns the line to print, with the median from the third step on (the first two load
  // libraries and capture); else "".
  std::optional<std::string> measured(double seconds, const std::map<std::string, double>& exposed = {});
  // Both in seconds, once measured; 0 without a prediction.
  const Prediction& prediction() const { return prediction_; }
  double predicted_s() const { return prediction_.step_s; }
  double median_s() const { return median_; }

 private:
  Prediction prediction_;
  std::string none_;  // why there is no prediction; else empty
  std::vector<double> seconds_;
  std::map<std::string, std::vector<double>> exposed_;
  double median_ = 0;
};

}  // namespace lockstep::launcher
