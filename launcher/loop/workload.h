// Workload: what a training loop trains: the state, batches and steps of a config's model, or those of a
// program of the user's own.
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

// What is said to be collective is called on every rank of the state's mesh, in the same order.
class Workload {
 public:
  virtual ~Workload() = default;

  virtual State& state() = 0;
  virtual const compiler::Target& target() const = 0;
  virtual std::string title() const = 0;  // "model gpt"
  virtual int threads() const = 0;        // of a rank

  // Before anything is compiled: samples that would end the run at its last step, memory. Collective.
  // UserError on every rank.
  virtual void check() {}
  // Collective. UserError on every rank.
  virtual compiler::Step compile_training() = 0;
  // Beside the training step, in whose memory it lies where that has room. Null: nothing is measured on the
  // way.
  virtual std::unique_ptr<compiler::Step> compile_evaluation(const compiler::Step& training) = 0;

  // Weights of step 0. Collective.
  virtual void start_state() = 0;
  // Where DIR/ckpt holds nothing but weights that a tool put there: starts from them. False elsewhere.
  // Collective.
  virtual bool start_from_import(const std::string& /*checkpoints*/) { return false; }
  // The same of one step folder: starts from the weights that a tool put there, where no step was computed of
  // it. Collective.
  virtual bool start_from_weights(const std::string& /*step_dir*/) { return false; }
  // Says what is not as it was when the loaded checkpoint was made. UserError on all ranks alike where the
  // run cannot go on from it.
  virtual void tell_changes(const checkpoint::LoadedInfo& loaded, const std::string& certificate) = 0;
  // Of the checkpoint of step i: SaveInfo::config, and the start of SaveInfo::extra.
  virtual Json config() const = 0;
  virtual Json remembered(int64_t i) = 0;
  // Writes into the run's folder what the run was asked for. On rank 0.
  virtual void describe(const std::string& /*run_dir*/) {}

  // The batch of step i, and of i + 1 where `more` says that it follows. `vote` counts towards a stop.
  virtual compiler::StepInput input(int64_t i, bool more, bool vote) = 0;
  // The samples that are not trained on, behind step i.
  virtual compiler::StepInput evaluation_input(int64_t i) = 0;
  // Their loss and metrics, with the weights after step i; "perplexity" where that has a meaning. Collective.
  // `give_up` as in StepInput: where it was true there is no result.
  std::map<std::string, double> evaluate(compiler::Step& evaluation, int64_t i,
                                         std::function<bool()> give_up = {});
  // Behind an evaluation, on every rank alike: what follows it, as a learning rate may. The state that is
  // saved is the one after it.
  virtual void measured(int64_t /*i*/, const std::map<std::string, double>& /*validation*/) {}
  // Whether that changes what a step computes.
  virtual bool follows_validations() const { return false; }
  // The learning rate of step i, with a plateau's factor as the state has it now; nothing where no optimizer
  // has one.
  std::optional<double> rate(int64_t i);
  // "tokens" or "samples": what pace is counted in; of all ranks in a step, as it was, and as it will be.
  virtual std::string_view pace_unit() const = 0;
  virtual int64_t read_in(const compiler::StepResult& step) const = 0;
  virtual int64_t planned_units() const = 0;
  // A sentence that names keys of a config, in the words of the one who reads it.
  virtual std::string in_words(const std::string& text) const { return text; }
  virtual bool perplexity() const { return false; }  // e^loss has a meaning
  // Beside the loss in the progress line: "accuracy 0.5", or nothing. Norms of gradients are rows of
  // metrics.jsonl alone.
  static std::string shown(const compiler::StepResult& step);

  const LiveMesh& mesh() { return state().mesh(); }
  int rank() { return mesh().world->rank(); }
  // Of the whole state, equal on any layout. Collective.
  std::string hash_state();
  // Bytes of the device, of all who use it; on the CPU of this process.
  int64_t memory_in_use() const;
};

}  // namespace lockstep::launcher
