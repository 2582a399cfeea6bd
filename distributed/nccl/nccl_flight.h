// NcclFlight: a collective in flight (started, not yet complete) on a device, or a launch of captured
// collectives.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "core/mesh/group.h"
#include "distributed/watch/flight_record.h"

namespace lockstep::distributed {

struct NcclFlight {
  Collective what;
  std::string label;
  bool launch = false;           // a launch of captured work; `what` has no meaning
  bool captured = false;         // part of captured work: its events have no time
  bool pair = false;             // send or recv
  bool more = false;             // the next gather joins its launch
  std::shared_ptr<Event> begin;  // a point on the stream that started it
  std::shared_ptr<Event> end;    // on the communication stream; null until it is enqueued
  // When it became the oldest in flight; its deadline counts from then.
  std::chrono::steady_clock::time_point since;
  Flight record;
};

}  // namespace lockstep::distributed
