// Products in float8 with delayed scales: which nodes they are, and the positions of their inputs.
#pragma once

#include "core/ir/graph.h"

namespace lockstep::compiler {

inline bool is_delayed_product(const Node& node) {
  return (node.op == ops::linear_float8 || node.op == ops::linear_float8_grad) && node.attrs.flag("delayed");
}
inline bool is_backward(const Node& product) { return product.op == ops::linear_float8_grad; }
// Positions among its inputs: of x, which the weight follows; and of its layer's own history of maxima.
inline size_t place_of_x(const Node& product) { return is_backward(product) ? 1 : 0; }
inline size_t place_of_history(const Node& product) {
  return is_backward(product) ? 3 : product.inputs.size() - (product.attrs.flag("shares") ? 2 : 1);
}

}  // namespace lockstep::compiler
