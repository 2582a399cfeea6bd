// The default micro-batch of a step, and the warning if a given micro-batch changes the step's results.
#pragma once

#include "compiler/trace/trace.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

// The samples per micro-batch for a step of `global` samples. It depends only on the batch and the step
// function, never on the ranks, so that any number of ranks gives the same bits:
//   - a step that mixes its samples or reads their number (compiler/trace/mixing.h), or that refuses fewer,
//     takes the whole batch at once, as it is written;
//   - for any other step only rounding, and noise on weights, depends on it. It is the largest divisor of
//     `global` that leaves at least 4 micro-batches, for ranks to share, of at most 32 samples; else 1.
// `sample`: the fields without their sample dim. Traces the function on the whole batch and on a micro-batch.
// UserError as trace() throws it on the whole batch.
int64_t default_micro_batch(const State& state, const std::vector<BatchField>& sample, int64_t global,
                            const StepFunction& function);
// The fields of a micro-batch of `micro` samples.
std::vector<BatchField> of_samples(std::vector<BatchField> sample, int64_t micro);
// The largest divisor of `of` that is at most `most`.
int64_t largest_divisor(int64_t of, int64_t most);

// Warns on rank 0, once per line of the program, of changes that micro-batches make to a step that trains on
// micro-batches smaller than its batch. It names the first place, and how many more there are. `micro` and
// `global` count samples.
// `traced`: on a micro-batch. The function is traced again on the whole batch. If a micro-batch has one
// sample, it is also traced on two, since one sample shows no mixing. Every rank calls it with the same
// arguments.
void tell_mixed_samples(const State& state, const Graph& traced, const std::vector<BatchField>& batch,
                        int64_t global, int64_t micro, const StepFunction& function);

}  // namespace lockstep::compiler
