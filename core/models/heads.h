// Reshapes between features of all heads in one dim, as projections give them, and a dim of heads, as sdpa
// takes them.
#pragma once

#include "core/functions/functions.h"

namespace lockstep::models {

// [B,T,heads D] -> [B,T,heads,D]
inline Tensor to_heads(Tensor x, int64_t heads, Here at = Here::current()) {
  return unflatten(x, 2, {heads, -1}, at);
}
// [B,T,heads,D] -> [B,T,heads D]
inline Tensor from_heads(Tensor x, Here at = Here::current()) { return flatten(x, 2, 3, at); }

}  // namespace lockstep::models
