// A stream is an ordered queue of work on a device. Collectives are started and waited for on a stream.
#pragma once

#include <functional>
#include <memory>

namespace lockstep {

class Stream {
 public:
  virtual ~Stream() = default;
  virtual void run(std::function<void()> work) = 0;  // enqueues; work runs after everything enqueued before it
  virtual void synchronize() = 0;                    // returns when the queue is empty; rethrows what a work item threw
};

// The CPU's compute stream: runs each item at once on the calling thread.
std::unique_ptr<Stream> inline_stream();
// A CPU stream with a thread of its own (Boost.Asio's pool of one).
std::unique_ptr<Stream> queue_stream();

}  // namespace lockstep
