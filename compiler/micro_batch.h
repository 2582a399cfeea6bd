// The micro-batch of a step where nobody gives one, and what is said where a micro-batch that is given
// changes what the step computes.
#pragma once

#include "compiler/trace/trace.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

// The samples of a micro-batch for a step of `global` samples. It follows from the batch and the step
// function alone, never from the ranks, so that any number of ranks gives the same bits:
//   - a step that mixes its samples or reads how many they are (compiler/trace/mixing.h), or that refuses
//     fewer, takes the whole batch at once, as it is written;
//   - of any other the result is the same but for rounding, and noise on weights: the largest divisor of
//     `global` that leaves 4 micro-batches or more, for ranks to share, of 32 samples at most; 1 where none
//     does.
// `sample`: the fields without their dim of samples. Traces the function on the whole batch and on a
// micro-batch. UserError as trace() throws on the whole batch.
int64_t default_micro_batch(const State& state, const std::vector<BatchField>& sample, int64_t global,
                            const StepFunction& function);
// The fields of a micro-batch of so many samples.
std::vector<BatchField> of_samples(std::vector<BatchField> sample, int64_t micro);
// The largest divisor of `of` that is `most` at most.
int64_t largest_divisor(int64_t of, int64_t most);

// Warns on rank 0, once for each line of the program, of what micro-batches change in a step that trains on
// some that are smaller than its batch, of `micro` and `global` samples: the first place, and how many more
// there are.
// `traced`: on a micro-batch. The function is traced again, on the whole batch, and on two samples where a
// micro-batch has one, which shows no mixing: on all ranks, which call it alike.
void tell_mixed_samples(const State& state, const Graph& traced, const std::vector<BatchField>& batch,
                        int64_t global, int64_t micro, const StepFunction& function);

}  // namespace lockstep::compiler
