// A stream is an ordered queue of work on a device. Collectives are started and waited for on a stream.
#pragma once

#include <functional>
#include <memory>

namespace lockstep {

// A point in the work of a stream.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool done() = 0;         // never blocks; rethrows what the work before it threw, each time
  virtual void synchronize() = 0;  // blocks the calling thread; rethrows likewise
};

// When a stream came to a point, by its device's clock (the CPU's: the host's).
class Mark {
 public:
  virtual ~Mark() = default;
  // Seconds from `earlier`, of the same stream, to this one; the stream has passed both. Of captured work: in
  // its last launch.
  virtual double seconds_after(const Mark& earlier) const = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual void run(
      std::function<void()> work) = 0;  // enqueues host work; it runs after everything enqueued before it
  virtual void synchronize() = 0;       // returns when the queue is empty; rethrows what a work item threw
  // The point after everything enqueued so far; and: what is enqueued from now on runs after `event`, a point
  // of any stream of the same device. Neither blocks the calling thread on a device with queues of its own.
  virtual std::shared_ptr<Event> record();
  virtual void wait(const std::shared_ptr<Event>& event);
  virtual std::shared_ptr<Mark> mark();  // at what was enqueued so far
  virtual void* native() const {
    return nullptr;
  }  // the device's own handle (CUDA: CUstream); null on the CPU
};

// The CPU's compute stream: runs each item at once on the calling thread.
std::unique_ptr<Stream> inline_stream();
// A CPU stream with a thread of its own (Boost.Asio's pool of one).
std::unique_ptr<Stream> queue_stream();

}  // namespace lockstep
