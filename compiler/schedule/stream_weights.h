// Takes gathers of weights out of the head where one phase alone reads what they bring: that phase gathers
// them for itself, bucket by bucket, and frees them.
#pragma once

#include <string>

#include "compiler/schedule/phases.h"

namespace lockstep::compiler {

struct Streaming {
  std::string body_dim =
      {};             // of every body (ZeRO 3): weights that lie split over this mesh dim; "" for none
  bool seed = false;  // of the seed, over any dim: what it makes of them (float8) stays
};
void stream_weights(Phases& phases, const Streaming& streaming);

}  // namespace lockstep::compiler
