// FunctionWorkload: adapts a program's step function and samples to the training loop.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/api/session.h"
#include "launcher/api/train_options.h"
#include "launcher/loop/workload.h"

namespace lockstep {

class FunctionWorkload : public launcher::Workload {
 public:
  // All must outlive the object. `precision`: the state's precision, a value of train.precision.
  FunctionWorkload(const Session& session, State& state, const SampleData& data,
                   const compiler::StepFunction& function, const TrainOptions& options,
                   const std::string& precision);

  // Answers trainrun plan, and ends the process.
  [[noreturn]] void plan(const PlannedSession& planned);

  State& state() override { return state_; }
  const compiler::Target& target() const override { return compiler::target_of(how_); }
  std::string title() const override { return "program"; }
  int threads() const override { return how_.threads; }
  void check() override;
  compiler::Step compile_training() override;
  std::unique_ptr<compiler::Step> compile_evaluation(const compiler::Step& training) override;
  void start_state() override { state_.materialize(); }
  void tell_changes(const checkpoint::LoadedInfo& loaded, const std::string& certificate) override;
  void describe(const std::string& run_dir) override;      // program.json
  Json config() const override { return Json::object(); }  // a program's model has no config
  Json remembered(int64_t i) override;
  compiler::StepInput input(int64_t i, bool more, bool vote) override;
  compiler::StepInput evaluation_input(int64_t i) override;
  void measured(int64_t i, const std::map<std::string, double>& validation) override;
  bool follows_validations() const override;
  std::string_view pace_unit() const override { return "samples"; }
  int64_t read_in(const compiler::StepResult&) const override { return options_.global_batch; }
  int64_t planned_units() const override { return options_.global_batch; }
  std::string in_words(const std::string& text) const override;

 private:
  Json values(int64_t i) const;
  const std::vector<std::pair<std::string, std::string>>& contents() const;
  void tell_values(const checkpoint::LoadedInfo& loaded) const;
  compiler::BatchShape shape() const { return {options_.global_batch, options_.micro_batch, options_.lanes}; }
  compiler::BatchShape evaluation_shape() const;
  const Session& session_;
  State& state_;
  const SampleData& data_;
  const compiler::StepFunction& function_;
  const TrainOptions& options_;
  compiler::CompileOptions how_;
  mutable std::optional<std::vector<std::pair<std::string, std::string>>> contents_;
};

}  // namespace lockstep
