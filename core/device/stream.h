// A stream is an ordered queue of work on a device. Collectives are started and waited for on a stream.
#pragma once

#include <functional>
#include <memory>

namespace lockstep {

// A point in the queue of a stream.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool done() = 0;         // never blocks; rethrows an exception of the work before it, at every call
  virtual void synchronize() = 0;  // blocks the calling thread; rethrows likewise
};

// The time at which a stream reached a point, by the device's clock (CPU: the host's).
class Mark {
 public:
  virtual ~Mark() = default;
  // Seconds from `earlier`, a mark of the same stream, to this one; the stream must have passed both. In
  // captured work they are those of its last launch.
  virtual double seconds_after(const Mark& earlier) const = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  // Enqueues host work, which runs after everything enqueued before it.
  virtual void run(std::function<void()> work) = 0;
  virtual void synchronize() = 0;  // returns when the queue is empty; rethrows what a work item threw
  // record() returns the point after everything enqueued so far. wait() makes later work of this stream run
  // after `event`, a point of any stream of the same device. Neither blocks the calling thread on a device
  // with queues of its own.
  virtual std::shared_ptr<Event> record();
  virtual void wait(const std::shared_ptr<Event>& event);
  virtual std::shared_ptr<Mark> mark();  // at what was enqueued so far
  // The device's own handle (CUDA: CUstream); null on the CPU.
  virtual void* native() const { return nullptr; }
};

// The CPU's compute stream: runs each item at once on the calling thread.
std::unique_ptr<Stream> inline_stream();
// A CPU stream with a thread of its own (Boost.Asio's pool of one).
std::unique_ptr<Stream> queue_stream();

}  // namespace lockstep
