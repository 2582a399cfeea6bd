// StepRows: collects a row's numbers in order.
#include "launcher/loop/step_rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "distributed/watch/flight_record.h"
#include "launcher/loop/weight_norms.h"
#include "launcher/trainer/trainer.h"

namespace lockstep::launcher {

using namespace compiler;

bool every(int64_t period, int64_t i) { return period > 0 && i % period == 0; }

namespace {
// Metrics reported in addition to the loss: "accuracy", "val_accuracy".
void add_metrics(MetricsRow& row, const std::string& prefix, const std::map<std::string, double>& values) {
  for (const auto& [name, value] : values)
    if (name != "loss" && name != "grad_norm" && name != "tokens" && !name.starts_with(kGradientNorm))
      row.add(prefix + name, static_cast<float>(value));
}
}  // namespace

StepRows::StepRows(const RunConfig& config, Workload& work, const std::string& run_dir, int64_t done,
                   const Step& step, bool again)
    : config_(config), work_(work) {
  if (work.rank() != 0) return;
  file_ = std::make_unique<MetricsWriter>(run_dir + "/metrics.jsonl", done, again);
  if (done >= config.train.steps) return;
  if (config.log.tensorboard) events_ = std::make_unique<EventWriter>(run_dir, done);
  foretold_ =
      std::make_unique<Foretold>(config, std::pair(std::string(work.pace_unit()), work.planned_units()),
                                 work.mesh(), step.plan(), work.target().device());
}

ProgressCosts StepRows::costs() const {
  if (!foretold_) return {};
  const Prediction& p = foretold_->prediction();
  return {p.flops_per_s * p.step_s, p.peak_flops_per_s, [&work = work_] { return work.memory_in_use(); }};
}

std::string StepRows::note(double seconds, const StepResult& result, const Step& step) {
  double waited = 0;
  for (const auto& [dim, exposed] : result.exposed) waited += exposed;
  const LanePlan& lanes = step.lane_plan();
  int64_t share = 0;
  for (int64_t slot = 0; slot < lanes.slots(lanes.rank); ++slot)
    share += lanes.micro_batch(lanes.rank, slot) >= 0;
  auto recorder = distributed::flight_recorder();
  busy_s_ += recorder ? recorder->worked(seconds, waited, share) : std::max(0.0, seconds - waited);
  ++busy_steps_;
  return foretold_ ? foretold_->measured(seconds, result.exposed).value_or("") : "";
}

// The ranks' own work per step since the last row, in milliseconds, without waits. Collective.
void StepRows::add_work(MetricsRow& row) {
  Group& world = *work_.mesh().world;
  const int n = world.size();
  double mine = busy_steps_ ? busy_s_ * 1e3 / static_cast<double>(busy_steps_) : 0;
  std::vector<double> all(n);
  all_gather(world, {&mine, all.data(), std::vector<int64_t>(n, 1), DType::f64}, "busy");
  busy_s_ = 0;
  busy_steps_ = 0;
  row.add("slowest_rank", static_cast<int64_t>(std::max_element(all.begin(), all.end()) - all.begin()));
  std::sort(all.begin(), all.end());
  row.add("busy_ms_min", static_cast<float>(all.front()));
  row.add("busy_ms_median", static_cast<float>((all[(n - 1) / 2] + all[n / 2]) / 2));
  row.add("busy_ms_max", static_cast<float>(all.back()));
}

// Norms of each parameter after the step, and of its gradient. Collective.
void StepRows::add_norms(MetricsRow& row, const std::map<std::string, double>& values) {
  for (const auto& [name, value] : values)
    if (name.starts_with(kGradientNorm)) row.add(name, static_cast<float>(value));
  for (const auto& [fqn, norm] : weight_norms(work_.state())) row.add("weight_norm." + fqn, norm);
}

bool StepRows::hashed(const FinishedStep& done) const {
  return done.last || every(config_.log.hash_every, done.number);
}

bool StepRows::due(const FinishedStep& done) const {
  return done.number == 1 || hashed(done) || done.validation || every(config_.log.every, done.number) ||
         every(config_.log.norms_every, done.number) || done.passed_over > told_passed_;
}

void StepRows::add_validation(MetricsRow& row, const std::map<std::string, double>& validation) {
  const auto loss = static_cast<float>(validation.at("loss"));
  row.add("val_loss", loss);
  add_metrics(row, "val_", validation);
  std::string others;
  for (const auto& [name, value] : validation)
    if (name != "loss" && name != "tokens" && name != "perplexity")
      others += str(", ", name, " ", number_text(static_cast<float>(value)));
  logs::info(str("step ", row.step(), ": validation loss ", number_text(loss), others));
}

// The state differs if the validation has effects on it.
void StepRows::amend(int64_t i, const std::map<std::string, double>& validation) {
  MetricsRow more(i);
  add_validation(more, validation);
  const std::string hash = work_.follows_validations() ? work_.hash_state() : "";
  if (file_) try {
      file_->amend(more, hash);
    } catch (const UserError& error) { logs::warn(error.what()); }
  if (events_) events_->write(more);
}

std::string StepRows::write(const FinishedStep& done, const Step& step) {
  const auto& values = done.result.metrics;
  MetricsRow row(done.number);
  row.add("loss", static_cast<float>(values.at("loss")));
  if (auto found = values.find("grad_norm"); found != values.end())
    row.add("grad_norm", static_cast<float>(found->second));
  add_metrics(row, "", values);
  if (every(config_.log.norms_every, done.number)) add_norms(row, values);
  if (done.rate) row.add("lr", *done.rate);
  row.add("step_ms", static_cast<float>(done.seconds * 1e3));
  for (const auto& [dim, waited] : done.result.exposed)
    row.add(str("exposed_", dim, "_ms"), static_cast<float>(waited * 1e3));
  add_work(row);
  row.add(str(work_.pace_unit(), "_per_s"),
          static_cast<float>(static_cast<double>(work_.read_in(done.result)) / done.seconds));
  if (foretold_ && foretold_->median_s() > 0) {  // the first row after the measurement
    if (foretold_->predicted_s() > 0)
      row.add("predicted_step_ms", static_cast<float>(foretold_->predicted_s() * 1e3));
    row.add("measured_step_ms", static_cast<float>(foretold_->median_s() * 1e3));
    foretold_.reset();
  }
  if (done.passed_over) row.add("passed_over", done.passed_over);
  told_passed_ = done.passed_over;
  if (done.validation) add_validation(row, *done.validation);
  std::string hash;
  if (hashed(done)) row.add("state_hash", hash = work_.hash_state());
  row.add("certificate", step.certificate());
  if (file_) file_->write(row);
  if (events_) events_->write(row);
  return hash;
}

}  // namespace lockstep::launcher
