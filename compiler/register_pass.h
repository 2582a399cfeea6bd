// Passes of one's own: graph to graph, put behind a row of the pipeline by name.
#pragma once

#include <string>

#include "compiler/own_pass.h"

namespace lockstep::compiler {

// Makes `pass` known as `name`: small letters, digits and _, in at least two parts, as "mine::fold". A
// compilation that names it in CompileOptions::extra_passes (config: compile.extra_passes) runs it right
// after the pipeline's row `after`, several of one row in the order of that list. Behind a row of a step
// ("simplify", ...) it gets the graph of the whole step, behind one of a phase ("fuse") that of each phase.
// It is pure: the same graph on every rank and in every run, and so is what it gives. What it gives is
// verified: types as the op table infers them, inputs and outputs of the graph as they were, and placements
// as behind the row. Safe from any thread. UserError when `after` is no row, the name does not fit, or the
// name has another row already.
void register_pass(const std::string& after, const std::string& name, OwnPass pass);

}  // namespace lockstep::compiler
