// PlannedRun: a config planned on N ranks, for its device if present, else for the CPU with the device's
// rates.
#pragma once

#include <memory>
#include <string>

#include "launcher/machine/run_device.h"
#include "launcher/plan/report.h"
#include "launcher/plan/timeline.h"
#include "launcher/trainer/dry_run.h"

namespace lockstep::launcher::cli {

// "there: 3 files of 4 MiB, read as text", "not there: ...", "none named yet: ...": describes the config's
// data files without opening them.
std::string data_in_words(const DataConfig& config);

class PlannedRun {
 public:
  // `roofline`: a name or a file; "": that of the device, or of the kind of device that the config names.
  // UserError as roofline_named and PaperRun.
  PlannedRun(RunConfig config, int64_t nproc, const std::string& roofline);

  const RunConfig& config() const { return config_; }
  const FoundTarget& found() const { return found_; }
  const Roofline* roofline() const { return known_ ? &roofline_ : nullptr; }  // null: unknown
  std::string no_roofline() const;                                            // why, and the way out
  const PaperRun& run() const { return *run_; }
  // Adds memory and whether it fits in `memory` bytes a rank; 0: in the device's memory, if known.
  PlanReport report(int64_t memory) const;
  PlanBudget budget() const;  // the effect of the config's own compile.memory_budget
  // The verified program of `rank`'s step. UserError when there is no such rank.
  compiler::StepProgram program_of(int64_t rank) const;

 private:
  int64_t evaluated() const;  // sequences of an evaluation
  MemoryNeeds needs(const LibraryBounds& bounds, int64_t memory) const;
  RunConfig config_;  // with the roofline's hosts if it does not set them
  FoundTarget found_;
  Roofline roofline_;
  bool known_ = false, hosts_assumed_ = false;  // hosts taken from the roofline
  std::unique_ptr<PaperRun> run_;
};

// Plans a config with several values of compile.memory_budget, each on its own thread. Then adds variants
// with activations on the host if that saves time, and with moments on the host if that saves bytes.
// Arguments and errors as PlannedRun's.
std::vector<PlanBudget> budgets_of(RunConfig config, int64_t nproc, const std::string& roofline);

}  // namespace lockstep::launcher::cli
