// A dynamic loss scale, for gradients in f16: losses are multiplied by a power of two, gradients divided by
// it again where they are f32, so that none that matters is 0 in between. As torch.amp.GradScaler.
#pragma once

#include <functional>
#include <vector>

#include "core/ops/functions.h"

namespace lockstep {

// Powers of two, so that scaling changes no digit.
struct LossScale {
  double first = 65536;
  double growth = 2;     // after `interval` steps in a row whose gradients are finite
  double backoff = 0.5;  // after a step whose gradients are not: it is not applied
  int64_t interval = 2000;
};
// What State::compute_dtype(DType::f16) records: the scale, and the finite steps since it changed.
inline constexpr const char* kLossScale = "loss_scale.scale";
inline constexpr const char* kGoodSteps = "loss_scale.good_steps";

// What `step` writes for `batch`: grad() multiplies by the scale, and the step ends with the scale's update,
// which the gradients' norms decide, alike on all ranks.
Loss with_loss_scale(const LossScale& how, const std::vector<Tensor>& batch,
                     const std::function<Loss(const std::vector<Tensor>& batch)>& step);

}  // namespace lockstep
