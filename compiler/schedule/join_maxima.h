// Maxima of the rows of many small tensors of the state: one kernel for many of them.
#pragma once

#include "core/ir/graph.h"

namespace lockstep::compiler {

inline constexpr size_t kMostJoined = 64;  // tensors that one kernel may read

// Of a seed, which reads many histories of largest magnitudes ([rows, entries], a few hundred bytes each):
// the largest entries of their rows are found for up to kMostJoined tensors of one type at once, and each
// reader has a slice of these. A kernel for each would take longer to launch than to run, and so would one
// for each of its readers, which fusion joins where they read one tensor. The bits are the same.
Graph join_maxima(const Graph& seed);

}  // namespace lockstep::compiler
