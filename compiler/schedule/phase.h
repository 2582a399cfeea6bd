// A phase: the part of a typed program that some values need, as its own graph.
#pragma once

#include <set>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

// A sub-graph and the origin of its arguments in the whole program.
struct Phase {
  Graph graph;  // inputs are named as in the whole program, or "%ID" for a value made by an earlier phase
  std::vector<ValueId> inputs;   // per graph input: the value of the whole program
  std::vector<ValueId> outputs;  // per graph output: the value of the whole program
};

// The value of the whole program for an input of a phase.
ValueId whole_value_of(const Phase& phase, ValueId input);
// The input from which a value comes unchanged or only gathered; kNoValue for another value.
ValueId gathered_input(const Graph& whole, ValueId v);
// The nodes needed for `outputs`, stopping at values in `given` and at graph inputs.
Phase extract(const Graph& whole, const std::vector<ValueId>& outputs, const std::set<ValueId>& given);

}  // namespace lockstep::compiler
