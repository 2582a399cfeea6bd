// CPU streams: inline, and a queue with one thread.
#include "core/device/stream.h"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <future>
#include <mutex>
#include <utility>

#include "core/base/error.h"

namespace lockstep {

namespace {
// An event of a CPU stream: a work item of the stream completes it; it fails if the stream drops the item.
class Flag : public Event {
 public:
  explicit Flag(std::shared_future<void> reached) : reached_(std::move(reached)) {}
  bool done() override {
    if (reached_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
    synchronize();
    return true;
  }
  void synchronize() override {
    try {
      reached_.get();
    } catch (const std::future_error&) {
      throw InternalError("the work before an event failed; its stream knows why");
    }
  }

 private:
  std::shared_future<void> reached_;
};

class InlineStream : public Stream {
 public:
  void run(std::function<void()> work) override { work(); }
  void synchronize() override {}
};

class QueueStream : public Stream {
 public:
  ~QueueStream() override { pool_.join(); }
  void run(std::function<void()> work) override {
    boost::asio::post(pool_, [this, work = std::move(work)] {
      std::exception_ptr failed;
      {
        std::lock_guard lock(mutex_);
        if (error_) return;  // after a failure the rest of the queue does not run
      }
      try {
        work();
      } catch (...) { failed = std::current_exception(); }
      if (failed) {
        std::lock_guard lock(mutex_);
        error_ = failed;
      }
    });
  }
  // The event also reports earlier failures, since a host thread that waits for it may never synchronise with
  // the stream.
  std::shared_ptr<Event> record() override {
    auto reached = std::make_shared<std::promise<void>>();
    auto event = std::make_shared<Flag>(reached->get_future().share());
    boost::asio::post(pool_, [this, reached = std::move(reached)] {
      std::lock_guard lock(mutex_);
      if (error_)
        reached->set_exception(error_);
      else
        reached->set_value();
    });
    return event;
  }
  void synchronize() override {
    std::promise<void> reached;
    auto future = reached.get_future();
    boost::asio::post(pool_, [&] { reached.set_value(); });
    future.wait();
    std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  boost::asio::thread_pool pool_{1};
  std::mutex mutex_;
  std::exception_ptr error_;
};
}  // namespace

std::shared_ptr<Event> Stream::record() {
  auto reached = std::make_shared<std::promise<void>>();
  auto event = std::make_shared<Flag>(reached->get_future().share());
  run([reached = std::move(reached)] { reached->set_value(); });
  return event;
}
void Stream::wait(const std::shared_ptr<Event>& event) {
  run([event] { event->synchronize(); });
}

namespace {
class HostMark : public Mark {
 public:
  std::chrono::steady_clock::time_point at;
  double seconds_after(const Mark& earlier) const override {
    auto* from = dynamic_cast<const HostMark*>(&earlier);
    LS_CHECK(from, "marks of streams of different kinds");
    return std::chrono::duration<double>(at - from->at).count();
  }
};
}  // namespace

std::shared_ptr<Mark> Stream::mark() {
  auto mark = std::make_shared<HostMark>();
  run([mark] { mark->at = std::chrono::steady_clock::now(); });
  return mark;
}

std::unique_ptr<Stream> inline_stream() { return std::make_unique<InlineStream>(); }
std::unique_ptr<Stream> queue_stream() { return std::make_unique<QueueStream>(); }

}  // namespace lockstep
