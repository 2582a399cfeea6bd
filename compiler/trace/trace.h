// Trace: calls the user's step function once, on handles, and records the graph that it writes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/functions/functions.h"

namespace lockstep::compiler {

// One input of the step function: its name and its type for one micro-batch. The first tensor dim counts
// sequences.
struct BatchField {
  std::string name;
  DType dtype = DType::i32;
  Shape shape;
};

using StepFunction = std::function<Loss(const std::vector<Tensor>& batch)>;

// What a traced function reported in addition to its graph.
struct Told {
  std::vector<SourceLine> terms;  // of the loss: where the user wrote each
  std::vector<IdRead> id_reads;   // reads that no single op of the graph shows
};

// The graph of one micro-batch, global shapes. Inputs: state, batch and scalars that the function used.
// Outputs: state and metrics that an optimizer registered, and two metrics. "loss" is the sum over
// micro-batches divided by the count over micro-batches; for a sum of losses, the sum of these. "tokens" is
// the count of the first loss (count_metric).
// `policy`: the dtype in which contractions compute (core/ops/precision.h); none: types are strictly as the
// function writes them. `micro_batches`: of a step. UserError if the function writes no loss, or reads a
// sparse table other than by rows.
Graph trace(const std::vector<BatchField>& batch, const StepFunction& function,
            std::optional<DType> policy = {}, int64_t micro_batches = 1, Told* told = nullptr);

}  // namespace lockstep::compiler
