// TrainingLoop: runs a workload: compiles, resumes, steps, guards, measures, reports and saves. Used by
// trainrun's worker and a program's train().
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcher/config/run_config.h"
#include "launcher/loop/best_validation.h"
#include "launcher/loop/corruption_watch.h"
#include "launcher/loop/guard.h"
#include "launcher/loop/profile.h"
#include "launcher/loop/replica_watch.h"
#include "launcher/loop/saves/memory_tier.h"
#include "launcher/loop/saves/run_saves.h"
#include "launcher/loop/step_rows.h"
#include "launcher/loop/workload.h"
#include "launcher/supervise/worker/contract.h"

namespace lockstep::launcher {

// Callbacks from a rank to its process. Called on the rank's thread.
struct RunHooks {
  std::function<bool()> stop_requested;           // the run makes the ranks agree on it
  std::function<void(int64_t step)> report_step;  // `step` is about to run
  ProgressOutput progress;                        // of rank 0
  std::string device;  // argument of open_device: train.device, except for ranks that share a process
  // Reports the state's hash after the last step, on rank 0, once it is saved; empty: a log line.
  std::function<void(int64_t step, const std::string& hash)> report_state = {};
  // Whether the run continues at once with other ranks after a stop; empty: never.
  std::function<bool()> regroup_requested = {};
  // stop_requested of this rank, or of another one if known without communication. Called often, between
  // pieces of a validation; once true it stays true. Empty: stop_requested.
  std::function<bool()> stop_of_any_rank = {};
};

// Key of SaveInfo::extra; true: the validation after the step is not done yet.
inline constexpr const char* kValidationDue = "validation_due";

class TrainingLoop {
 public:
  // `config`: only the sections batch, train, checkpoint, log and verify are used. `run_dir`: runs/NAME. All
  // must outlive the loop.
  TrainingLoop(const RunConfig& config, Workload& work, const WorkerPlace& at, const RunHooks& hooks,
               std::string run_dir);
  // Collective over the state's mesh. UserError, PeerError, InternalError.
  struct Outcome {
    bool stopped = false;    // stopped on request before the last step; the state is saved
    int64_t step = 0;        // the last finished one
    std::string state_hash;  // after that step; "": no step was done
  };
  Outcome run();

 private:
  std::string checkpoints() const { return kept_ + "/ckpt"; }
  std::string best_checkpoints() const { return kept_ + "/best"; }
  void lock();
  void look_at_best() const;
  void part_from_others(int64_t done) const;
  int64_t resume(compiler::Step& step, std::unique_ptr<compiler::Step>& evaluation);
  void introduce(const compiler::Step& step, double compiled, int64_t done);
  bool nothing_to_do(int64_t done) const;
  // A step, and what follows from it.
  struct Turn {
    int64_t i = 0;
    compiler::StepInput fed;
    compiler::StepResult result = {};
    double seconds = 0;
    std::optional<double> rate = {};                // the learning rate
    int64_t stops = 0, regroups = 0;                // requests to stop, and to stop for other ranks
    bool last = false;                              // the run, or this start of it, ends behind it
    bool saved = false;                             // its state is saved, before its validation
    std::map<std::string, double> validation = {};  // results; empty: none
    std::string broken = {};                        // why the run ends after a validation
    bool asked_to_stop() const { return stops + regroups > 0; }
  };
  Turn make_step(int64_t i, compiler::Step& step, StepRows& rows, Profile& profile);
  void validate_after(Turn& turn, compiler::Step& step, compiler::Step& evaluation);
  std::string report(const Turn& turn, const compiler::Step& step, StepRows& rows, ProgressLine& progress);
  bool save_after(const Turn& turn, compiler::Step& step);
  Outcome steps(compiler::Step& step, compiler::Step* evaluation, int64_t done);
  std::vector<std::string> measured_by(const compiler::Step& evaluation) const;
  int64_t validate(int64_t i, compiler::Step& evaluation, bool breakable,
                   std::map<std::string, double>& measured);
  std::string heed(int64_t i, const std::map<std::string, double>& validation, compiler::Step& step,
                   compiler::Step& evaluation, const compiler::StepInput& fed);
  std::optional<Outcome> make_up(int64_t i, StepRows& rows, compiler::Step& step, compiler::Step& evaluation);
  std::string judge_validation(int64_t i, const std::map<std::string, double>& validation,
                               compiler::Step& evaluation);
  enum class Stop { none, asked, regroup };  // regroup: trainrun continues at once with other ranks
  Outcome end(int64_t i, Stop stop, bool kept, const std::string& hash);
  bool is_validated(int64_t i, bool last) const;
  bool saved_before(bool last) const;
  bool is_followed() const;
  bool is_still_due(int64_t i, const StepRows& rows);
  bool is_long(double seconds, const compiler::Step& step, const compiler::Step& evaluation);
  bool counts(int64_t i) const;
  void look_for_corruption(int64_t i, compiler::Step& step, const compiler::StepInput& fed, bool save);
  void act(int64_t i, StepGuard::Finding finding, compiler::Step& step, const compiler::StepInput& fed);
  void restore(const Json& extra);
  checkpoint::SaveInfo save_info(int64_t i, const compiler::Step& step);
  void save(int64_t i, compiler::Step& step, const compiler::StepInput& fed, const SaveOrder& order);
  void go_on_saving(int64_t i, const compiler::StepResult& result, compiler::Step& step,
                    const compiler::StepInput& fed);
  void settle_saves();
  void keep_in_memory(int64_t i, compiler::Step& step, const compiler::StepInput& fed);
  bool keep_for_regroup(int64_t i, compiler::Step& step, const compiler::StepInput& fed);
  void save_best(int64_t i, compiler::Step& step, const compiler::StepInput& fed);

  const RunConfig& config_;
  Workload& work_;
  const WorkerPlace place_;
  const RunHooks& hooks_;
  const std::string dir_, kept_;  // of the run, and of its checkpoints
  std::shared_ptr<checkpoint::FolderLock> lock_;
  std::string before_;  // the previous checkpoint folder; on rank 0
  StepGuard guard_;
  BestValidation best_;
  ReplicaWatch replicas_;
  CorruptionWatch corruption_;
  RunSaves saves_;
  MemoryTier memory_;
  bool due_ = false;  // the validation after the last step is still due
};

}  // namespace lockstep::launcher
