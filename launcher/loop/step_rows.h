// StepRows: reports a run's steps: the rows of metrics.jsonl and of TensorBoard's files, and the predicted
// next to the measured time of a step.
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

// A finished step.
// Whether step i is a multiple of `period`; never for a period of 0.
bool every(int64_t period, int64_t i);

struct FinishedStep {
  int64_t number = 0;
  double seconds = 0;
  std::optional<double> rate;  // the learning rate
  const compiler::StepResult& result;
  const std::map<std::string, double>* validation = nullptr;  // results of an evaluation after it
  bool last = false;                                          // the last step of the run or of this start
  int64_t passed_over = 0;                                    // skipped steps of the run so far
};

class StepRows {
 public:
  // Rank 0 opens the files of `run_dir` and removes rows after step `done`; `again`: continues those of an
  // earlier start by the same command (MetricsWriter). Without further steps there is no prediction.
  StepRows(const RunConfig& config, Workload& work, const std::string& run_dir, int64_t done,
           const compiler::Step& step, bool again);
  // Text of the progress line in addition to the speed.
  ProgressCosts costs() const;
  // Called after a step of `seconds`; the rank's own work is the time without waits for others. After the
  // tenth step returns the line with prediction and measurement on rank 0; else "".
  std::string note(double seconds, const compiler::StepResult& result, const compiler::Step& step);
  // Whether the step has a row; the same on all ranks.
  bool due(const FinishedStep& done) const;
  // Writes the row. Collective. Returns the state's hash if the row has one: for the last step, and every
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
  int64_t told_passed_ = 0;              // value in the last row
  std::unique_ptr<MetricsWriter> file_;  // on rank 0
  std::unique_ptr<EventWriter> events_;  // on rank 0, under log.tensorboard
  std::unique_ptr<Foretold> foretold_;   // on rank 0, until its line is printed
};

}  // namespace lockstep::launcher
