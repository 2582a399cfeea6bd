// CorruptionError: some ranks computed wrong, and the run does not continue with them.
#pragma once

#include <string>
#include <utility>

#include "core/base/error.h"
#include "launcher/supervise/worker/contract.h"

namespace lockstep::launcher {

// trainrun restarts after it only without these ranks.
class CorruptionError : public PeerError {
 public:
  CorruptionError(const std::string& what, WrongRanks wrong_ranks)
      : PeerError(what), wrong(std::move(wrong_ranks)) {}
  WrongRanks wrong;
};

}  // namespace lockstep::launcher
