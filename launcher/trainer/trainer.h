// From a config to the objects of a run: model, optimizer, compiled steps.
#pragma once

#include <memory>

#include "compiler/compile.h"
#include "core/models/family.h"
#include "core/optim/optimizer.h"
#include "core/optim/plateau.h"
#include "core/tasks/task.h"
#include "launcher/data/samples.h"
#include "launcher/machine/roofline.h"
#include "launcher/trainer/options.h"

namespace lockstep::launcher {

// What metrics of the norm of one parameter's gradient begin with; its FQN follows.
inline constexpr std::string_view kGradientNorm = "grad_norm.";

// The model and optimizer of a config, recorded in a state.
class Trainer {
 public:
  // UserError from the model, the optimizer and the placement rules.
  // `roofline`: of links and memory, for what the planner chooses by them; null: that of the device which the
  // config names.
  Trainer(const RunConfig& config, int64_t local_ranks, State& state,
          const compiler::Target& target = compiler::cpu_target(), const Roofline* roofline = nullptr);
  // Plans of what is compiled next, whose kernels begin to compile meanwhile: no peers, nothing allocated.
  // The caller looks at them; compile_training() and compile_evaluation() of as many go on from there.
  const compiler::StepPlan& begin_training();
  const compiler::StepPlan& begin_evaluation(int64_t sequences);
  // Collective over the state's mesh; allocates the state. Every rank has begun it, or none.
  compiler::Step compile_training();
  // Of at least this many sequences; what is beyond must be masked by the caller. `training`: in whose memory
  // it lies where that has room; null: none.
  compiler::Step compile_evaluation(int64_t sequences, const compiler::Step* training = nullptr);
  compiler::StepPlan plan_training(const Mesh& mesh) const;  // no peers, nothing allocated
  compiler::StepPlan plan_evaluation(const Mesh& mesh, int64_t sequences) const;
  // Where the learning rate follows a number of the validation: UserError when `evaluation` does not give it.
  void check_followed(const compiler::Step* evaluation) const;
  // The rate follows the metrics of the validation behind `step`, on every rank alike. One that is not of
  // train.eval_every, as the last of a run that is stopped, is not looked at: a run that is not stopped has
  // none there.
  void measured(int64_t step, const std::map<std::string, double>& validation);
  bool follows_validation() const;  // measured() changes it
  const compiler::CompileOptions& options() const { return options_; }
  const models::Model& model() const { return model_; }
  const tasks::Task& task() const { return task_; }
  // Of the batch, and of its shape with the samples of a micro-batch in front.
  const std::vector<models::Field>& sample() const { return sample_; }
  std::vector<data::SampleField> sample_fields() const;  // the same, for the data
  // What a loss counts, of a sample: its tokens where it has such targets, else 1.
  int64_t units() const;

 private:
  compiler::GatherWhen gather_within(int64_t weights, const Roofline& roofline,
                                     const compiler::Target& target);  // what `auto` means
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
  std::unique_ptr<Plateau> plateau_;  // null: the schedule is of the step alone
};

}  // namespace lockstep::launcher
