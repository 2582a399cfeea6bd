// Trainer: builds the objects of a run from a config: model, optimizer, compiled steps.
#pragma once

#include <memory>

#include "compiler/compile/compile.h"
#include "core/models/family.h"
#include "core/optim/optimizer.h"
#include "core/optim/plateau.h"
#include "core/tasks/task.h"
#include "launcher/data/samples.h"
#include "launcher/machine/roofline.h"
#include "launcher/trainer/options.h"

namespace lockstep::launcher {

// Prefix of the gradient norm metric of one parameter; the FQN follows.
inline constexpr std::string_view kGradientNorm = "grad_norm.";

// The model and optimizer of a config, recorded in a state.
class Trainer {
 public:
  // UserError from the model, the optimizer and the placement rules.
  // `roofline`: of links and memory, for the planner's choices; null: that of the config's device.
  Trainer(const RunConfig& config, int64_t local_ranks, State& state,
          const compiler::Target& target = compiler::cpu_target(), const Roofline* roofline = nullptr);
  // Plans the next steps, without peers or allocation, and starts compiling their kernels. The caller may
  // inspect the plans; compile_training() and compile_evaluation() with the same number of sequences reuse
  // them.
  const compiler::StepPlan& begin_training();
  const compiler::StepPlan& begin_evaluation(int64_t sequences);
  // Collective over the state's mesh; allocates the state. Either every rank begins it, or none.
  compiler::Step compile_training();
  // Compiles an evaluation of at least this many sequences; the caller must mask the excess. `training`: its
  // memory is used if there is room; null: none.
  compiler::Step compile_evaluation(int64_t sequences, const compiler::Step* training = nullptr);
  compiler::StepPlan plan_training(const Mesh& mesh) const;  // no peers, nothing allocated
  compiler::StepPlan plan_evaluation(const Mesh& mesh, int64_t sequences) const;
  // UserError if the learning rate depends on a validation metric that `evaluation` does not compute.
  void check_followed(const compiler::Step* evaluation) const;
  // Updates the learning rate from the metrics of the validation after `step`, equally on every rank. Ignores
  // a validation that is not from train.eval_every, such as the last of a stopped run, because an unstopped
  // run would not have it.
  void measured(int64_t step, const std::map<std::string, double>& validation);
  bool follows_validation() const;  // whether measured() changes the rate
  const compiler::CompileOptions& options() const { return options_; }
  const models::Model& model() const { return model_; }
  const tasks::Task& task() const { return task_; }
  // The fields of the batch, and their shapes with the micro-batch size as first dim.
  const std::vector<models::Field>& sample() const { return sample_; }
  std::vector<data::SampleField> sample_fields() const;  // the same, for the data
  // The count of a sample in the loss: its tokens if the targets are tokens, else 1.
  int64_t units() const;

 private:
  compiler::GatherWhen gather_within(int64_t weights, const Roofline& roofline,
                                     const compiler::Target& target);  // resolves `auto`
  compiler::CompileOptions evaluation_options() const;
  std::vector<compiler::BatchField> fields() const;
  Loss traced(const std::vector<Tensor>& batch, bool update) const;
  compiler::StepFunction training_function() const;
  compiler::StepFunction evaluation_function() const;
  compiler::BatchShape evaluation_shape(int64_t sequences) const;

  const RunConfig& config_;
  State& state_;
  compiler::CompileOptions options_;
  models::Model model_;
  const tasks::Task& task_;
  std::vector<models::Field> sample_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<compiler::BegunStep> training_, evaluation_;
  std::unique_ptr<Plateau> plateau_;  // null: the schedule depends only on the step
};

}  // namespace lockstep::launcher
