// Simplify: equal nodes become one, laws of algebra that change no bit, and nodes that nobody needs go.
#pragma once

#include "compiler/pass.h"

namespace lockstep::compiler {

Graph simplify(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
