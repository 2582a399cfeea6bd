// Learning rates by step.
#include "core/optim/schedule.h"

#include <cmath>

#include "core/base/error.h"

namespace lockstep {

Schedule::Schedule(Kind kind, double lr, int64_t warmup, int64_t steps, double min_ratio)
    : kind_(kind), lr_(lr), warmup_(warmup), steps_(steps), min_ratio_(min_ratio) {
  check();
}

void Schedule::check() const {
  auto fail = [](const std::string& what) { throw UserError("[schedule] " + what); };
  if (!(lr_ >= 0) || std::isinf(lr_))
    fail(str("lr is ", number_text(lr_), "; it must be a number of at least 0"));
  if (warmup_ < 0) fail(str("warmup is ", warmup_, "; it must be at least 0 steps"));
  if (steps_ < 0) fail(str("steps is ", steps_, "; it must be at least 0"));
  if (!(min_ratio_ >= 0 && min_ratio_ <= 1))
    fail(str("min_ratio is ", number_text(min_ratio_), "; it must be between 0 and 1"));
}

double Schedule::at(int64_t step) const {
  LS_CHECK(step >= 1, "steps count from 1, not ", step);
  if (step <= warmup_) return lr_ * static_cast<double>(step) / static_cast<double>(warmup_);
  if (kind_ == Kind::constant) return lr_;
  if (step >= steps_) return lr_ * min_ratio_;
  double p = static_cast<double>(step - warmup_) / static_cast<double>(steps_ - warmup_);
  double fall = kind_ == Kind::linear ? 1 - p : (1 + std::cos(3.14159265358979323846 * p)) / 2;
  return lr_ * (min_ratio_ + (1 - min_ratio_) * fall);
}

}  // namespace lockstep
