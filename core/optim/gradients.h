// Gradients of a loss, which optimizers take.
#pragma once

#include <vector>

#include "core/functions/functions.h"
#include "core/nn/parameter.h"

namespace lockstep {

// One gradient per parameter, of its type, summed over all micro-batches; not split, from the step function's
// point of view.
struct Gradients {
  std::vector<Parameter> parameters;
  std::vector<Tensor> values;
  // For a sparse table, whose gradient is rows f32 [n, width]: the row indices in the table, i32 [n],
  // ascending; n is the number of ids of the step. Rows of equal ids are summed in the order of
  // micro-batches; the last id and its row fill the places that this frees. Empty Tensors for other
  // parameters; the list may be empty if no table is sparse.
  std::vector<Tensor> ids = {};
  bool is_sparse(size_t i) const { return i < ids.size() && ids[i].defined(); }
};

// Gradients of loss.sum / loss.count (both summed over all micro-batches), or of a sum of such losses, each
// with its own count: one `grad` node, which autodiff expands. A parameter that the loss does not read gets
// zeros. UserError when the loss is empty or there are no parameters, and when the loss reads no rows of a
// sparse table.
Gradients grad(const Loss& loss, const std::vector<Parameter>& parameters, Here at = Here::current());

}  // namespace lockstep
