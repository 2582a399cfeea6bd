// StepRows: what a run tells of its steps: the rows of metrics.jsonl and of TensorBoard's files, and the
// predicted time of a step beside the measured one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcher/config/run_config.h"
#include "launcher/loop/workload.h"
#include "launcher/plan/foretold.h"
#include "launcher/report/event_file.h"
#include "launcher/report/metrics.h"
#include "launcher/report/progress.h"

namespace lockstep::launcher {

// A step that is over.
// Whether step i is one of each `period`; of a period of 0 none is.
bool every(int64_t period, int64_t i);

struct FinishedStep {
  int64_t number = 0;
  double seconds = 0;
  std::optional<double> rate;  // the learning rate
  const compiler::StepResult& result;
  const std::map<std::string, double>* validation = nullptr;  // what an evaluation after it measured
  bool last = false;                                          // of the run, or of this start
  int64_t passed_over = 0;                                    // steps of the run that were, so far
};

class StepRows {
 public:
  // On rank 0 it opens the files of `run_dir`, whose rows after step `done` are removed; `again`: those of a
  // start before this one by the same command (MetricsWriter). No further step: nothing is foretold.
  StepRows(const RunConfig& config, Workload& work, const std::string& run_dir, int64_t done,
           const compiler::Step& step, bool again);
  // What the progress line tells beside the pace.
  ProgressCosts costs() const;
  // After a step of `seconds`: this rank's own work of it is what it did not wait for others. After the
  // tenth: the line that tells prediction and measurement, on rank 0; else "".
  std::string note(double seconds, const compiler::StepResult& result, const compiler::Step& step);
  // Whether the step has a row, on all ranks alike.
  bool due(const FinishedStep& done) const;
  // Writes it. Collective. Returns the state's hash, where the row has one: of the last step, and every
  // log.hash_every steps.
  std::string write(const FinishedStep& done, const compiler::Step& step);
  // Whether the row of step i has one. On rank 0.
  bool validated(int64_t i) const { return file_ && file_->has(i, "val_loss"); }
  // Adds a validation to the row of step i, which has none yet. Collective.
  void amend(int64_t i, const std::map<std::string, double>& validation);

 private:
  static void add_validation(MetricsRow& row, const std::map<std::string, double>& validation);
  void add_work(MetricsRow& row);
  void add_norms(MetricsRow& row, const std::map<std::string, double>& values);
  bool hashed(const FinishedStep& done) const;

  const RunConfig& config_;
  Workload& work_;
  double busy_s_ = 0;  // since the last row
  int64_t busy_steps_ = 0;
  int64_t told_passed_ = 0;              // as the last row says
  std::unique_ptr<MetricsWriter> file_;  // on rank 0
  std::unique_ptr<EventWriter> events_;  // on rank 0, under log.tensorboard
  std::unique_ptr<Foretold> foretold_;   // on rank 0, until its words are said
};

}  // namespace lockstep::launcher
