// Update nodes: the inputs that they replace, and the general `update` node, whose body has the arithmetic.
#pragma once

#include <vector>

#include "core/ops/tensor.h"

namespace lockstep {

// Tensors of a body have this many elements; its kernel takes any number.
inline constexpr int64_t kUpdateElements = 1 << 20;

// Marks an output that replaces no input; other nodes read it.
inline constexpr int kReplacesNothing = -1;

// Per output of an update node: the input that it replaces in place, or kReplacesNothing.
std::vector<int> replaced_inputs(const Node& node);

// An `update` node lists them in its attribute "replaces": output k replaces input replaces[k], or is f32
// with the shape of input 0. Its inputs are tensors of one shape, then scalars of rank 0. Its body
// (Node::body) computes the outputs element by element from inputs in the same order, with tensors of shape
// [kUpdateElements].

// Appends one; `replaces` and `always` are its attributes. Types are inferred, so UserErrors are apply's.
std::vector<Tensor> apply_update(const std::vector<Tensor>& inputs, const std::vector<int64_t>& replaces,
                                 std::shared_ptr<const Graph> body, const SourceLine& at,
                                 bool always = false);

// With the attribute "always" the update is applied even in a step that skips all other updates because its
// loss or a norm is beyond its limit. For counters of such events.
inline bool is_always_made(const Node& node) { return node.op == ops::update && node.attrs.flag("always"); }

// The body with tensors of another number of elements, for the reference evaluator, which allocates them.
Graph resized(const Graph& body, int64_t elements);

}  // namespace lockstep
