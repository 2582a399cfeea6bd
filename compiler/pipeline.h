// The pipeline: a table of passes and one loop that runs, times, dumps, verifies and can skip each by name.
#pragma once

#include <span>

#include "compiler/pass.h"

namespace lockstep {

struct PassRow {
  const char* name;
  Pass pass;
  bool may_skip;      // LOCKSTEP_SKIP_PASSES, compile.skip_passes
  bool placed;        // layouts are set and checked afterwards (place_values)
  const char* topic;  // log topic that shows the graph after it
  const char* why_here;
};

std::span<const PassRow> step_passes();   // on the whole step, from the traced graph to the typed, ordered program
std::span<const PassRow> phase_passes();  // on each phase that runs on one device, down to kernels and library calls

// Runs the rows in order. Under LOCKSTEP_VERIFY=1 (and in Debug builds) the graph is verified after each.
// UserError for a pass in skip_passes that does not exist or may not be skipped.
Graph run_passes(Graph graph, std::span<const PassRow> rows, const PassContext& context);

}  // namespace lockstep
