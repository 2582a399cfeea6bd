// Text to graph: the inverse of print.
#pragma once

#include <string_view>

#include "core/ir/graph.h"

namespace lockstep {

// UserError naming line and column when the text is not a graph.
Graph parse_graph(std::string_view text);

}  // namespace lockstep
