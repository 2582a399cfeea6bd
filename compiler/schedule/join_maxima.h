// Joins maxima over the rows of many small tensors of the state: one kernel for many of them.
#pragma once

#include "core/ir/graph.h"

namespace lockstep::compiler {

inline constexpr size_t kMostJoined = 64;  // the most tensors that one kernel may read

// For a seed that reads many histories of largest magnitudes ([rows, entries], a few hundred bytes each). The
// largest entries of their rows are found for up to kMostJoined tensors of one type at once, and each reader
// gets a slice of the result. A separate kernel for each tensor, or for each of its readers (which fusion
// would join if they read one tensor), would take longer to launch than to run. The bits are the same.
Graph join_maxima(const Graph& seed);

}  // namespace lockstep::compiler
