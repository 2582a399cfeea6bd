// Sums of losses, a + 0.5 * b. Each term is divided by its own count over all micro-batches and ranks, so
// values and gradients are those of the formula on any mesh, even if the counts differ.
#pragma once

#include <string_view>
#include <vector>

#include "core/functions/losses.h"

namespace lockstep {

// A Loss and the line where it is written.
struct LossAt {
  LossAt(const Loss& value, Here line = Here::current()) : loss(value), at(line) {}  // implicit: at the call
  Loss loss;
  Here at;
};

// The terms of both, each with its own count.
Loss operator+(LossAt a, const Loss& b);
Loss operator-(LossAt a, const Loss& b);
Loss operator-(LossAt a);
Loss& operator+=(Loss& a, LossAt b);
Loss& operator-=(Loss& a, LossAt b);
// Multiplies or divides every term by a number. UserError for a number that is not finite.
Loss operator*(LossAt a, double weight);
Loss operator*(double weight, LossAt a);
Loss operator/(LossAt a, double weight);
// The same with a tensor of one element that is equal in all micro-batches of a step: computed from weights,
// buffers, scalars and sums of counts. Gradients flow into it. UserError for one that reads the micro-batch,
// or a sum that is known only after the last one.
Loss operator*(LossAt a, const Tensor& weight);
Loss operator*(const Tensor& weight, LossAt a);
Loss operator/(LossAt a, const Tensor& weight);
// Adds a number, or such a tensor, to the means: loss + 0.01 * sum(w * w). Only the step's first micro-batch
// contributes it, with a count of 1, so it is added exactly once. 0 adds no term.
Loss operator+(LossAt a, double b);
Loss operator+(double a, LossAt b);
Loss operator-(LossAt a, double b);
Loss operator-(double a, LossAt b);
Loss operator+(LossAt a, const Tensor& b);
Loss operator+(const Tensor& a, LossAt b);
Loss operator-(LossAt a, const Tensor& b);
Loss operator-(const Tensor& a, LossAt b);

// The terms of a loss, or the loss itself. UserError "[name] line: ..." if one has no sum or no count, or
// these are not scalars.
std::vector<Loss> terms_of(std::string_view name, const Loss& loss, Here at = Here::current());
// The loss value []: the sum of sum / count over the terms, of all micro-batches on all ranks. Known after
// the last micro-batch.
Tensor mean_of_step(const Loss& loss, Here at = Here::current());

}  // namespace lockstep
