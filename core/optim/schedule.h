// Learning rate schedules: one number per step, computed on the host in double, so that a schedule never
// recompiles.
#pragma once

#include <cstdint>
#include <functional>

namespace lockstep {

// The learning rate of step t, counted from 1; a skipped step counts, too:
//   t <= warmup: lr * t / warmup (so step `warmup` has lr, and step 1 already moves)
//   constant:    lr
//   cosine:      lr * (m + (1 - m) * (1 + cos(pi * p)) / 2)
//   linear:      lr * (m + (1 - m) * (1 - p))
//   a function:  lr * f(t)
// with m = min_ratio and p = (t - warmup) / (steps - warmup): the last step, t = steps, has exactly lr * m,
// and so has every later one. With steps <= warmup the run ends within or right after the warm-up.
class Schedule {
 public:
  enum class Kind { constant, cosine, linear, function };
  Schedule(double lr) : lr_(lr) { check(); }  // NOLINT: a number is a constant schedule
  // UserError when lr is negative or not finite, warmup or steps is negative, or min_ratio is outside [0, 1].
  Schedule(Kind kind, double lr, int64_t warmup, int64_t steps, double min_ratio);
  // lr times the function of step t, counted from 1, after a warm-up as above. UserError, during the run,
  // when the function's result is negative or not finite.
  Schedule(double lr, std::function<double(int64_t step)> factor, int64_t warmup = 0);
  double at(int64_t step) const;  // step >= 1: InternalError otherwise

 private:
  void check() const;
  Kind kind_ = Kind::constant;
  double lr_ = 0;
  int64_t warmup_ = 0;
  int64_t steps_ = 0;
  double min_ratio_ = 0;
  std::function<double(int64_t)> factor_;
};

inline Schedule constant(double lr, int64_t warmup = 0) {
  return {Schedule::Kind::constant, lr, warmup, 0, 0};
}
inline Schedule warmup_cosine(double lr, int64_t warmup, int64_t steps, double min_ratio = 0) {
  return {Schedule::Kind::cosine, lr, warmup, steps, min_ratio};
}
inline Schedule warmup_linear(double lr, int64_t warmup, int64_t steps, double min_ratio = 0) {
  return {Schedule::Kind::linear, lr, warmup, steps, min_ratio};
}

// Warm-up, stable, decay (Hu et al., arXiv 2404.06395): lr until the last `decay` of the `steps`, then
// linearly down to lr * min_ratio.
Schedule warmup_stable_decay(double lr, int64_t warmup, int64_t steps, int64_t decay, double min_ratio = 0);
// Cosine with warm restarts (Loshchilov and Hutter, arXiv 1608.03983): periods of `period`, period * factor,
// ... steps, each from lr down to lr * min_ratio. As PyTorch's CosineAnnealingWarmRestarts.
Schedule cosine_restarts(double lr, int64_t warmup, int64_t period, double factor = 1, double min_ratio = 0);

}  // namespace lockstep
