// The training run of a config: build, resume, loop, save.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "checkpoint/checkpoint.h"
#include "compiler/first_nonfinite.h"
#include "compiler/memory_budget.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/mesh/together.h"
#include "distributed/open_world.h"
#include "distributed/watch/flight_record.h"
#include "launcher/config/stored.h"
#include "launcher/machine/hosts.h"
#include "launcher/plan/foretold.h"
#include "launcher/report/event_file.h"
#include "launcher/report/metrics.h"
#include "launcher/report/progress.h"
#include "launcher/supervise/run_folder.h"
#include "launcher/supervise/worker_side.h"
#include "launcher/trainer/fingerprint.h"
#include "launcher/worker/guard.h"
#include "launcher/worker/profile.h"
#include "launcher/worker/replica_watch.h"
#include "launcher/worker/resume_changes.h"
#include "launcher/worker/saving.h"
#include "launcher/worker/training.h"
#include "launcher/worker/weight_norms.h"
#include "launcher/worker/worker.h"

namespace lockstep::launcher {

using namespace checkpoint;
using namespace compiler;
using namespace distributed;

namespace {
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Run : Training {
 public:
  Run(const RunConfig& config, const WorkerPlace& at, std::shared_ptr<World> world, const RunHooks& hooks)
      : Training(config, at, std::move(world), hooks.device),
        hooks_(hooks),
        place_(at),
        dir_(at.run_dir.empty() ? "runs/" + config.name : at.run_dir),
        saving_(config.checkpoint, rank() == 0) {
    set_deadlines({config.watch.deadline, config.watch.start_deadline});
  }

  int run() {
    together(*live_.world, [&] { check_validation(); });
    double start = now();
    check_memory();
    Step step = compile_training();
    std::unique_ptr<Step> evaluation = compile_evaluation();
    double compiled = now() - start;
    std::shared_ptr<FolderLock> lock;
    std::string refused;
    if (rank() == 0) {
      try {
        lock = lock_checkpoints(checkpoints());
      } catch (const UserError& error) { refused = error.what(); }
    }
    agree(*live_.world, refused);
    int64_t done = resume(step);
    introduce(step, compiled, done);
    if (rank() == 0) {
      write_whole(dir_ + "/config.json", config_text(config_));
      metrics_ = std::make_unique<MetricsWriter>(dir_ + "/metrics.jsonl", done);
      if (config_.log.tensorboard && done < config_.train.steps)
        events_ = std::make_unique<EventWriter>(dir_, done);
    }
    if (done >= config_.train.steps) {
      logs::info(str("nothing to do: ", checkpoints(), " holds step ", done, " of ", config_.train.steps,
                     "; raise train.steps to go on"));
      return end(kExitOk);
    }
    if (rank() == 0) foretold_ = std::make_unique<Foretold>(config_, live_, step.plan(), target_.device());
    ProgressLine progress(hooks_.progress, config_.train.steps, config_.log.every, pace_unit());
    if (foretold_) {
      const Prediction& p = foretold_->prediction();
      progress.costs({p.flops_per_s * p.step_s, p.peak_flops_per_s, [this] { return memory_in_use(); }});
    }
    Profile profile({config_.name, dir_, done + 1, config_.log.profile, config_.train.steps}, live_);
    for (int64_t i = done + 1; i <= config_.train.steps; ++i) {
      hooks_.report_step(i);
      const bool traced = profile.wants(i);
      if (traced) profile.begin(i);
      double began = now();
      StepInput fed = input(i, i < config_.train.steps, hooks_.stop_requested());
      fed.trace = traced;
      guard_.limit(fed);
      replicas_.ask(fed);
      inject_fault(i);
      auto result = step.run(fed);
      if (traced) profile.add(result, step);
      replicas_.hear(i, result, step);
      double seconds = now() - began;
      note_work(seconds, result, step);
      enter_pace(Pace::steps);
      float loss = static_cast<float>(result.metrics.at("loss"));
      bool last = i == config_.train.steps || result.votes > 0;
      float norm =
          result.metrics.count("grad_norm") ? static_cast<float>(result.metrics.at("grad_norm")) : 0.0f;
      const auto finding = guard_.judge(i, loss, norm);
      LS_CHECK(result.applied == (finding.action == StepGuard::Action::go_on), "step ", i, " was ",
               result.applied ? "" : "not ", "applied: loss ", loss, ", norm ", norm);
      act(i, finding, step, fed);
      if (foretold_)
        if (auto line = foretold_->measured(seconds, result.exposed))
          logs::info(str("step ", i, ": ", *line));
      report(i, last, seconds, result, step, evaluation.get());
      if (rank() == 0) progress.update(i, loss, read_in(result));
      if (last || (config_.checkpoint.every > 0 && i % config_.checkpoint.every == 0))
        save(i, last, step, fed);
      if (traced)
        if (const std::string path = profile.end(i, last); !path.empty())
          logs::info(str("step ", i, ": trace in ", path, "; ui.perfetto.dev and chrome://tracing open it"));
      if (result.votes > 0 && i < config_.train.steps) {
        logs::info(str("stopped on request after step ", i, "; saved in ", checkpoints(),
                       "; the same command goes on from there"));
        return end(kExitStopped);
      }
    }
    logs::info(str("done: ", config_.train.steps, " steps, checkpoint in ", checkpoints()));
    return end(kExitOk);
  }

 private:
  std::string checkpoints() const { return dir_ + "/ckpt"; }

  // This rank's own work of a step: what it did not wait for others.
  void note_work(double seconds, const StepResult& result, const Step& step) {
    double waited = 0;
    for (const auto& [dim, exposed] : result.exposed) waited += exposed;
    const LanePlan& lanes = step.lane_plan();
    int64_t share = 0;
    for (int64_t slot = 0; slot < lanes.slots(lanes.rank); ++slot)
      share += lanes.micro_batch(lanes.rank, slot) >= 0;
    auto recorder = flight_recorder();
    busy_s_ += recorder ? recorder->worked(seconds, waited, share) : std::max(0.0, seconds - waited);
    ++busy_steps_;
  }

  // The ranks' own work per step since the last row, in milliseconds: all wait for the slowest. Collective.
  void report_work(MetricsRow& row) {
    const int n = live_.world->size();
    double mine = busy_steps_ ? busy_s_ * 1e3 / static_cast<double>(busy_steps_) : 0;
    std::vector<double> all(n);
    all_gather(*live_.world, {&mine, all.data(), std::vector<int64_t>(n, 1), DType::f64}, "busy");
    busy_s_ = 0;
    busy_steps_ = 0;
    row.add("slowest_rank", static_cast<int64_t>(std::max_element(all.begin(), all.end()) - all.begin()));
    std::sort(all.begin(), all.end());
    row.add("busy_ms_min", static_cast<float>(all.front()));
    row.add("busy_ms_median",
            static_cast<float>((all[static_cast<size_t>(n - 1) / 2] + all[static_cast<size_t>(n) / 2]) / 2));
    row.add("busy_ms_max", static_cast<float>(all.back()));
  }

  int end(int code) {
    metrics_.reset();
    events_.reset();
    world_->finish();
    return code;
  }

  void save(int64_t i, bool last, Step& step, const StepInput& fed) {
    enter_pace(Pace::start);
    if (rank() == 0) tell_rewritten(*data_, rewritten_);
    replicas_.compare(i, step, true);
    auto write = [&] {
      Json extra = remembered(*data_, target_.library_version());
      extra["guard"] = guard_.json();
      return saving_(i, last, [&] {
        save_checkpoint(checkpoints(), {i, config_json(config_), step.certificate(), extra},
                        std::as_const(state_).arrays(), live_, static_cast<int>(config_.checkpoint.keep));
      });
    };
    bool saved = false;
    try {
      saved = write();
    } catch (const NonFiniteError& error) {  // the update overflowed, though loss and norm did not
      act(i, guard_.judge_state(error.what()), step, fed);
      saved = write();
    }
    if (saved) guard_.saved(i);
  }

  // LOCKSTEP_FAULT, in this rank's first weight: a low bit flipped, the highest of its exponent, or a million
  // times the weight.
  void inject_fault(int64_t i) {
    const bool flip = fault_due(place_, "flip", i), burst = fault_due(place_, "burst", i),
               spike = fault_due(place_, "spike", i);
    if (!flip && !burst && !spike) return;
    Array& weight = *state_.arrays()[0];
    weight.fetch();
    if (flip) weight.data.data()[1] ^= std::byte{0x08};
    if (burst) weight.data.data()[3] ^= std::byte{0x40};
    if (spike) *weight.data.as<float>() *= 1e6f;
    weight.host_wrote();
  }

  // Does what the guard decided of step i, on all ranks alike; returns unless the run ends.
  void act(int64_t i, StepGuard::Finding finding, Step& step, const StepInput& fed) {
    using Action = StepGuard::Action;
    if (finding.action != Action::go_on) enter_pace(Pace::start);  // a search, or a checkpoint that is read
    if (finding.action != Action::go_on)
      replicas_.compare(i, step, false);  // another rank's memory may be what did it
    if (finding.nonfinite && finding.look) finding.words += "; " + first_nonfinite(step, fed, state_);
    if (finding.action == Action::stop)
      throw UserError(str("step ", i, ": ", finding.words,
                          finding.of_state ? "" : "; the last checkpoint is untouched",
                          finding.nonfinite ? ". Lower optim.lr, or set optim.clip"
                                            : "; train.on_spike decides what a spike does"));
    if (finding.action == Action::go_on && !finding.words.empty())
      logs::info(str("step ", i, ": ", finding.words));
    if (finding.action == Action::skip && rank() == 0)
      logs::warn(str("step ", i, " is passed over: ", finding.words, "; its update was not made"));
    if (finding.action == Action::rewind) {
      const auto loaded = load_latest(checkpoints(), state_.arrays(), live_);
      const int64_t from = loaded ? loaded->step : 0;
      if (!loaded) start_state();
      guard_.restore(loaded && loaded->extra.contains("guard") ? loaded->extra["guard"] : Json());
      guard_.went_back(from, i);
      if (rank() == 0)
        logs::warn(str("step ", i, ": ", finding.words, "; going on behind it from the state of ",
                       loaded ? loaded->path : std::string("the initial weights"), ": steps ", from + 1,
                       " to ", i, " are passed over"));
    }
  }

  bool only_checkpoint_is(const std::string& folder) const {
    const std::string found = together(*live_.world, [&] {
      const auto all = list_checkpoints(checkpoints());
      return all.size() == 1 ? all[0].path : std::string();
    });
    return broadcast_text(*live_.world, found) == folder;
  }

  // The steps that are done: from the newest checkpoint of the run, else 0 with initial weights.
  int64_t resume(const Step& step) {
    if (const std::string first = checkpoints() + "/step-0"; only_checkpoint_is(first) && is_import(first)) {
      start_from_import(first);
      logs::info(str("resumed from ", first, " (step 0, state ", hash_state(), ")"));
      return 0;
    }
    auto loaded = load_latest(checkpoints(), state_.arrays(), live_);
    if (loaded) {
      logs::info(
          str("resumed from ", loaded->path, " (step ", loaded->step, ", state ", loaded->state_hash, ")"));
      tell_changes(*loaded, config_, *data_, step.certificate(), rank() == 0);
      if (loaded->extra.contains("guard")) guard_.restore(loaded->extra["guard"]);
      if (!config_.train.init_from.empty())
        logs::info("train.init_from is ignored: the run folder holds a checkpoint");
      return loaded->step;
    }
    start_state();
    return 0;
  }

  void introduce(const Step& step, double compiled, int64_t done) {
    int64_t elements = 0, trained = 0;
    for (const auto& spec : state_.specs())
      if (spec.role == Role::parameter)
        elements += numel(spec.shape), trained += spec.trainable ? numel(spec.shape) : 0;
    const auto& lanes = step.lane_plan();
    logs::info(str("model ", config_.model.kind, " ", elements, " parameters",
                   trained < elements ? str(", ", trained, " of them trained") : "", "; mesh ",
                   text(live_.words), "; ", lanes.micro_batches, " micro-batches in ", lanes.lanes,
                   " lanes per step"));
    logs::info(str("memory per rank: state ", bytes_text(static_cast<double>(state_.bytes_per_rank())),
                   ", arena ", bytes_text(static_cast<double>(step.arena_bytes())), ", reduction ",
                   bytes_text(static_cast<double>(step.reduction_bytes())), "; ", trainer_.options().threads,
                   trainer_.options().threads == 1 ? " thread" : " threads"));
    if (const std::string words = hosts_of(config_, live_.words, live_.ranks_per_node).words; !words.empty())
      logs::info(str("gradients are exchanged ", words));
    if (step.plan().recompute.values) logs::info(str("backward recomputes ", text(step.plan().recompute)));
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.1f", compiled);
    logs::info(str("compiled in ", seconds, " s; certificate ", step.certificate(),
                   done ? "" : "; starting at step 1"));
  }

  // What the task reports beside the loss: "accuracy", "val_accuracy".
  static void add_metrics(MetricsRow& row, const std::string& prefix,
                          const std::map<std::string, double>& values) {
    for (const auto& [name, value] : values)
      if (name != "loss" && name != "grad_norm" && name != "tokens" && !name.starts_with(kGradientNorm))
        row.add(prefix + name, static_cast<float>(value));
  }
  // Of each parameter after the step, and of its gradient. Collective.
  void add_norms(MetricsRow& row, const std::map<std::string, double>& values) {
    for (const auto& [name, value] : values)
      if (name.starts_with(kGradientNorm)) row.add(name, static_cast<float>(value));
    for (const auto& [fqn, norm] : weight_norms(state_)) row.add("weight_norm." + fqn, norm);
  }

  void report(int64_t i, bool last, double seconds, const StepResult& result, const Step& step,
              Step* evaluation) {
    const auto& values = result.metrics;
    bool hash = last || (config_.log.hash_every > 0 && i % config_.log.hash_every == 0);
    bool eval = evaluation && (last || (config_.train.eval_every > 0 && i % config_.train.eval_every == 0));
    const bool passed = guard_.passed_over() > told_passed_,
               norms = config_.log.norms_every > 0 && i % config_.log.norms_every == 0;
    if (!(i == 1 || last || i % config_.log.every == 0 || hash || eval || passed || norms)) return;
    MetricsRow row(i);
    row.add("loss", static_cast<float>(values.at("loss")));
    if (auto found = values.find("grad_norm"); found != values.end())
      row.add("grad_norm", static_cast<float>(found->second));
    add_metrics(row, "", values);
    if (norms) add_norms(row, values);
    row.add("lr", trainer_.rate(i));
    row.add("step_ms", static_cast<float>(seconds * 1e3));
    for (const auto& [dim, waited] : result.exposed)
      row.add(str("exposed_", dim, "_ms"), static_cast<float>(waited * 1e3));
    report_work(row);
    row.add(str(pace_unit(), "_per_s"), static_cast<float>(static_cast<double>(read_in(result)) / seconds));
    if (foretold_ && foretold_->median_s() > 0) {  // the first row after it was measured
      if (foretold_->predicted_s() > 0)
        row.add("predicted_step_ms", static_cast<float>(foretold_->predicted_s() * 1e3));
      row.add("measured_step_ms", static_cast<float>(foretold_->median_s() * 1e3));
      foretold_.reset();
    }
    if (guard_.passed_over()) row.add("passed_over", guard_.passed_over());
    told_passed_ = guard_.passed_over();
    if (eval) {
      const auto measured = evaluate(*evaluation, i);
      trainer_.measured(i, measured);
      const auto loss = static_cast<float>(measured.at("loss"));
      row.add("val_loss", loss);
      if (trainer_.task().perplexity)
        row.add("val_perplexity", static_cast<float>(std::exp(measured.at("loss"))));
      add_metrics(row, "val_", measured);
      logs::info(str("step ", i, ": validation loss ", number_text(loss)));
    }
    if (hash) {
      std::string text = hash_state();
      row.add("state_hash", text);
      if (last) logs::info(str("step ", i, ": state ", text));
    }
    row.add("certificate", step.certificate());
    if (rank() == 0) metrics_->write(row);
    if (events_) events_->write(row);
  }

  const RunHooks& hooks_;
  WorkerPlace place_;
  std::string dir_;
  Saving saving_;
  std::set<std::string> rewritten_;  // data files that it has warned of
  double busy_s_ = 0;                // since the last row
  int64_t busy_steps_ = 0;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<EventWriter> events_;  // on rank 0, under log.tensorboard
  StepGuard guard_{config_.train};
  ReplicaWatch replicas_{config_.verify.replicas_every, live_};
  int64_t told_passed_ = 0;             // as the last row says
  std::unique_ptr<Foretold> foretold_;  // on rank 0, until its words are said
};
}  // namespace

RunHooks process_hooks(const RunConfig& config) {
  return {stop_requested, report_step, progress_output(terminal_fd(), terminal_columns()),
          config.train.device};
}

int run_rank(const RunConfig& config, const WorkerPlace& at, std::shared_ptr<World> world,
             const RunHooks& hooks) {
  return Run(config, at, std::move(world), hooks).run();
}
int run_worker(const RunConfig& config, const WorkerPlace& at) {
  return run_rank(config, at, open_world(), process_hooks(config));
}

int run_worker(const std::string& config_file, const std::vector<Override>& overrides,
               const WorkerPlace& at) {
  auto world = open_world();
  const RunConfig config = together(*world->group(), [&] {
    RunConfig out = load_config(config_file, overrides);
    refuse_stored_plugin(out, config_file, stored_in(config_file), overrides,
                         "trainrun worker " + config_file);
    return out;
  });
  return run_rank(config, at, world, process_hooks(config));
}

}  // namespace lockstep::launcher
