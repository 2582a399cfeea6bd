// StepGuard: computes limits from medians, and makes one decision per step.
#include "launcher/loop/guard.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/base/text.h"

namespace lockstep::launcher {

namespace {
constexpr float kMost = std::numeric_limits<float>::max();
constexpr size_t kFewest = 16;  // steps needed for a meaningful median, unless the window is smaller

double median(const std::deque<float>& values) {
  std::vector<float> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[half] : (static_cast<double>(sorted[half - 1]) + sorted[half]) / 2;
}
float within_f32(double limit) { return limit < kMost ? static_cast<float>(limit) : kMost; }
bool enforced(const std::string& policy) {
  return policy == "skip" || policy == "rewind" || policy == "stop";
}
// The gradient norms reported by the optimizers: "grad_norm", "generator.grad_norm"; 0 without one.
float largest_norm(const compiler::StepResult& result) {
  float out = 0;
  for (const auto& [name, value] : result.metrics)
    if (name == "grad_norm" || name.ends_with(".grad_norm"))
      out = std::isnan(out) || std::isnan(value) ? std::numeric_limits<float>::quiet_NaN()
                                                 : std::max(out, static_cast<float>(value));
  return out;
}
}  // namespace

double StepGuard::spike_limit(const std::deque<float>& values) const {
  constexpr double none = std::numeric_limits<double>::infinity();
  if (config_.on_spike == "off" ||
      values.size() < std::min(kFewest, static_cast<size_t>(config_.spike_window)))
    return none;
  const double usual = median(values);
  return usual > 0 ? usual * config_.spike_factor : none;
}

void StepGuard::limit(compiler::StepInput& input) const {
  if (!enforced(config_.on_spike)) return;
  input.loss_limit = within_f32(spike_limit(losses_));
  input.norm_limit = within_f32(spike_limit(norms_));
}

bool StepGuard::beyond(float loss, float norm) const {
  return enforced(config_.on_spike) &&
         (loss > within_f32(spike_limit(losses_)) || norm > within_f32(spike_limit(norms_)));
}

StepGuard::Finding StepGuard::passing_over(const std::string& policy, Finding finding, int64_t step) {
  finding.action = policy == "rewind" ? Action::rewind : policy == "skip" ? Action::skip : Action::stop;
  if (finding.action == Action::rewind && ++rewinds_ > config_.nonfinite_limit) {
    finding.action = Action::stop;
    finding.words += str("; the run has gone back to the same checkpoint ", config_.nonfinite_limit,
                         " times (train.nonfinite_limit)");
  }
  if (finding.action == Action::skip) {
    if (++in_a_row_ > config_.nonfinite_limit) {
      finding.action = Action::stop;
      finding.words +=
          str("; ", config_.nonfinite_limit, " steps before it were passed over (train.nonfinite_limit)");
    } else {
      ++passed_;
      if (!ranges_.empty() && ranges_.back().second == step - 1)
        ranges_.back().second = step;
      else
        ranges_.emplace_back(step, step);
    }
  }
  return finding;
}

// Non-finite values are judged first. A spike is a value above spike_limit, which follows from the median of
// the window. Only steps that count enter the window, so a spike does not raise its own limit.
StepGuard::Finding StepGuard::judge(int64_t step, float loss, float norm) {
  if (!std::isfinite(loss) || !std::isfinite(norm)) {
    auto text = [](float x) {
      return std::isnan(x) ? std::string("nan") : number_text(x);
    };  // the sign of a NaN has no meaning
    const bool first = in_a_row_ == 0;
    // In fp16 this is expected: the loss scale reacts to it, and is smaller in the next step.
    const bool scaled = config_.precision == "fp16";
    return passing_over(scaled ? "skip" : config_.on_nonfinite,
                        {Action::stop, true, first && !scaled, false,
                         str("the loss is ", text(loss), " and the gradient norm is ", text(norm),
                             scaled ? ", and the loss scale is halved" : "")},
                        step);
  }
  Finding finding;
  for (const auto& [value, history, what] :
       {std::tuple(loss, &losses_, "loss"), std::tuple(norm, &norms_, "gradient norm")}) {
    const float limit = within_f32(spike_limit(*history));
    if (!(value > limit)) continue;  // a loss below zero has gone down
    const double usual = median(*history);
    char times[32];
    std::snprintf(times, sizeof times, "%.3g", value / usual);
    finding.words += str(finding.words.empty() ? "" : ", and ", "the ", what, " is ", number_text(value),
                         ", ", times, " times its median of the last ", history->size(), " steps");
  }
  if (!finding.words.empty() && enforced(config_.on_spike))
    return passing_over(config_.on_spike, finding, step);
  if (!finding.words.empty() && told_ > 0 && step - told_ < config_.spike_window)
    finding.words.clear();  // a new level of the norm is reported once, not at every step
  else if (!finding.words.empty())
    told_ = step;
  in_a_row_ = 0;
  losses_.push_back(loss);
  norms_.push_back(norm);
  while (losses_.size() > static_cast<size_t>(config_.spike_window)) losses_.pop_front(), norms_.pop_front();
  return finding;
}

StepGuard::Finding StepGuard::judge(int64_t step, const compiler::StepResult& result) {
  const auto loss = static_cast<float>(result.metrics.at("loss"));
  float norm = largest_norm(result);
  if (!result.applied && std::isfinite(loss) && std::isfinite(norm) && !beyond(loss, norm))
    norm = std::numeric_limits<float>::quiet_NaN();  // the step skipped itself for a norm without a metric
  Finding finding = judge(step, loss, norm);
  LS_CHECK(result.applied == (finding.action == Action::go_on), "step ", step, " was ",
           result.applied ? "" : "not ", "applied: loss ", loss, ", norm ", norm);
  return finding;
}

StepGuard::Finding StepGuard::judge_state(const std::string& words) {
  Finding finding{Action::stop, true, false, true, words};
  if (config_.on_nonfinite == "rewind") return passing_over("rewind", finding, 0);
  if (config_.on_nonfinite == "skip")
    finding.words +=
        "; an update that is made cannot be skipped: train.on_nonfinite=rewind goes back to the last "
        "checkpoint";
  return finding;
}

void StepGuard::saved(int64_t step) {
  if (!passed_over(step)) rewinds_ = 0;
}

// All steps after the checkpoint count as one skipped range, which replaces ranges recorded within it.
void StepGuard::went_back(int64_t checkpoint, int64_t step) {
  std::erase_if(ranges_, [&](const auto& range) { return range.first > checkpoint; });
  ranges_.emplace_back(checkpoint + 1, step);
  passed_ = 0;
  for (const auto& [first, last] : ranges_) passed_ += last - first + 1;
}

Json StepGuard::json() const {
  Json ranges = Json::array();
  for (const auto& [first, last] : ranges_) ranges.push_back({first, last});
  return {{"losses", losses_},
          {"norms", norms_},
          {"passed_over", ranges},
          {"in_a_row", in_a_row_},
          {"told", told_}};
}

void StepGuard::restore(const Json& extra) {
  losses_.clear(), norms_.clear(), ranges_.clear();
  passed_ = in_a_row_ = told_ = 0;
  if (!extra.is_object()) return;
  try {
    losses_ = extra.at("losses").get<std::deque<float>>();
    norms_ = extra.at("norms").get<std::deque<float>>();
    for (const auto& range : extra.at("passed_over"))
      ranges_.emplace_back(range.at(0).get<int64_t>(), range.at(1).get<int64_t>());
    in_a_row_ = extra.at("in_a_row").get<int64_t>();
    told_ = extra.at("told").get<int64_t>();
  } catch (const Json::exception&) { losses_.clear(), norms_.clear(), ranges_.clear(); }
  for (const auto& [first, last] : ranges_) passed_ += last - first + 1;
  while (losses_.size() > static_cast<size_t>(config_.spike_window)) losses_.pop_front(), norms_.pop_front();
}

}  // namespace lockstep::launcher
