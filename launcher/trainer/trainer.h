// From a config to the objects of a run: model, optimizer, compiled steps.
#pragma once

#include <memory>

#include "compiler/compile.h"
#include "core/nn/models.h"
#include "core/optim/optimizer.h"
#include "launcher/machine/roofline.h"
#include "launcher/trainer/options.h"

namespace lockstep::launcher {

// The model and optimizer of a config, recorded in a state.
class Trainer {
 public:
  // UserError from the model, the optimizer and the placement rules.
  // `roofline`: of links and memory, for what the planner chooses by them; null: that of the device which the
  // config names.
  Trainer(const RunConfig& config, int64_t local_ranks, State& state,
          const compiler::Target& target = compiler::cpu_target(), const Roofline* roofline = nullptr);
  // Collective over the state's mesh; allocates the state.
  compiler::Step compile_training();
  compiler::Step compile_evaluation(
      int64_t sequences);  // of at least this many sequences; what is beyond must be masked by the caller
  compiler::StepPlan plan_training(const Mesh& mesh) const;  // no peers, nothing allocated
  compiler::StepPlan plan_evaluation(const Mesh& mesh, int64_t sequences) const;
  const compiler::CompileOptions& options() const { return options_; }
  const models::Model& model() const { return model_; }

 private:
  compiler::GatherWhen gather_within(int64_t weights, const Roofline& roofline,
                                     const compiler::Target& target);  // what `auto` means
  compiler::CompileOptions evaluation_options() const;
  std::vector<compiler::BatchField> fields() const;
  compiler::StepFunction training_function() const;
  compiler::StepFunction evaluation_function() const;
  compiler::BatchShape evaluation_shape(int64_t sequences) const;

  const RunConfig& config_;
  State& state_;
  compiler::CompileOptions options_;
  models::Model model_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace lockstep::launcher
