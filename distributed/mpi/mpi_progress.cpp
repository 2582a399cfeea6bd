// The loop of the progress thread.
#include "distributed/mpi/mpi_progress.h"

#include <sys/prctl.h>

#include <chrono>

#include "core/base/error.h"

namespace lockstep::distributed {

namespace {
constexpr int kBurst = 32;                                        // tests with a yield after an event
constexpr std::chrono::microseconds kShortest{5}, kLongest{200};  // then sleeps between tests, doubling
}  // namespace

MpiProgress::MpiProgress() : thread_([this] { run(); }) {}

MpiProgress::~MpiProgress() { stop("the world was left"); }

void MpiProgress::stop(const std::string& reason) {
  halt(reason);
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void MpiProgress::submit(std::shared_ptr<MpiFlight> flight) {
  std::lock_guard lock(mutex_);
  if (!halted_.empty()) throw PeerError(str(flight->site(), " cannot start: ", halted_));
  submitted_.push_back(std::move(flight));
  changed_.notify_all();
}

void MpiProgress::halt(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (halted_.empty()) halted_ = reason;
  changed_.notify_all();
}

bool MpiProgress::halted() {
  std::lock_guard lock(mutex_);
  return !halted_.empty();
}

void MpiProgress::run() {
  prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);  // short sleeps stay short; the default adds 50 us to each
  std::vector<std::shared_ptr<MpiFlight>> flying, taken;
  int quiet = 0;  // rounds of tests without an event
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock,
                  [&] { return stopping_ || !halted_.empty() || !submitted_.empty() || !flying.empty(); });
    std::string reason = halted_;
    taken.assign(submitted_.begin(), submitted_.end());
    submitted_.clear();
    if (!reason.empty()) {
      flying.insert(flying.end(), taken.begin(), taken.end());
      for (auto& flight : flying)
        flight->finish(std::make_exception_ptr(PeerError(str(flight->site(), " cannot complete: ", reason))));
      flying.clear();
      if (stopping_) return;
      changed_.wait(lock, [&] { return stopping_; });
      continue;
    }
    lock.unlock();
    bool event = !taken.empty();
    auto failed = [&](MpiFlight& flight) {
      flight.finish(std::current_exception());
      try {
        throw;
      } catch (const std::exception& error) { halt(error.what()); }
    };
    for (auto& flight : taken) {
      try {
        flight->issue();
        flying.push_back(flight);
      } catch (...) { failed(*flight); }
    }
    taken.clear();
    std::erase_if(flying, [&](auto& flight) {
      try {
        if (!flight->test()) return false;
        flight->finish(nullptr);
      } catch (...) { failed(*flight); }
      event = true;
      return true;
    });
    quiet = event ? 0 : quiet + 1;
    if (quiet <= kBurst) {
      std::this_thread::yield();
      lock.lock();
    } else {
      auto pause = std::min(kLongest, kShortest * (1 << std::min(quiet - kBurst, 6)));
      lock.lock();
      changed_.wait_for(lock, pause, [&] { return stopping_ || !halted_.empty() || !submitted_.empty(); });
    }
  }
}

}  // namespace lockstep::distributed
