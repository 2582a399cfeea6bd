// Simplify: merges equal nodes, applies laws of algebra that change no bit, and removes unused nodes.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

Graph simplify(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
