// Update nodes: what they replace, and the general one, which carries its arithmetic as a body.
#pragma once

#include <vector>

#include "core/ops/tensor.h"

namespace lockstep {

// Tensors of a body have this many elements; a kernel of it takes any number.
inline constexpr int64_t kUpdateElements = 1 << 20;

// Of an output that is a value of its own, which other nodes read.
inline constexpr int kReplacesNothing = -1;

// Per output of an update node: the input that it replaces in place, or kReplacesNothing.
std::vector<int> replaced_inputs(const Node& node);

// An `update` node has the attribute "replaces", which lists them: output k takes the place of input
// replaces[k], or is f32 and of the shape of input 0. Its inputs are tensors of one shape, then scalars of
// rank 0. Its body (Node::body) computes the outputs element by element from inputs in the same order, with
// tensors of shape [kUpdateElements].

// Appends one; `replaces` and `always` are its attributes. Types are inferred, so UserErrors are apply's.
std::vector<Tensor> apply_update(const std::vector<Tensor>& inputs, const std::vector<int64_t>& replaces,
                                 std::shared_ptr<const Graph> body, const SourceLine& at,
                                 bool always = false);

// With the attribute "always" it is made in a step whose other updates are not, because its loss or a norm is
// beyond its limit: counters of what happened.
inline bool is_always_made(const Node& node) { return node.op == ops::update && node.attrs.flag("always"); }

// A body over tensors of another number of elements: for the reference evaluator, which allocates them.
Graph resized(const Graph& body, int64_t elements);

}  // namespace lockstep
