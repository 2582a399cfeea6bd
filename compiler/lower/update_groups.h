// What becomes the body of an update: the arithmetic by elements behind each assigned state, and behind what
// the tail of the step reads whole.
#pragma once

#include <set>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

// Values of one shape that one node computes element by element.
struct UpdateGroup {
  struct Target {
    ValueId value;
    int output = -1;  // of the graph: the state that the value replaces; -1: a value that other nodes read
  };
  Shape shape;
  std::vector<Target> targets;
  std::set<NodeId> inside;                // the body
  std::vector<ValueId> tensors, scalars;  // what the body reads
  SourceLine at;
};

// Assignments that share arithmetic, or of which one reads what the other replaces, are one group. Arithmetic
// on gradients and state whose result an op reads whole (a product of matrices, a sum) is a group, too, or
// part of one: it is computed by rows, and its result travels in place of all that it reads. Not so where all
// that it reads is read whole anyway.
std::vector<UpdateGroup> update_groups(const Graph& graph);

// Whether an output is state that no update node makes.
bool is_assignment(const Graph& graph, const GraphOutput& output);

}  // namespace lockstep::compiler
