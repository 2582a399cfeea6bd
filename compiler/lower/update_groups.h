// Finds the bodies of updates: the elementwise arithmetic before each assigned state, and before values that
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

// Assignments that share arithmetic, or where one reads the state that another replaces, are one group.
// Arithmetic on gradients and state whose whole result an op reads (a matrix product, a sum) is a group, too,
// or part of one. It is then computed by rows, and its result travels instead of its inputs. This is not done
// if all its inputs are read whole anyway.
std::vector<UpdateGroup> update_groups(const Graph& graph);

// Whether an output is state that no update node produces.
bool is_assignment(const Graph& graph, const GraphOutput& output);

}  // namespace lockstep::compiler
