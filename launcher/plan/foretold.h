// Foretold: a run's predicted step time beside its measured one, said once, after the tenth step of a
// process.
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
  // Plans nothing anew and allocates nothing on a device. A device without a roofline, and a step without
  // calls, have no prediction.
  // `units`: as units_of_step gives them.
  Foretold(const RunConfig& config, const StepUnits& units, const LiveMesh& mesh,
           const compiler::StepPlan& plan, const Device& device);
  // Seconds of one step, and of them those in which its work stood still for collectives, per mesh dim. At
  // the tenth: the line to print, with the median of the steps from the third on (the first two load
  // libraries and capture); else nothing.
  std::optional<std::string> measured(double seconds, const std::map<std::string, double>& exposed = {});
  // Once measured: both, in seconds; 0 where there is no prediction.
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
