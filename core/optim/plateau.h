// Plateau: a rate that falls when a number stops improving, as PyTorch's ReduceLROnPlateau.
#pragma once

#include <optional>
#include <string>

#include "core/nn/state.h"

namespace lockstep {

struct PlateauOptions {
  int64_t every = 1;        // updates between two looks; what is looked at is the mean over them
  double factor = 0.1;      // what the rate is multiplied by
  int64_t patience = 10;    // looks without improvement that do no harm
  double threshold = 1e-4;  // improvement: below best (1 - threshold), or above best (1 + threshold)
  bool absolute = false;    // improvement: below best - threshold, or above best + threshold
  bool maximize = false;    // the larger the better
  int64_t cooldown = 0;     // looks after a fall that are not counted
  double least = 0;         // of the rate, as a share of it
};

// The step computes it, so that it is the same on every rank and goes on where a checkpoint left off. Buffers
// of the state, f32 [1]: PATH.factor, PATH.best, PATH.waited, PATH.rest, and PATH.sum and PATH.seen of the
// updates since the last look. A step that is passed over, because its loss is not finite, is not looked at.
//   Plateau plateau(state / "plateau");  optimizer.follow(plateau);
//   in the step: optimizer.update(...);  plateau.observe(loss);
//   or behind a validation: plateau.observe(accuracy);
class Plateau {
 public:
  // UserError when an option is out of range.
  explicit Plateau(Scope at, PlateauOptions options = {}, Here line = Here::current());
  // Of this update's rate: f32 [], 1 at the start.
  Tensor factor(const Tensor& beside) const;
  // The loss of all micro-batches, or another number that the step knows behind them: f32 []. UserError for
  // another type, and for a second one in the same step.
  void observe(const Loss& loss, Here at = Here::current()) const;
  void observe(const Tensor& number, Here at = Here::current()) const;
  // Between two steps, on every rank with the same number, as a validation gives it. A NaN is no improvement.
  // Ranks compare the number at each call: collective over the state's mesh. UserError on all of
  // them where it differs, with both; and before the state has values.
  void observe(double number) const;
  // The factor of the next update, as this rank holds it; none where its rows lie on other ranks. UserError
  // before the state has values.
  std::optional<double> factor() const;
  std::string factor_name() const { return path_ + ".factor"; }  // in the state

 private:
  float* here(const char* name) const;  // null where this rank does not hold it
  Parameter of(const char* name) const;
  State* state_;
  std::string path_;
  PlateauOptions options_;
};

}  // namespace lockstep
