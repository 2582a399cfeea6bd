// The calls of a block, in order: one for each node of its graph that does work.
#pragma once

#include <vector>

#include "compiler/codegen/target.h"
#include "compiler/program/blocks/block.h"
#include "compiler/program/blocks/places.h"

namespace lockstep::compiler {

bool is_alias(const Node& node);  // whether it only names a part or another form of existing data
// Calls without arguments; the plan of the arena adds those. InternalError for a graph that is not lowered
// for the target.
std::vector<BlockCall> calls_of(const Graph& graph, const PerValue<Place>& places,
                                const CompileOptions& options, const Target& target);

}  // namespace lockstep::compiler
