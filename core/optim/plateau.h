// Plateau: a rate that falls when a number stops improving, as PyTorch's ReduceLROnPlateau.
#pragma once

#include <optional>
#include <string>

#include "core/nn/state.h"

namespace lockstep {

struct PlateauOptions {
  int64_t every = 1;        // updates between two checks; a check takes the mean over them
  double factor = 0.1;      // what the rate is multiplied by
  int64_t patience = 10;    // checks without improvement before the rate falls
  double threshold = 1e-4;  // improvement: below best (1 - threshold), or above best (1 + threshold)
  bool absolute = false;    // improvement: below best - threshold, or above best + threshold
  bool maximize = false;    // the larger the better
  int64_t cooldown = 0;     // checks after a fall that do not count
  double least = 0;         // the smallest factor
};

// The step computes the factor, so it is the same on every rank and continues from a checkpoint. Buffers of
// the state, f32 [1]: PATH.factor, PATH.best, PATH.waited, PATH.rest, and PATH.sum and PATH.seen of the
// updates since the last check. A step that is skipped because its loss is not finite does not count.
//   Plateau plateau(state / "plateau");  optimizer.follow(plateau);
//   in the step: optimizer.update(...);  plateau.observe(loss);
//   or after a validation: plateau.observe(accuracy);
class Plateau {
 public:
  // UserError when an option is out of range.
  explicit Plateau(Scope at, PlateauOptions options = {}, Here line = Here::current());
  // The factor of this update's rate: f32 [], 1 at the start.
  Tensor factor(const Tensor& beside) const;
  // Observes the loss of all micro-batches, or another f32 [] that is known after them. UserError for another
  // type, and for a second call in the same step.
  void observe(const Loss& loss, Here at = Here::current()) const;
  void observe(const Tensor& number, Here at = Here::current()) const;
  // Observes a number between two steps, such as a validation result; every rank passes the same one. A NaN
  // is not an improvement. Ranks compare the number: collective over the state's mesh. UserError, with both
  // numbers, on all ranks if it differs, and before the state has values.
  void observe(double number) const;
  // The factor of the next update; none if another rank holds it. UserError before the state has values.
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
