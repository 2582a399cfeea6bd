// The micro-batch of a step where nobody gives one, and what is said where a micro-batch that is given
// changes what the step computes.
#pragma once

#include "compiler/trace/trace.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

// The samples of a micro-batch for a step of `global` samples. It follows from the batch and the step
// function alone, never from the ranks, so that any number of ranks gives the same bits:
//   - a step that mixes its samples (compiler/trace/mixing.h) takes the whole batch at once, as it is
//   written;
//   - of any other the result is the same but for rounding: the largest divisor of `global` that leaves 4
//     micro-batches or more, for ranks to share, of 32 samples at most; 1 where none does.
// `sample`: the fields without their dim of samples. Traces the function on the whole batch. UserError as
// trace() throws.
int64_t default_micro_batch(const State& state, const std::vector<BatchField>& sample, int64_t global,
                            const StepFunction& function);
// The fields of a micro-batch of so many samples.
std::vector<BatchField> of_samples(std::vector<BatchField> sample, int64_t micro);
// The largest divisor of `of` that is `most` at most.
int64_t largest_divisor(int64_t of, int64_t most);

// Warns on rank 0, once for each line of the program, of what mixes samples in a step that trains on
// micro-batches smaller than its batch, of `micro` and `global` samples: the first place, and how many more
// there are.
// `traced`: on a micro-batch. One sample shows no mixing, so the function is traced again, on two: on all
// ranks, which call it alike.
void tell_mixed_samples(const State& state, const Graph& traced, const std::vector<BatchField>& batch,
                        int64_t global, int64_t micro, const StepFunction& function);

}  // namespace lockstep::compiler
