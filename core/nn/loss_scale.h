// A dynamic loss scale for gradients in f16. Losses are multiplied by a power of two, and f32 gradients are
// divided by it again, so that small f16 gradients do not become 0. As torch.amp.GradScaler.
#pragma once

#include <functional>
#include <vector>

#include "core/functions/functions.h"

namespace lockstep {

// Powers of two, so that scaling changes no digit.
struct LossScale {
  double first = 65536;
  double growth = 2;     // after `interval` steps in a row whose gradients are finite
  double backoff = 0.5;  // after a step whose gradients are not finite, which is not applied
  int64_t interval = 2000;
};
// State::compute_dtype(DType::f16) records the scale and the number of finite steps since it changed.
inline constexpr const char* kLossScale = "loss_scale.scale";
inline constexpr const char* kGoodSteps = "loss_scale.good_steps";

// Traces `step` for `batch` with a loss scale. grad() multiplies by the scale, and the step ends with the
// update of the scale. The gradient norms decide this update, equally on all ranks.
Loss with_loss_scale(const LossScale& how, const std::vector<Tensor>& batch,
                     const std::function<Loss(const std::vector<Tensor>& batch)>& step);

}  // namespace lockstep
