// Which buffers of an arena wait in the host's memory, and when each goes and comes back: bytes against time.
#pragma once

#include <vector>

#include "compiler/pass.h"
#include "compiler/schedule/arena.h"

namespace lockstep::compiler {

// The calls [from, to) neither read nor write a buffer that call `to` reads.
struct Gap {
  size_t life = 0;  // of the lifetimes
  int from = 0, to = 0;
};
// A buffer that waits. Each of the four is a call before which something is done.
struct HostCopy {
  size_t life = 0;
  int leaves = 0;  // the copy to the host starts
  int gone = 0;    // and is waited for: the place is free up to
  int comes = 0;   // here, where the copy to the device starts
  int back = 0;    // and is waited for
};
struct HostCopies {
  std::vector<HostCopy> copies;  // in the order in which they leave
  int64_t peak = 0;              // bytes alive at the fullest call
  double stall = 0;              // seconds for which calls stand still for copies
};

// Buffers are chosen until the fullest call keeps within `within` bytes, those with the longest gaps first:
// they leave early, while the queue to the host is empty, and are wanted late. Where all that can wait does,
// the peak is what it is. By the rates of the host's link (TravelRates) a copy to the host starts behind the
// last use, and is waited for when it has arrived, or earlier, standing still, where its bytes are needed; a
// copy back starts as late as it still arrives in time, or later, where there is no room. `seconds`: of each
// call. A pure function: every rank chooses alike.
HostCopies plan_host_copies(const std::vector<Lifetime>& lives, const std::vector<Gap>& gaps,
                            const std::vector<double>& seconds, const TravelRates& rates, int64_t within);

// An arena whose buffers wait, so that it is at most `within` bytes, or as near as copies bring it.
struct ArenaWithin {
  std::vector<HostCopy> copies;  // in the order in which they leave
  ArenaPlan arena;   // of the lifetimes up to their leaving, and behind all of them those of `copies`, from
                     // their coming back on
  ArenaPlan host;    // of `copies`: where they wait
  double stall = 0;  // as HostCopies
};
// Arguments as plan_host_copies. Offsets leave holes: what is alive may have to keep within less.
ArenaWithin plan_arena_within(const std::vector<Lifetime>& lives, const std::vector<Gap>& gaps,
                              const std::vector<double>& seconds, const TravelRates& rates, int64_t within);

}  // namespace lockstep::compiler
