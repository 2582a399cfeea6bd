// A phase: the part of a typed program that some values need, as a graph of its own.
#pragma once

#include <set>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

// A sub-graph and where its arguments come from in the whole program.
struct Phase {
  Graph graph;  // inputs are named as in the whole program, or "%ID" for a value made by an earlier phase
  std::vector<ValueId> inputs;   // per graph input: the value of the whole program
  std::vector<ValueId> outputs;  // per graph output: the value of the whole program
};

// The value of the whole program that an input of a phase is.
ValueId whole_value_of(const Phase& phase, ValueId input);
// The input that a value is, or is gathered from as it is; kNoValue for another value.
ValueId gathered_input(const Graph& whole, ValueId v);
// The nodes needed for `outputs`, stopping at values in `given` and at graph inputs.
Phase extract(const Graph& whole, const std::vector<ValueId>& outputs, const std::set<ValueId>& given);

}  // namespace lockstep::compiler
