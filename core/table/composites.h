// Rows of composites by theme, which composite_ops() and contract_ops() join.
#pragma once

#include "core/ops/op.h"

namespace lockstep {

std::vector<Op> attention_rows();      // sdpa and its gradient
std::vector<Op> norm_rows();           // softmax, layer_norm, rms_norm and their gradients
std::vector<Op> activation_rows();     // gelu, silu and their gradients
std::vector<Op> loss_rows();           // cross_entropy and its gradient
std::vector<Op> embedding_rows();      // embedding and its gradient, dropout
std::vector<Op> rope_rows();           // rope
std::vector<Op> convolution_rows();    // convolution and its gradients
std::vector<Op> window_rows();         // windows, which are a view, and their transpose
std::vector<Op> pooling_rows();        // max_pool and its gradient, avg_pool
std::vector<Op> clip_rows();           // global_norm, clip_scale
std::vector<Op> float8_rows();         // quantize, scaled_mm
std::vector<Op> float8_linear_rows();  // linear_float8 and its gradient

}  // namespace lockstep
