// Join: turns a sum of zero-padded pieces that tile a tensor into a concat (the gradient of a split).
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

Graph join_pads(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
