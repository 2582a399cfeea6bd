// Derives the layout of every value from the layouts of a graph's inputs, or says why the program is wrong.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// Sets the layout of every value from the layouts of the graph's inputs, by the rule of each op, and checks
// that
// - a value in flight (the result of a *_start) is read by exactly one wait;
//   - a Partial reaches only a reduction, a PerLane value only the sum over lanes, a Shard only ops whose
//     rule allows it;
// - no collective is redundant: nothing is reduced, exchanged or gathered twice;
//   - no float goes through all_reduce in invariant numerics;
//   - every state output has the layout of the state input that it replaces, and every metric is whole.
// UserError "[op] file:line (layer): what it got, what it wants" otherwise.
void place_values(Graph& graph, const PassContext& context);

// The same check before the data dims are partitioned, as if the step ran on one data rank. A value of a
// micro-batch becomes a value of the step only through sum_lanes. UserError as place_values.
void check_lanes(const Graph& graph);

}  // namespace lockstep::compiler
