// side_by_side: starts std::threads for the duration of one call.
#include "checkpoint/io/side_by_side.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace lockstep::checkpoint {

void side_by_side(size_t count, int threads, const std::function<void(size_t, int)>& work) {
  std::atomic<size_t> next{0};
  std::atomic<bool> over{false};
  std::mutex guard;
  std::exception_ptr error;
  size_t error_at = count;
  auto take = [&](int thread) {
    while (!over) {
      const size_t i = next++;
      if (i >= count) return;
      try {
        work(i, thread);
      } catch (...) {
        over = true;
        std::lock_guard<std::mutex> hold(guard);
        if (i < error_at) error = std::current_exception(), error_at = i;
      }
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < std::min<int64_t>(threads, static_cast<int64_t>(count)); ++t) try {
      others.emplace_back(take, t);
    } catch (const std::system_error&) { break; }  // no more threads available: fewer do the work
  take(0);
  for (auto& other : others) other.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace lockstep::checkpoint
