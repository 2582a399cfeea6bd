// Agreement: what happened on each rank becomes one outcome that all ranks know, so that they go on, fall
// back or stop together.
#pragma once

#include <functional>
#include <string>

#include "core/mesh/group.h"

namespace lockstep::checkpoint {

enum class Verdict : int64_t {
  ok,
  damaged,    // bytes are missing or wrong: another checkpoint may do
  unwritten,  // the storage did not take a save: another try may go well
  refused,    // whole, but not for this run or not for this process: the user decides
  failed,     // a defect of ours
};
struct WorkOutcome {
  Verdict verdict = Verdict::ok;
  std::string text;
};

// Runs local work and tells how it ended. No collective belongs inside: a rank that fails would leave the
// others waiting.
WorkOutcome attempt(const std::function<void()>& work);
// The same for work that saves: a failure of the storage is no damage but `unwritten`. A folder that another
// process holds stays refused.
WorkOutcome attempt_save(const std::function<void()>& work);
// The worst outcome over the ranks, the same on each: the text of the first rank that has it, which it names
// unless all say the same. Collective.
WorkOutcome settle(Group& world, const WorkOutcome& mine);
// Nothing when ok; else DamagedError, NotSaved, UserError or InternalError.
void raise(const WorkOutcome& outcome);

}  // namespace lockstep::checkpoint
