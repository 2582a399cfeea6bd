// TimedWork: a collective in flight whose end a queue of the device can be asked for.
#pragma once

#include <memory>

#include "core/device/stream.h"
#include "core/mesh/group.h"

namespace lockstep {

class TimedWork : public Work {
 public:
  // When it ends, by the clock of the stream that it was started on. To be called right after its start;
  // of gathers of one launch (AllGather::more), after that of the last. Null: the queue does not say.
  virtual std::shared_ptr<Mark> mark_end() = 0;
};

}  // namespace lockstep
