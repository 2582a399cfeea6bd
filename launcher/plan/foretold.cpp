// The roofline of the run's own device, and the median of its first steps.
#include "launcher/plan/foretold.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {

Foretold::Foretold(const RunConfig& config, const Mesh& mesh, const StepPlan& plan, const Device& device) {
  const std::string word = roofline_of(device);
  if (word.empty()) {
    none_ = str("no roofline is known for ", device.describe());
    return;
  }
  StepPlan paper = plan;
  paper.kernels = nullptr;  // measured, not run
  prediction_ = predict(config, mesh, PaperStep(std::move(paper), mesh), roofline_named(word));
  if (!(prediction_.step_s > 0)) none_ = "the reference backend has no calls whose time could be foretold";
}

std::optional<std::string> Foretold::measured(double seconds) {
  if (seconds_.size() >= kSteps) return {};
  seconds_.push_back(seconds);
  if (seconds_.size() < kSteps) return {};
  std::vector<double> steady(seconds_.begin() + 2, seconds_.end());
  std::sort(steady.begin(), steady.end());
  median_ = (steady[steady.size() / 2 - 1] + steady[steady.size() / 2]) / 2;
  if (none_.empty()) return predicted_and_measured(prediction_, median_);
  return str("measured ", seconds_text(median_), " a step; not predicted (", none_, ")");
}

}  // namespace lockstep
