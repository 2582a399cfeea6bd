// The reference evaluator: slow, obviously right, and sharing no code with codegen. One direct formula per op
// row.
//
// Float rows compute in double and round once, to the dtype of the output; reductions and contractions
// accumulate in double and round at the end; integer rows compute in int64 and wrap to their dtype.
// Composites have formulas of their own: they never go through their expansion.
#pragma once

#include <functional>
#include <vector>

#include "compiler/reference/host_tensor.h"
#include "core/ir/graph.h"

namespace lockstep::compiler {

// Outputs of the graph, in the order of graph.outputs. `inputs` are in the order of graph.inputs and have
// their dtypes and shapes. sum_lanes is the identity (one micro-batch); a fused node evaluates its body.
// UserError when an index lies outside its table or a class outside the logits; InternalError for `grad`
// (differentiate first), for collectives and for sums of limbs (they need other ranks), and where a type is
// not what the row computes. `collective` is given the starts and waits of model dims with their inputs, and
// returns their outputs (a handle is u8[0]).
using CollectiveHook =
    std::function<std::vector<HostTensor>(const Node& node, const std::vector<HostTensor>& inputs)>;
std::vector<HostTensor> evaluate(const Graph& graph, const std::vector<HostTensor>& inputs,
                                 const CollectiveHook& collective = {});

// Outputs of one node of `graph` for these inputs of the node. Shapes follow from the inputs and attributes;
// dtypes must be those of the node's output values, with one exception: a float output that is declared f64
// is left unrounded (the finite-difference law retypes graphs).
std::vector<HostTensor> evaluate_node(const Graph& graph, const Node& node,
                                      const std::vector<HostTensor>& inputs);

}  // namespace lockstep::compiler
