// Comparing what train.monitor names.
#include "launcher/loop/best_validation.h"

#include <cmath>
#include <vector>

#include "core/base/error.h"

namespace lockstep::launcher {

bool BestValidation::better(int64_t step, const std::map<std::string, double>& measured) {
  constexpr std::string_view prefix = "val_";
  const std::string name =
      config_.monitor.starts_with(prefix) ? config_.monitor.substr(prefix.size()) : config_.monitor;
  const auto found = measured.find(name);
  if (found == measured.end()) {
    std::vector<std::string> known;
    for (const auto& [other, value] : measured)
      if (other != "tokens") known.push_back(str(prefix, other));
    throw UserError(str("train.monitor is \"", config_.monitor,
                        "\", which no validation measures; it measures ", join(known, ", ")));
  }
  const double value = found->second, gain = config_.monitor_mode == "max" ? value - value_ : value_ - value;
  if (std::isfinite(value) && (step_ == 0 || gain > config_.min_delta)) {
    value_ = value, step_ = step, waited_ = 0;
    return true;
  }
  ++waited_;
  return false;
}

std::string BestValidation::words() const {
  const std::string in = str("in ", waited_, waited_ == 1 ? " validation" : " validations");
  if (step_ == 0) return str(config_.monitor, " was not finite ", in);
  return str(config_.monitor, " was not ", config_.monitor_mode == "max" ? "above " : "below ",
             number_text(static_cast<float>(value_)), ", of step ", step_,
             config_.min_delta > 0 ? str(", by more than ", number_text(config_.min_delta)) : "", ", ", in);
}

Json BestValidation::json() const { return {{"value", value_}, {"step", step_}, {"waited", waited_}}; }

void BestValidation::restore(const Json& extra) {
  value_ = 0, step_ = waited_ = 0;
  if (!extra.is_object()) return;
  try {
    const auto value = extra.at("value").get<double>();
    const auto step = extra.at("step").get<int64_t>(), waited = extra.at("waited").get<int64_t>();
    value_ = value, step_ = step, waited_ = waited;
  } catch (const Json::exception&) {}  // written by another version
}

}  // namespace lockstep::launcher
