// A rank's part of a config's training run in memory: mesh, device, state, data, and the inputs of steps and
// evaluations. Shared by runs and replays.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "distributed/world.h"
#include "launcher/config/config.h"
#include "launcher/loop/workload.h"
#include "launcher/supervise/worker/contract.h"
#include "launcher/trainer/trainer.h"

namespace lockstep::launcher {

class Training : public Workload {
 public:
  // Collective over `world`. `device` is the argument of open_device: train.device, except for ranks that are
  // threads (in_place_device). UserError on every rank when config, mesh, device, model or data do not fit;
  // data::Stopped on every rank when one was asked to stop while it read the data.
  // `config` must outlive the object.
  Training(const RunConfig& config, const WorkerPlace& at, std::shared_ptr<distributed::World> world,
           const std::string& device);

  State& state() override { return state_; }
  const compiler::Target& target() const override { return target_; }
  std::string title() const override { return "model " + config_.model.kind; }
  int threads() const override { return trainer_.options().threads; }
  void check() override;
  compiler::Step compile_training() override { return trainer_.compile_training(); }
  std::unique_ptr<compiler::Step> compile_evaluation(
      const compiler::Step& training) override;  // null: no sequences for it
  void start_state() override;                   // from the seed, or from train.init_from
  bool start_from_import(const std::string& checkpoints) override;
  bool start_from_weights(const std::string& step_dir) override;
  void tell_changes(const checkpoint::LoadedInfo& loaded, const std::string& certificate) override;
  Json config() const override { return config_json(config_); }
  Json remembered(int64_t i) override;
  void describe(const std::string& run_dir) override;  // config.json
  compiler::StepInput input(int64_t i, bool more, bool vote) override;
  compiler::StepInput evaluation_input(int64_t i) override;
  void measured(int64_t i, const std::map<std::string, double>& validation) override {
    trainer_.measured(i, validation);
  }
  bool follows_validations() const override { return trainer_.follows_validation(); }
  std::string_view pace_unit() const override { return tasks::pace_unit(trainer_.task()); }
  int64_t read_in(const compiler::StepResult& step) const override;
  int64_t planned_units() const override;
  bool perplexity() const override { return trainer_.task().perplexity; }

 protected:
  // The samples of an evaluation; 0: none.
  int64_t validation_sequences() const {
    const int64_t most = std::min(config_.train.eval_batches * config_.batch.global, data_->validation());
    return masked_field() ? most : most / config_.batch.micro * config_.batch.micro;
  }
  // The field that marks padding samples in the last micro-batch of an evaluation as ignored: targets of
  // tokens. Null: without such a field only whole micro-batches are used.
  const models::Field* masked_field() const;
  // Reads all evaluation sequences once before the first step, so that a bad token does not end the run late.
  // Collective. data::Stopped on every rank when one was asked to stop meanwhile.
  void check_validation();
  void stop_together(bool stopped);
  // Checks before any device allocation that the run fits in the free memory. Exact bytes decide; if only the
  // bounds of libraries do not fit, it warns and the run continues. On the CPU the same for all ranks of the
  // host (host_check.h). Collective. UserError on every rank. `evaluates`: whether there is also an
  // evaluation.
  void check_memory(bool evaluates = true);
  // Whether an import wrote the step folder, so that no step was computed. The same on all ranks.
  bool is_import(const std::string& step_dir) const;
  // Loads the weights of such a folder; the optimizer, adapters and everything else start fresh from the
  // config.
  void load_import(const std::string& step_dir);
  bool only_checkpoint_is(const std::string& checkpoints, const std::string& folder) const;

  const RunConfig& config_;
  const WorkerPlace at_;
  std::shared_ptr<distributed::World> world_;
  LiveMesh live_;
  const compiler::Target& target_;
  State state_;
  Trainer trainer_;
  std::unique_ptr<data::Samples> data_;
  std::set<std::string> rewritten_;  // data files with a warning
};

}  // namespace lockstep::launcher
