// A rank's part of a training run in memory: mesh, device, state, data, and what a step and an evaluation are
// fed. A run and a replay share it.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/runtime/step.h"
#include "core/nn/state.h"
#include "distributed/world.h"
#include "launcher/config/config.h"
#include "launcher/supervise/contract.h"
#include "launcher/trainer/trainer.h"

namespace lockstep::launcher {

class Training {
 protected:
  // Collective over `world`. `device` is the word that open_device reads, train.device but for ranks that are
  // threads (in_place_device). UserError on every rank when config, mesh, device, model or data do not fit.
  // `config` outlives the object.
  Training(const RunConfig& config, const WorkerPlace& at, std::shared_ptr<distributed::World> world,
           const std::string& device);

  int rank() const { return live_.world->rank(); }
  // The samples of an evaluation; 0: none.
  int64_t validation_sequences() const {
    const int64_t most = std::min(config_.train.eval_batches * config_.batch.global, data_->validation());
    return masked_field() ? most : most / config_.batch.micro * config_.batch.micro;
  }
  // The last micro-batch of an evaluation is filled up with samples that count nothing, by this field:
  // targets of tokens. Null: of such samples only whole micro-batches are taken.
  const models::Field* masked_field() const;
  // The sequences of the evaluation are read once before the first step: a bad token in them would end the
  // run at its last one.
  void check_validation() const;
  // Before anything is taken of a device's memory: whether the run fits in what is free of it. What is known
  // to the byte decides; where only the bounds of what libraries take do not fit, the run is warned and
  // tried. On the CPU the same of all ranks of the host (host_check.h). Collective. UserError on every rank.
  void check_memory();
  // The training step, and the evaluation where there are sequences for it. Collective.
  compiler::Step compile_training() { return trainer_.compile_training(); }
  std::unique_ptr<compiler::Step> compile_evaluation();
  // Weights of step 0: drawn by seed, or those of train.init_from. Collective.
  void start_state();
  // Whether a step folder is what an import wrote: no step was computed of it. The same on all ranks.
  bool is_import(const std::string& step_dir) const;
  // Loads the weights of such a folder; the optimizer, adapters and all else are new, as the config says.
  void start_from_import(const std::string& step_dir);
  // The batch of step i, and of i + 1 where `more` says that it follows. `vote` counts towards a stop.
  compiler::StepInput input(int64_t i, bool more, bool vote);
  // Loss and metrics of the validation samples with the weights after step i. Collective.
  std::map<std::string, double> evaluate(compiler::Step& evaluation, int64_t i);
  // Of the whole state, equal on any layout. Collective.
  std::string hash_state();
  // Bytes of the device, of all who use it; on the CPU of this process.
  int64_t memory_in_use() const;
  // What a step read, in pace_unit().
  int64_t read_in(const compiler::StepResult& step) const;
  std::string_view pace_unit() const { return tasks::pace_unit(trainer_.task()); }

  const RunConfig& config_;
  const WorkerPlace at_;
  std::shared_ptr<distributed::World> world_;
  LiveMesh live_;
  const compiler::Target& target_;
  State state_;
  Trainer trainer_;
  std::unique_ptr<data::Samples> data_;
};

}  // namespace lockstep::launcher
