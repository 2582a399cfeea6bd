// TrainingLoop: the run around a workload: compiled, resumed, stepped, guarded, measured, reported, saved.
// trainrun's worker and a program's train() are its clients.
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
#include "launcher/loop/memory_tier.h"
#include "launcher/loop/profile.h"
#include "launcher/loop/replica_watch.h"
#include "launcher/loop/run_saves.h"
#include "launcher/loop/step_rows.h"
#include "launcher/loop/workload.h"
#include "launcher/supervise/contract.h"

namespace lockstep::launcher {

// What a rank asks of the process around it. Called on the rank's thread.
struct RunHooks {
  std::function<bool()> stop_requested;           // agreed between the ranks by the run
  std::function<void(int64_t step)> report_step;  // `step` is about to run
  ProgressOutput progress;                        // of rank 0
  std::string device;  // what open_device reads: train.device, but for ranks that share a process
  // Tells the state's hash after the last step, on rank 0, when it is saved; empty: a line of the log.
  std::function<void(int64_t step, const std::string& hash)> report_state = {};
  // Whether a stop is one behind which the run goes on at once, with other ranks; empty: never.
  std::function<bool()> regroup_requested = {};
  // stop_requested of this rank, or of another one as far as this one can know without it. Asked often,
  // between pieces of a validation; once true always true. Empty: stop_requested.
  std::function<bool()> stop_of_any_rank = {};
};

// In SaveInfo::extra, true: the validation behind the step is not made yet.
inline constexpr const char* kValidationDue = "validation_due";

class TrainingLoop {
 public:
  // `config`: what of it belongs to no model and no data: batch, train, checkpoint, log, verify. `run_dir`:
  // runs/NAME. All outlive the loop.
  TrainingLoop(const RunConfig& config, Workload& work, const WorkerPlace& at, const RunHooks& hooks,
               std::string run_dir);
  // Collective over the state's mesh. UserError, PeerError, InternalError.
  struct Outcome {
    bool stopped = false;    // on request, with steps left; the state is saved
    int64_t step = 0;        // the last one that is done
    std::string state_hash;  // after it; "": nothing was done
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
  Outcome steps(compiler::Step& step, compiler::Step* evaluation, int64_t done);
  std::vector<std::string> measured_by(const compiler::Step& evaluation) const;
  int64_t validate(int64_t i, compiler::Step& evaluation, bool breakable,
                   std::map<std::string, double>& measured);
  std::string heed(int64_t i, const std::map<std::string, double>& validation, compiler::Step& step,
                   compiler::Step& evaluation, const compiler::StepInput& fed);
  std::optional<Outcome> make_up(int64_t i, StepRows& rows, compiler::Step& step, compiler::Step& evaluation);
  std::string judge_validation(int64_t i, const std::map<std::string, double>& validation,
                               compiler::Step& evaluation);
  enum class Stop { none, asked, regroup };  // regroup: trainrun goes on at once, with other ranks
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
  std::string before_;  // where the run kept its checkpoints until now; on rank 0
  StepGuard guard_;
  BestValidation best_;
  ReplicaWatch replicas_;
  CorruptionWatch corruption_;
  RunSaves saves_;
  MemoryTier memory_;
  bool due_ = false;  // the validation behind the step that is done is not made yet
};

}  // namespace lockstep::launcher
