// Computes the learning rate of a step.
#include "core/optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace lockstep {

Schedule::Schedule(Kind kind, double lr, int64_t warmup, int64_t steps, double min_ratio)
    : kind_(kind), lr_(lr), warmup_(warmup), steps_(steps), min_ratio_(min_ratio) {
  check();
}

Schedule::Schedule(double lr, std::function<double(int64_t)> factor, int64_t warmup)
    : kind_(Kind::function), lr_(lr), warmup_(warmup), factor_(std::move(factor)) {
  check();
  if (!factor_) throw UserError("[schedule] the function is empty");
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
  if (kind_ == Kind::function) {
    const double factor = factor_(step);
    if (!(factor >= 0) || std::isinf(factor))
      throw UserError(str("[schedule] the function gives ", number_text(factor), " for update ", step,
                          "; a rate is a number of at least 0"));
    return lr_ * factor;
  }
  if (step >= steps_) return lr_ * min_ratio_;
  double p = static_cast<double>(step - warmup_) / static_cast<double>(steps_ - warmup_);
  double fall = kind_ == Kind::linear ? 1 - p : (1 + std::cos(3.14159265358979323846 * p)) / 2;
  return lr_ * (min_ratio_ + (1 - min_ratio_) * fall);
}

Schedule warmup_stable_decay(double lr, int64_t warmup, int64_t steps, int64_t decay, double min_ratio) {
  if (decay < 0 || decay > steps)
    throw UserError(
        str("[schedule] decay is ", decay, " of ", steps, " steps; it must be between 0 and ", steps));
  return {lr,
          [=](int64_t step) {
            if (step <= steps - decay) return 1.0;
            const double left = static_cast<double>(std::max<int64_t>(0, steps - step));
            return min_ratio + (1 - min_ratio) * left / static_cast<double>(decay);
          },
          warmup};
}

Schedule cosine_restarts(double lr, int64_t warmup, int64_t period, double factor, double min_ratio) {
  if (period < 1) throw UserError(str("[schedule] period is ", period, "; it must be at least 1 step"));
  if (!(factor >= 1))
    throw UserError(str("[schedule] factor is ", number_text(factor), "; it must be at least 1"));
  return {lr,
          [=](int64_t step) {
            double into = static_cast<double>(step - warmup - 1), length = static_cast<double>(period);
            while (into >= length) into -= length, length *= factor;
            return min_ratio + (1 - min_ratio) * (1 + std::cos(3.14159265358979323846 * into / length)) / 2;
          },
          warmup};
}

}  // namespace lockstep
