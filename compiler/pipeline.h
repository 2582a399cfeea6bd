// The pipeline: a table of passes and one loop that runs, times, dumps, verifies and can skip each by name.
#pragma once

#include <span>

#include "compiler/pass.h"

namespace lockstep::compiler {

// What is checked of placements after a pass.
enum class Typed {
  no,          // it works on a part of the step that one device runs
  lanes,       // what belongs to a micro-batch is summed before it is used for the step (check_lanes)
  placements,  // layouts of all values on all mesh dims (place_values)
};

struct PassRow {
  const char* name;
  Pass pass;
  bool may_skip;  // LOCKSTEP_SKIP_PASSES, compile.skip_passes
  Typed typed;
  const char* topic;  // log topic that shows the graph after it
  const char* why_here;
};

std::span<const PassRow>
step_passes();  // on the whole step, from the traced graph to the typed, ordered program
std::span<const PassRow>
phase_passes();  // on each phase that runs on one device, down to kernels and library calls

// Runs the rows in order. Under LOCKSTEP_VERIFY=1 (and in Debug builds) the graph is verified after each.
// UserError for a pass in skip_passes that does not exist or may not be skipped.
// Names in LOCKSTEP_SKIP_PASSES. UserError for one that is no pass, or may not be skipped.
std::vector<std::string> passes_skipped_by_environment();
Graph run_passes(Graph graph, std::span<const PassRow> rows, const PassContext& context);

}  // namespace lockstep::compiler
