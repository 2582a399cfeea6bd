// PlannedRun: a config planned on N ranks, for its device where that is here, else for the CPU with the rates
// of its device.
#pragma once

#include <memory>
#include <string>

#include "launcher/machine/run_device.h"
#include "launcher/plan/report.h"
#include "launcher/plan/timeline.h"
#include "launcher/trainer/dry_run.h"

namespace lockstep::launcher::cli {

// "there: 3 files of 4 MiB, read as text", "not there: ...", "none named yet: ...": files by the names that
// the config gives, none of them opened.
std::string data_in_words(const DataConfig& config);

class PlannedRun {
 public:
  // `roofline`: a name or a file; "": that of the device, or of the kind of device that the config names.
  // UserError as roofline_named and PaperRun.
  PlannedRun(RunConfig config, int64_t nproc, const std::string& roofline);

  const RunConfig& config() const { return config_; }
  const FoundTarget& found() const { return found_; }
  const Roofline* roofline() const { return known_ ? &roofline_ : nullptr; }  // null: none is known
  std::string no_roofline() const;                                            // why, and the way out
  const PaperRun& run() const { return *run_; }
  // With memory and whether it fits in `memory` bytes a rank; 0: in what the device has, where it is known.
  PlanReport report(int64_t memory) const;
  PlanBudget budget() const;  // what the config's own compile.memory_budget makes of it
  // What `rank` does in a step, verified. UserError where there is no such rank.
  compiler::StepProgram program_of(int64_t rank) const;

 private:
  int64_t evaluated() const;  // sequences of an evaluation
  MemoryNeeds needs(const LibraryBounds& bounds, int64_t memory) const;
  RunConfig config_;  // with the roofline's hosts where it leaves them open
  FoundTarget found_;
  Roofline roofline_;
  bool known_ = false, hosts_assumed_ = false;  // hosts as the roofline has them
  std::unique_ptr<PaperRun> run_;
};

// A config under values of compile.memory_budget, each planned anew on a thread of its own; behind them,
// where that saves time, with activations on the host, and last, where that saves bytes, with moments there.
// Arguments and errors as PlannedRun's.
std::vector<PlanBudget> budgets_of(RunConfig config, int64_t nproc, const std::string& roofline);

}  // namespace lockstep::launcher::cli
