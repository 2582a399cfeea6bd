// BestValidation: compares the values of train.monitor.
#include "launcher/loop/best_validation.h"

#include <cmath>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"

namespace lockstep::launcher {

namespace {
constexpr std::string_view kPrefix = "val_";
}

std::string BestValidation::name() const {
  const std::string& monitor = config_.monitor;
  return monitor.starts_with(kPrefix) ? monitor.substr(kPrefix.size()) : monitor;
}

void BestValidation::check(const std::vector<std::string>& measured) const {
  std::vector<std::string> known;
  for (const auto& other : measured) {
    if (other == name()) return;
    if (other != "tokens") known.push_back(str(kPrefix, other));
  }
  const std::string near = nearest(config_.monitor, known);
  throw UserError(str("train.monitor is \"", shortened(printable(config_.monitor), 100),
                      "\", which no validation measures; it measures ", join(known, ", "),
                      near.empty() ? "" : str("; did you mean ", near, "?")));
}

bool BestValidation::better(int64_t step, const std::map<std::string, double>& measured) {
  const auto found = measured.find(name());
  if (found == measured.end()) {
    std::vector<std::string> names;
    for (const auto& [other, value] : measured) names.push_back(other);
    check(names);
  }
  const auto loss = measured.find("loss");
  const bool sound = loss == measured.end() || std::isfinite(loss->second);
  const double value = sound ? found->second : std::numeric_limits<double>::quiet_NaN();
  const bool best = beats(value, best_, 0);
  if (best) best_ = {value, step};
  if (beats(value, mark_, config_.min_delta))
    mark_ = {value, step}, waited_ = 0;
  else
    ++waited_;
  return best;
}

bool BestValidation::beats(double value, const Measured& other, double by) const {
  if (!std::isfinite(value)) return false;
  const double gain = config_.monitor_mode == "max" ? value - other.value : other.value - value;
  return other.step == 0 || gain > by;
}

std::string BestValidation::found() const {
  return str(config_.monitor, " ", number_text(static_cast<float>(best_.value)), ", of step ", best_.step);
}

std::string BestValidation::words() const {
  const std::string in = str("in ", waited_, waited_ == 1 ? " validation" : " validations");
  if (mark_.step == 0) return str(config_.monitor, " was not finite ", in);
  return str(config_.monitor, " was not ", config_.monitor_mode == "max" ? "above " : "below ",
             number_text(static_cast<float>(mark_.value)), ", of step ", mark_.step,
             config_.min_delta > 0 ? str(", by more than ", number_text(config_.min_delta)) : "", ", ", in);
}

Json BestValidation::json() const {
  return {{"value", mark_.value},
          {"step", mark_.step},
          {"waited", waited_},
          {"best", best_.value},
          {"best_step", best_.step}};
}

void BestValidation::restore(const Json& extra) {
  best_ = mark_ = {};
  waited_ = 0;
  if (!extra.is_object()) return;
  try {
    const Measured mark{extra.at("value").get<double>(), extra.at("step").get<int64_t>()};
    const auto waited = extra.at("waited").get<int64_t>();
    const Measured best = extra.contains("best")
                              ? Measured{extra.at("best").get<double>(), extra.at("best_step").get<int64_t>()}
                              : mark;  // from a version that stored only one
    best_ = best, mark_ = mark, waited_ = waited;
  } catch (const Json::exception&) {}  // written by another version
}

}  // namespace lockstep::launcher
