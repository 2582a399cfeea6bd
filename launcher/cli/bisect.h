// trainrun bisect A B: where two runs part, from their records and, where it is asked for, by computing the
// steps before that again.
#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "launcher/cli/run_record.h"

namespace lockstep::launcher::cli {

struct BisectArguments {
  std::string a, b;     // names below runs/, or paths
  bool replay = false;  // computes steps of both again, on `nproc` ranks
  int64_t nproc = 1;
  std::string self;  // path of trainrun
};
// kExitDiffers where the runs differ; kExitOk where all that both recorded is the same. UserError where they
// have recorded no step in common.
int bisect(const BisectArguments& arguments, std::ostream& out);

struct Difference {
  std::string name, a, b;
};
// Quantities of a step that both have and that differ, but for times, paces and the certificate: the loss
// first, norms of single parameters last.
std::vector<Difference> differences(const std::map<std::string, std::string>& a,
                                    const std::map<std::string, std::string>& b);

// Computes both runs up to `first`, the first step whose records differ, and says at which step what comes
// out parts; the first tensor and element in which the states before it differ, or the first batch field or
// op of the step that is not the same. kExitOk, kExitStopped, or the code of a failure that was told.
// UserError for a run of a program, whose model no config tells.
int bisect_by_replay(const BisectArguments& arguments, const RunRecord& a, const RunRecord& b, int64_t first,
                     std::ostream& out);

}  // namespace lockstep::launcher::cli
