// CPU streams: inline, and a queue with one thread.
#include "core/device/stream.h"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <future>
#include <mutex>
#include <utility>

namespace lockstep {

namespace {
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

std::unique_ptr<Stream> inline_stream() { return std::make_unique<InlineStream>(); }
std::unique_ptr<Stream> queue_stream() { return std::make_unique<QueueStream>(); }

}  // namespace lockstep
