// Blocks: a box cut into contiguous sub-boxes of bounded size, so that any box passes through a buffer of
// fixed size.
#pragma once

#include <functional>

#include "core/types/box.h"

namespace lockstep::checkpoint {

// Calls visit(block, at) for sub-boxes that follow each other in the row-major dense storage of `box`, each
// of at most `limit` elements (at least 1); `at` is the block's first element in that storage. Nothing is
// visited for a box without elements.
void for_each_block(const Box& box, int64_t limit,
                    const std::function<void(const Box& block, int64_t at)>& visit);

// The first element of `part` within the row-major dense storage of `frame`, when all of `part` is one run
// there; -1 when it is not, or does not lie inside.
int64_t contiguous_at(const Box& part, const Box& frame);

}  // namespace lockstep::checkpoint
