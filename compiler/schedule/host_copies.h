// Chooses which buffers of an arena wait in host memory, and when each leaves and returns: it trades time for
// bytes.
#pragma once

#include <vector>

#include "compiler/pass/pass.h"
#include "compiler/schedule/arena.h"

namespace lockstep::compiler {

// The calls [from, to) neither read nor write a buffer that call `to` reads.
// `life` is an index into the lifetimes.
struct Gap {
  size_t life = 0;
  int from = 0, to = 0;
};
// A buffer that waits. Each of the four members is the call before which the action happens.
struct HostCopy {
  size_t life = 0;
  int leaves = 0;  // the copy to the host starts
  int gone = 0;    // the copy is waited for: the place is free until
  int comes = 0;   // this call, where the copy to the device starts
  int back = 0;    // the copy is waited for
};
// The chosen copies, and their effect.
struct HostCopies {
  std::vector<HostCopy> copies;  // in the order in which they leave
  int64_t peak = 0;              // bytes alive at the fullest call
  double stall = 0;              // seconds for which calls wait for copies
};

// Chooses buffers until the fullest call has at most `within` bytes, longest gaps first: they leave early,
// while the queue to the host is empty, and are needed late. If all candidates wait and the peak is still
// larger, that peak is the result.
// Times follow from the rates of the host's link (TravelRates). A copy to the host starts after the last use.
// Its wait is when it has arrived, or earlier, with a stall, if its bytes are needed. A copy back starts as
// late as it can still arrive in time, or later if there is no room. `seconds`: of each call. A pure
// function: every rank makes the same choice.
HostCopies plan_host_copies(const std::vector<Lifetime>& lives, const std::vector<Gap>& gaps,
                            const std::vector<double>& seconds, const TravelRates& rates, int64_t within);

// An arena some of whose buffers wait, so that it has at most `within` bytes, or as near as copies can bring
// it.
struct ArenaWithin {
  std::vector<HostCopy> copies;  // in the order in which they leave
  // Of the lifetimes until their buffers leave, followed by those of `copies` from their return on.
  ArenaPlan arena;
  ArenaPlan host;    // of `copies`: their places in host memory
  double stall = 0;  // as HostCopies
};
// Arguments as in plan_host_copies. Offsets leave holes, so live buffers may need a smaller limit.
ArenaWithin plan_arena_within(const std::vector<Lifetime>& lives, const std::vector<Gap>& gaps,
                              const std::vector<double>& seconds, const TravelRates& rates, int64_t within);

}  // namespace lockstep::compiler
