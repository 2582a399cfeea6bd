// Sums of losses, a + 0.5 * b: each is divided by its own count over all micro-batches and ranks, so that
// values and gradients are those of the written formula on any mesh, also where the counts differ.
#pragma once

#include <string_view>
#include <vector>

#include "core/ops/functions/losses.h"

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
// Every term times a number, over it. UserError for a number that is not finite.
Loss operator*(LossAt a, double weight);
Loss operator*(double weight, LossAt a);
Loss operator/(LossAt a, double weight);
// The same by a tensor of one element that all micro-batches of a step have alike: made of weights, buffers,
// scalars and sums of counts. Gradients flow into it. UserError for one that reads the micro-batch, or a sum
// that is known behind the last one.
Loss operator*(LossAt a, const Tensor& weight);
Loss operator*(const Tensor& weight, LossAt a);
Loss operator/(LossAt a, const Tensor& weight);
// A number, or such a tensor, beside the means: loss + 0.01 * sum(w * w). The step's
// first micro-batch alone has it, with a count of 1: it is added once, to the bit. 0 is no term.
Loss operator+(LossAt a, double b);
Loss operator+(double a, LossAt b);
Loss operator-(LossAt a, double b);
Loss operator-(double a, LossAt b);
Loss operator+(LossAt a, const Tensor& b);
Loss operator+(const Tensor& a, LossAt b);
Loss operator-(LossAt a, const Tensor& b);
Loss operator-(const Tensor& a, LossAt b);

// The losses that it is the sum of: itself, or its terms. UserError "[name] line: ..." where one has no sum
// or no count, or those are no scalars.
std::vector<Loss> terms_of(std::string_view name, const Loss& loss, Here at = Here::current());
// Its value: the sum of sum / count over the terms, of all micro-batches on all ranks, []. Known behind the
// last micro-batch.
Tensor mean_of_step(const Loss& loss, Here at = Here::current());

}  // namespace lockstep
