// Pad products: matrix products whose rows have an awkward length, with zeros at the end of each row.
#pragma once

#include "compiler/codegen/target.h"
#include "compiler/pass.h"

namespace lockstep::compiler {

// Rewrites dot and linear where the last dim of an operand or of the output is no multiple of
// `rule.multiple`: each such dim is padded with zeros up to one, in every tensor that has it, and the output
// is cut back to its shape. Done where the rule's rates say that a step gains: operands are padded once for
// all products that read them so. Zeros add nothing to a sum; which algorithm computes it, and in which order
// it adds, is that of the new shape.
Graph with_padded_products(const Graph& graph, const std::function<ProductRows(DType)>& rule);

// The pass: by the target's rule.
Graph pad_products(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
