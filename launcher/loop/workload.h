// Workload: the state, batches and steps that a training loop runs, of a config's model or of a user program.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "compiler/runtime/step.h"
#include "core/nn/state.h"

namespace lockstep::launcher {

// Collective functions are called on every rank of the state's mesh, in the same order.
class Workload {
 public:
  virtual ~Workload() = default;

  virtual State& state() = 0;
  virtual const compiler::Target& target() const = 0;
  virtual std::string title() const = 0;  // "model gpt"
  virtual int threads() const = 0;        // of a rank

  // Checks data and memory before anything is compiled, for faults that would otherwise end the run late.
  // Collective. UserError on every rank.
  virtual void check() {}
  // Collective. UserError on every rank.
  virtual compiler::Step compile_training() = 0;
  // Compiles the evaluation, which uses the training step's memory if that has room. Null: no evaluation.
  virtual std::unique_ptr<compiler::Step> compile_evaluation(const compiler::Step& training) = 0;

  // Weights of step 0. Collective.
  virtual void start_state() = 0;
  // If DIR/ckpt has only weights written by a tool, starts from them; else returns false. Collective.
  virtual bool start_from_import(const std::string& /*checkpoints*/) { return false; }
  // The same for one step folder that a tool wrote and from which no step was computed. Collective.
  virtual bool start_from_weights(const std::string& /*step_dir*/) { return false; }
  // Logs differences from the time of the loaded checkpoint. UserError on all ranks when the run cannot
  // continue from it.
  virtual void tell_changes(const checkpoint::LoadedInfo& loaded, const std::string& certificate) = 0;
  // For the checkpoint of step i: SaveInfo::config, and the first entries of SaveInfo::extra.
  virtual Json config() const = 0;
  virtual Json remembered(int64_t i) = 0;
  // Writes the run's request into its folder. On rank 0.
  virtual void describe(const std::string& /*run_dir*/) {}

  // The batch of step i; with `more`, also prepares that of i + 1. `vote` is this rank's vote for a stop.
  virtual compiler::StepInput input(int64_t i, bool more, bool vote) = 0;
  // The validation samples after step i.
  virtual compiler::StepInput evaluation_input(int64_t i) = 0;
  // Their loss and metrics with the weights after step i; "perplexity" if meaningful. Collective. `give_up`
  // as in StepInput: nullopt if it returned true.
  std::map<std::string, double> evaluate(compiler::Step& evaluation, int64_t i,
                                         std::function<bool()> give_up = {});
  // Called after an evaluation on every rank: applies its effects, for example on the learning rate, before
  // the state is saved.
  virtual void measured(int64_t /*i*/, const std::map<std::string, double>& /*validation*/) {}
  // Whether these effects change later steps.
  virtual bool follows_validations() const { return false; }
  // The learning rate of step i, with the state's current plateau factor; nullopt if no optimizer has one.
  std::optional<double> rate(int64_t i);
  // The unit of speed, "tokens" or "samples"; and its count per step over all ranks, past and future.
  virtual std::string_view pace_unit() const = 0;
  virtual int64_t read_in(const compiler::StepResult& step) const = 0;
  virtual int64_t planned_units() const = 0;
  // Rewords a sentence with config keys for this workload's user.
  virtual std::string in_words(const std::string& text) const { return text; }
  virtual bool perplexity() const { return false; }  // whether e^loss is meaningful
  // Text after the loss in the progress line: "accuracy 0.5", or nothing. Gradient norms appear only in
  // metrics.jsonl.
  static std::string shown(const compiler::StepResult& step);

  const LiveMesh& mesh() { return state().mesh(); }
  int rank() { return mesh().world->rank(); }
  // Hash of the whole state, the same for any layout. Collective.
  std::string hash_state();
  // Bytes used on the device by all processes; on the CPU, by this process.
  int64_t memory_in_use() const;
};

}  // namespace lockstep::launcher
