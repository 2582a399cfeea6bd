// Gradients of a loss: what an optimizer takes.
#pragma once

#include <vector>

#include "core/nn/parameter.h"
#include "core/ops/functions.h"

namespace lockstep {

// One gradient per parameter, of its type, summed over all micro-batches; whole, as far as the step function
// can tell.
struct Gradients {
  std::vector<Parameter> parameters;
  std::vector<Tensor> values;
  // Of a sparse table, behind which values are rows f32 [n, width]: the table's rows that they belong to, i32
  // [n], ascending, n the number of ids of the step. Rows of one id are summed, in the order of
  // micro-batches; where ids come again, the last one fills up the rest, with its row. Empty Tensors for
  // others; may be left out where no table is sparse.
  std::vector<Tensor> ids = {};
  bool is_sparse(size_t i) const { return i < ids.size() && ids[i].defined(); }
};

// Gradients of loss.sum / loss.count (both summed over all micro-batches), or of a sum of such losses, each
// by its own count: one `grad` node, which autodiff expands. A parameter that the loss does not read gets
// zeros. UserError when the loss is empty or there are no parameters, and where the loss takes no rows of a
// sparse table.
Gradients grad(const Loss& loss, const std::vector<Parameter>& parameters, Here at = Here::current());

}  // namespace lockstep
