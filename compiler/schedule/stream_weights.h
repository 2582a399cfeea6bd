// Moves gathers of weights from the head to the one phase that reads them. That phase gathers them itself,
// bucket by bucket, and frees them.
#pragma once

#include <string>

#include "compiler/schedule/phases.h"

namespace lockstep::compiler {

struct Streaming {
  // For every body (ZeRO 3): weights split over this mesh dim; "" for none.
  std::string body_dim = {};
  bool seed = false;  // for the seed, over any dim: only its results (float8) stay
};
void stream_weights(Phases& phases, const Streaming& streaming);

}  // namespace lockstep::compiler
