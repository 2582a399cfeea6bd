// StopRequest: why and since when the ranks of an attempt must finish their step, save and exit: a user's
// signal, or the supervisor's own wish (a time limit, returned ranks, a slow host).
#pragma once

#include <functional>
#include <string>

#include "launcher/supervise/launch/console.h"
#include "launcher/supervise/watch/slow.h"

namespace lockstep::launcher {

// A wish: the supervisor's own reason to stop a running attempt; empty for none.
struct StopWish {
  std::string reason;
  std::string then = {};  // what follows if the run does not end: ", to go on with 4 ranks"
  bool insists = false;   // like a user's signal: ranks that do not stop within the grace period are killed
};
// Called a few times a second until it gives a reason.
using StopWanted = std::function<StopWish(const SlowRanks&)>;

class StopRequest {
 public:
  StopRequest(double grace, StopWanted wanted, Console& console)
      : grace_(grace), wanted_(std::move(wanted)), console_(console) {}

  // Checks for signals and wishes, and reports the first. Call it every few milliseconds. True when the ranks
  // must be signalled, each once.
  bool look(const std::function<SlowRanks()>& slow);
  // A rank that does not handle the signal yet would die of it. True: send it anyway.
  bool also_unready() const;
  // Why all ranks must be killed: a second signal, or the end of the grace period. "" otherwise.
  std::string kill_reason() const;
  // The supervisor's own reason; "" when there is none or a signal came first.
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
