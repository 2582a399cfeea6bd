// A stream of the fake driver, and the points that its events mark.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace fake {

class Point {
 public:
  void reach() {
    std::lock_guard lock(mutex_);
    reached_ = true;
    changed_.notify_all();
  }
  bool reached() {
    std::lock_guard lock(mutex_);
    return reached_;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
};

struct FakeEvent {
  std::shared_ptr<Point> point;
};

class FakeStream {
 public:
  FakeStream() : thread_([this] { run(); }) {}
  ~FakeStream() {
    push(nullptr);
    thread_.join();
  }
  void push(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_all();
  }
  bool idle() {
    std::lock_guard lock(mutex_);
    return queue_.empty();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return !queue_.empty(); });
      auto work = queue_.front();  // stays in the queue until it is done: see idle()
      if (!work) return;
      lock.unlock();
      work();
      lock.lock();
      queue_.pop_front();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::thread thread_;
};

template <class Handle>
FakeStream& of(Handle stream) {
  return *reinterpret_cast<FakeStream*>(stream);
}

}  // namespace fake
