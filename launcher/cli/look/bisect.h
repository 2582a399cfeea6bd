// trainrun bisect A B: finds where two runs diverge, from their records and, on request, by recomputing the
// steps before.
#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "launcher/cli/look/run_record.h"

namespace lockstep::launcher::cli {

struct BisectArguments {
  std::string a, b;     // names below runs/, or paths
  bool replay = false;  // recomputes steps of both, on `nproc` ranks
  int64_t nproc = 1;
  std::string self;  // path of trainrun
};
// kExitDiffers when the runs differ; kExitOk when all common records are equal. UserError when they have no
// common step.
int bisect(const BisectArguments& arguments, std::ostream& out);

struct Difference {
  std::string name, a, b;
};
// Common quantities of a step that differ, except times, speeds and the certificate: the loss first, norms of
// single parameters last.
std::vector<Difference> differences(const std::map<std::string, std::string>& a,
                                    const std::map<std::string, std::string>& b);

// Recomputes both runs up to `first`, the first step whose records differ, and reports the step at which
// results diverge. Also reports the first tensor and element in which the states before it differ or, if they
// are equal, the first batch field or op of the step that differs. Returns kExitOk, kExitStopped, or the code
// of a reported failure. UserError for a program's run, because no config describes its model.
int bisect_by_replay(const BisectArguments& arguments, const RunRecord& a, const RunRecord& b, int64_t first,
                     std::ostream& out);

}  // namespace lockstep::launcher::cli
