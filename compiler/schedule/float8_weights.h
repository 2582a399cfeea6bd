// Weights that the seed makes float8 of, and nothing else.
#pragma once

#include <string>
#include <vector>

#include "compiler/schedule/phases.h"

namespace lockstep::compiler {

// The nodes of the seed that make float8 of a weight, amax() and quantize(), by its own maximum or by one
// that follows from a history of the state.
struct Float8Weight {
  int input = 0;                         // of the seed
  Phases::Streamed* streamed = nullptr;  // its gather; null where one rank has all rows
  ValueId rows;                          // of `whole`: rows in bf16, as they lie on the ranks
  std::string along;                     // the mesh dim that they lie along
  int64_t ranks = 1;                     // as many rows on each of so many
  NodeId wide = {}, absolute = {}, of_rows = {}, most = {}, quantize = {};
  bool delayed = false;
  int updated = -1;  // in OwnRows::updated; -1: not there
  // Whether rows are cast before the seed has them; else one rank quantizes them in one pass.
  bool casts() const { return delayed || ranks > 1; }
};

// Those whose rows lie evenly along one mesh dim.
std::vector<Float8Weight> float8_weights(Phases& phases);

}  // namespace lockstep::compiler
