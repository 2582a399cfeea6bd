// The pipeline: a table of passes and one loop that runs, times, dumps and verifies each, and can skip it by
// name.
#pragma once

#include <span>

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// The check of placements after a pass.
enum class Typed {
  no,          // it works on a part of the step on one device
  lanes,       // values of a micro-batch are summed before the step uses them (check_lanes)
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

// Passes on the whole step, from the traced graph to the typed, ordered program.
std::span<const PassRow> step_passes();
// Passes on each phase of one device, down to kernels and library calls.
std::span<const PassRow> phase_passes();

// Names in LOCKSTEP_SKIP_PASSES. UserError for a name that is not a pass, or may not be skipped.
std::vector<std::string> passes_skipped_by_environment();
// Runs the rows in order. Under LOCKSTEP_VERIFY=1 (and in Debug builds) the graph is verified after each.
// UserError for a pass in skip_passes that does not exist or may not be skipped.
Graph run_passes(Graph graph, std::span<const PassRow> rows, const PassContext& context);

}  // namespace lockstep::compiler
