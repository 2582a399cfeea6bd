// User-defined passes: graph to graph, inserted by name after a row of the pipeline.
#pragma once

#include <string>

#include "compiler/own_pass.h"

namespace lockstep::compiler {

// Registers `pass` as `name`: small letters, digits and _, in at least two parts, such as "mine::fold". A
// compilation that lists the name in CompileOptions::extra_passes (config: compile.extra_passes) runs it
// right after the pipeline's row `after`. Several passes after one row run in the order of that list. After a
// row of the step ("simplify", ...) it gets the graph of the whole step; after a row of a phase ("fuse") it
// gets the graph of each phase.
// The pass must be pure: the same graph and the same result on every rank and in every run. The result is
// verified: types as the op table infers them, unchanged inputs and outputs of the graph, and placements as
// after the row.
// Thread-safe. UserError if `after` is not a row, the name does not fit, or the name already has another row.
void register_pass(const std::string& after, const std::string& name, OwnPass pass);

}  // namespace lockstep::compiler
