// Trace: calls the user's step function once, on handles, and keeps the graph that it writes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/ops/functions.h"

namespace lockstep::compiler {

// One input of the step function: its name and its type for one micro-batch. The first tensor dim counts
// sequences.
struct BatchField {
  std::string name;
  DType dtype = DType::i32;
  Shape shape;
};

using StepFunction = std::function<Loss(const std::vector<Tensor>& batch)>;

// What a traced function said beside its graph.
struct Told {
  std::vector<SourceLine> terms;  // of the loss: where the user wrote each
  std::vector<IdRead> id_reads;   // that no one op of the graph tells
};

// The graph of one micro-batch, global shapes: state, batch and scalar inputs as the function used them;
// outputs: state and metrics that an optimizer registered, and the metrics "loss" = sum over micro-batches /
// count over micro-batches, of a sum of losses the sum of these, and their counts, "tokens" of the first one
// (count_metric).
// `policy`: what contractions compute in (core/ops/precision.h); none: what the function writes is typed
// strictly. `micro_batches`: of a step. UserError when the function writes no loss, or reads a sparse table
// otherwise than by rows.
Graph trace(const std::vector<BatchField>& batch, const StepFunction& function,
            std::optional<DType> policy = {}, int64_t micro_batches = 1, Told* told = nullptr);

}  // namespace lockstep::compiler
