// Finds weights that the seed converts to float8 and uses for nothing else.
#pragma once

#include <string>
#include <vector>

#include "compiler/schedule/phases.h"

namespace lockstep::compiler {

// The nodes of the seed that convert a weight to float8, amax() and quantize(), by its own maximum or by one
// that follows from a history in the state.
struct Float8Weight {
  int input = 0;                         // of the seed
  Phases::Streamed* streamed = nullptr;  // its gather; null if one rank has all rows
  ValueId rows;                          // of `whole`: rows in bf16, as distributed over the ranks
  std::string along;                     // the mesh dim that splits them
  int64_t ranks = 1;                     // each has the same number of rows
  NodeId wide = {}, absolute = {}, of_rows = {}, most = {}, quantize = {};
  bool delayed = false;
  int updated = -1;  // index in OwnRows::updated; -1: absent
  // Whether rows are cast before the seed receives them; else one rank quantizes them in one pass.
  bool casts() const { return delayed || ranks > 1; }
};

// Those whose rows are split evenly along one mesh dim.
std::vector<Float8Weight> float8_weights(Phases& phases);

}  // namespace lockstep::compiler
