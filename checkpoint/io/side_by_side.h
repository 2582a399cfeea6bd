// Pieces of work on several threads, in order as far as threads allow.
#pragma once

#include <cstddef>
#include <functional>

namespace lockstep::checkpoint {

// Calls work(i, thread) for i = 0 .. count - 1, on up to `threads` threads (the caller's among them), each
// taking the next free i. After a throw no more are started, and the error of the smallest i that threw is
// rethrown. All smaller i have run, so every call gives the same error.
void side_by_side(size_t count, int threads, const std::function<void(size_t i, int thread)>& work);

}  // namespace lockstep::checkpoint
