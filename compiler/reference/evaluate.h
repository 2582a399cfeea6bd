// The reference evaluator: slow, clearly correct, and without code in common with codegen. It has one direct
// formula per op row.
//
// Float ops compute in double and round once, to the dtype of the output. Reductions and contractions
// accumulate in double and round at the end. Integer ops compute in int64 and wrap to their dtype. Composites
// have their own formulas and do not use their expansion.
#pragma once

#include <functional>
#include <vector>

#include "compiler/reference/host_tensor.h"
#include "core/ir/graph.h"

namespace lockstep::compiler {

// Outputs of the graph, in the order of graph.outputs. `inputs` are in the order of graph.inputs and have
// their dtypes and shapes. sum_lanes is the identity (one micro-batch); a fused node evaluates its body.
// `collective` gets the starts and waits of model dims with their inputs, and returns their outputs (a handle
// is u8[0]).
// UserError for an index outside its table or a class outside the logits. InternalError for `grad`
// (differentiate first), for collectives and sums of limbs (they need other ranks), and for a type that the
// op does not compute.
using CollectiveHook =
    std::function<std::vector<HostTensor>(const Node& node, const std::vector<HostTensor>& inputs)>;
std::vector<HostTensor> evaluate(const Graph& graph, const std::vector<HostTensor>& inputs,
                                 const CollectiveHook& collective = {});

// Outputs of one node of `graph` for these inputs of the node. Shapes follow from the inputs and attributes.
// Dtypes must be those of the node's output values, with one exception: a float output declared f64 is not
// rounded (the finite-difference law retypes graphs).
std::vector<HostTensor> evaluate_node(const Graph& graph, const Node& node,
                                      const std::vector<HostTensor>& inputs);

}  // namespace lockstep::compiler
