// Foretold: predicts with the device's roofline, and measures the median of the first steps.
#include "launcher/plan/foretold.h"

#include <algorithm>

#include "core/base/error.h"
#include "launcher/machine/host_rates.h"

namespace lockstep::launcher {

Foretold::Foretold(const RunConfig& config, const StepUnits& units, const LiveMesh& mesh,
                   const compiler::StepPlan& plan, const Device& device) {
  const std::string word = roofline_of(device);
  if (word.empty()) {
    none_ = str("no roofline is known for ", device.describe());
    return;
  }
  compiler::StepPlan paper = plan;
  paper.kernels = nullptr;  // not run here, only predicted
  prediction_ =
      predict(config, units, mesh.words, PaperStep(std::move(paper), mesh), roofline_stored_here(word));
  if (!(prediction_.step_s > 0)) none_ = "the reference backend has no calls whose time could be foretold";
}

namespace {
double median_after_two(const std::vector<double>& seconds) {
  std::vector<double> steady(seconds.begin() + 2, seconds.end());
  std::sort(steady.begin(), steady.end());
  return (steady[steady.size() / 2 - 1] + steady[steady.size() / 2]) / 2;
}
}  // namespace

std::optional<std::string> Foretold::measured(double seconds, const std::map<std::string, double>& exposed) {
  if (seconds_.size() >= kSteps) return {};
  seconds_.push_back(seconds);
  for (const auto& [dim, waited] : exposed) exposed_[dim].push_back(waited);
  if (seconds_.size() < kSteps) return {};
  median_ = median_after_two(seconds_);
  std::string out = none_.empty()
                        ? predicted_and_measured(prediction_, median_)
                        : str("measured ", seconds_text(median_), " a step; not predicted (", none_, ")");
  if (exposed_.empty()) return out;
  std::vector<std::string> dims;
  double all = 0;
  for (const auto& [dim, waits] : exposed_) {
    all += median_after_two(waits);
    dims.push_back(str(dim, " ", seconds_text(median_after_two(waits))));
  }
  out += str("; exposed communication of rank 0 ", seconds_text(all),
             exposed_.size() > 1 ? str(" (", join(dims, ", "), ")") : std::string());
  if (none_.empty()) out += str(", predicted ", seconds_text(prediction_.exposed_s - prediction_.copies_s));
  return out;
}

}  // namespace lockstep::launcher
