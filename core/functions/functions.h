// The functions that models are written with, each with its shapes, dtypes, rounding, gradient and source.
// This header includes all of core/functions/, which is sorted by theme.
//
// Shapes are in brackets; "..." is any number of dims. Dims count from 0, negative ones from the end. A
// function appends nodes to the traced graph and computes nothing. `at` is the caller's line, which errors
// name. UserError, with op, line and types, when the inputs do not fit, and for an empty Tensor.
//
// Dtypes. floats: f64, f32, bf16, f16. numbers: these, and the integers i32, i64, u8, u16, u32, u64. All
// inputs of a call, and its result, have one dtype unless stated otherwise; none is converted silently.
//
// Rounding. A function of bf16 or f16 computes in f32 and rounds its result once, to the nearest, ties to
// even. f64 computes in f64. Integers wrap. Fusion moves no rounding. exp, log, sin and the like are within 3
// units in the last place of f32 on the CPU; those of a GPU are other approximations, with other last bits.
//
// Only float inputs have gradients, in the input's dtype. Below, y is the result, dy its gradient, and
// "gradient" means that of x unless it names another input. The gradients of a value that is read several
// times are added in its dtype, the last reader's first. Where a rule divides by 0, infinity or NaN comes
// out.
//
// Source. "As PyTorch" means the function of that name in torch or torch.nn.functional. Functions that are
// one row of the op table are compared with a plain formula (compiler/reference), their gradients with a
// finite difference (tests/sweep); those that are compositions, with numbers of PyTorch
// (tests/golden/functions).
#pragma once

#include "core/functions/activations.h"
#include "core/functions/attention.h"
#include "core/functions/contract.h"
#include "core/functions/creation.h"
#include "core/functions/float8.h"
#include "core/functions/gradients.h"
#include "core/functions/image.h"
#include "core/functions/index.h"
#include "core/functions/lanes.h"
#include "core/functions/loss_sums.h"
#include "core/functions/losses.h"
#include "core/functions/norms.h"
#include "core/functions/operators.h"
#include "core/functions/order.h"
#include "core/functions/patterns.h"
#include "core/functions/pointwise.h"
#include "core/functions/random.h"
#include "core/functions/reduce.h"
#include "core/functions/shape.h"
