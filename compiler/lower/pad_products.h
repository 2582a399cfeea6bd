// Pad products: pads the rows of matrix products of awkward length with zeros.
#pragma once

#include "compiler/codegen/target.h"
#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// Rewrites dot and linear if the last dim of an operand or of the output is not a multiple of
// `rule.multiple`. Each such dim is padded with zeros to the next multiple, in every tensor that has it, and
// the output is cut back to its shape. This is done only if a step gains by the rule's rates; operands are
// padded once for all products that read them this way. Zeros add nothing to a sum, but the algorithm, and so
// the order of its additions, is that of the new shape.
Graph with_padded_products(const Graph& graph, const std::function<ProductRows(DType)>& rule);

// The pass, with the target's rule.
Graph pad_products(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
