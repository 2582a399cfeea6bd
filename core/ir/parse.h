// Parses a graph from its printed text: the inverse of print.
#pragma once

#include <string_view>

#include "core/ir/graph.h"

namespace lockstep {

// Throws UserError, naming line and column, if the text is not a graph.
Graph parse_graph(std::string_view text);

}  // namespace lockstep
