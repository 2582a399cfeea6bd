// StopRequest: why and since when the ranks of an attempt are to finish their step, save and end: a signal of
// the user, or a wish of the supervisor's own (a limit of time, ranks that are back, a host that is slow).
#pragma once

#include <functional>
#include <string>

#include "launcher/supervise/console.h"
#include "launcher/supervise/slow_watch.h"

namespace lockstep::launcher {

// What the supervisor wants of a running attempt; without a reason, nothing.
struct StopWish {
  std::string reason;
  std::string then = {};  // what follows where that is not the end of the run: ", to go on with 4 ranks"
  bool insists = false;   // as a signal of the user does: who does not stop within the grace is killed
};
// Asked a few times a second. Once it has a reason it is not asked again.
using StopWanted = std::function<StopWish(const SlowRanks&)>;

class StopRequest {
 public:
  StopRequest(double grace, StopWanted wanted, Console& console)
      : grace_(grace), wanted_(std::move(wanted)), console_(console) {}

  // Looks for signals and wishes, and says the first. Call it every few milliseconds. True when the ranks are
  // to be told, each once.
  bool look(const std::function<SlowRanks()>& slow);
  // A rank that does not handle the signal yet would die of it. True: it gets it all the same.
  bool also_unready() const;
  // Why all ranks are to be killed: a second signal, or the grace is over. "" while there is no reason.
  std::string kill_reason() const;
  // The supervisor's own reason; "" where a signal came first, or nothing.
  const std::string& wish() const { return wish_.reason; }
  bool insists() const;

 private:
  double grace_;
  StopWanted wanted_;
  Console& console_;
  StopWish wish_;
  double since_ = 0, asked_ = 0;
};

}  // namespace lockstep::launcher
