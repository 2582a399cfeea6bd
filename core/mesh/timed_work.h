// TimedWork: a started collective whose end the device can timestamp.
#pragma once

#include <memory>

#include "core/device/stream.h"
#include "core/mesh/group.h"

namespace lockstep {

class TimedWork : public Work {
 public:
  // Marks the end of the collective, by the clock of the stream that it was started on. Call it right after
  // the start; for gathers of one launch (AllGather::more), after the start of the last. Null if the device
  // records no mark.
  virtual std::shared_ptr<Mark> mark_end() = 0;
};

}  // namespace lockstep
