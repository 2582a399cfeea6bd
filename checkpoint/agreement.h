// Agreement: turns each rank's result into one outcome that all ranks know, so that they continue, fall back
// or stop together.
#pragma once

#include <functional>
#include <string>

#include "core/mesh/group.h"

namespace lockstep::checkpoint {

enum class Verdict : int64_t {
  ok,
  damaged,    // bytes are missing or wrong; another checkpoint may be usable
  unwritten,  // the storage rejected a save; a retry may succeed
  refused,    // intact, but not usable by this run or this process; the user decides
  failed,     // a bug in Lockstep
};
struct WorkOutcome {
  Verdict verdict = Verdict::ok;
  std::string text;
};

// Runs local work and returns how it ended. The work must not call a collective: a rank that fails would
// leave the others waiting.
WorkOutcome attempt(const std::function<void()>& work);
// The same for work that saves: a storage failure counts as `unwritten`, not as damage. A folder locked by
// another process still counts as refused.
WorkOutcome attempt_save(const std::function<void()>& work);
// The worst outcome over the ranks, the same on each. Its text is that of the first rank with this outcome,
// and names the rank unless all texts are equal. Collective.
WorkOutcome settle(Group& world, const WorkOutcome& mine);
// Nothing when ok; else DamagedError, NotSaved, UserError or InternalError.
void raise(const WorkOutcome& outcome);

}  // namespace lockstep::checkpoint
