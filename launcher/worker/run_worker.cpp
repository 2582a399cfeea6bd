// The training run of a config: build, resume, loop, save.
#include <chrono>
#include <cmath>

#include "checkpoint/checkpoint.h"
#include "compiler/memory_budget.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/mesh/together.h"
#include "launcher/plan/foretold.h"
#include "launcher/worker/hosts.h"
#include "launcher/report/metrics.h"
#include "launcher/report/progress.h"
#include "launcher/supervise/run_folder.h"
#include "launcher/supervise/worker_side.h"
#include "launcher/worker/fingerprint.h"
#include "launcher/worker/saving.h"
#include "launcher/worker/training.h"
#include "launcher/worker/worker.h"

namespace lockstep {

namespace {
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class Run : Training {
 public:
  Run(const RunConfig& config, const WorkerPlace& at, std::shared_ptr<World> world, const RunHooks& hooks)
      : Training(config, at, std::move(world), hooks.device),
        hooks_(hooks),
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
    }
    if (done >= config_.train.steps) {
      logs::info(str("nothing to do: ", checkpoints(), " holds step ", done, " of ", config_.train.steps, "; raise train.steps to go on"));
      return end(kExitOk);
    }
    if (rank() == 0) foretold_ = std::make_unique<Foretold>(config_, live_, step.plan(), target_.device());
    ProgressLine progress(hooks_.progress, config_.train.steps, config_.log.every);
    for (int64_t i = done + 1; i <= config_.train.steps; ++i) {
      hooks_.report_step(i);
      double began = now();
      auto result = step.run(input(i, i < config_.train.steps, hooks_.stop_requested()));
      double seconds = now() - began;
      float loss = static_cast<float>(result.metrics.at("loss"));
      bool last = i == config_.train.steps || result.votes > 0;
      float norm = result.metrics.count("grad_norm") ? static_cast<float>(result.metrics.at("grad_norm")) : 0.0f;
      if (!std::isfinite(loss) || !std::isfinite(norm))
        throw UserError(str("step ", i, ": the loss is ", loss, " and the gradient norm is ", norm,
                            "; the last checkpoint is untouched. Lower optim.lr, or set optim.clip"));
      if (foretold_)
        if (auto line = foretold_->measured(seconds, result.exposed)) logs::info(str("step ", i, ": ", *line));
      report(i, last, seconds, result, step, evaluation.get());
      if (rank() == 0) progress.update(i, loss, static_cast<int64_t>(result.metrics.at("tokens")));
      bool save = last || (config_.checkpoint.every > 0 && i % config_.checkpoint.every == 0);
      if (save) {
        Json extra = {{"data", data_.fingerprint()}, {"library", target_.library_version()}};
        saving_(i, last, [&] {
          save_checkpoint(checkpoints(), {i, config_json(config_), step.certificate(), extra}, std::as_const(state_).arrays(), live_,
                          static_cast<int>(config_.checkpoint.keep));
        });
      }
      if (result.votes > 0 && i < config_.train.steps) {
        logs::info(str("stopped on request after step ", i, "; saved in ", checkpoints(), "; the same command goes on from there"));
        return end(kExitStopped);
      }
    }
    logs::info(str("done: ", config_.train.steps, " steps, checkpoint in ", checkpoints()));
    return end(kExitOk);
  }

 private:
  std::string checkpoints() const { return dir_ + "/ckpt"; }

  int end(int code) {
    metrics_.reset();
    world_->finish();
    return code;
  }

  // The steps that are done: from the newest checkpoint of the run, else 0 with initial weights.
  int64_t resume(const Step& step) {
    auto loaded = load_latest(checkpoints(), state_.arrays(), live_);
    if (loaded) {
      logs::info(str("resumed from ", loaded->path, " (step ", loaded->step, ", state ", loaded->state_hash, ")"));
      bool lead = rank() == 0;
      if (lead && loaded->certificate != step.certificate())
        logs::warn(str("bits may change at step ", loaded->step + 1, ": the checkpoint was made with certificate ", loaded->certificate,
                       ", this run has ", step.certificate(), " (other kernels, library, batch or precision)"));
      if (lead && loaded->extra.contains("data") && loaded->extra["data"] != data_.fingerprint())
        logs::warn("the data changed since the checkpoint: samples are not the same as before");
      if (!config_.train.init_from.empty()) logs::info("train.init_from is ignored: the run folder holds a checkpoint");
      return loaded->step;
    }
    start_state();
    return 0;
  }

  void introduce(const Step& step, double compiled, int64_t done) {
    int64_t elements = 0;
    for (const auto& spec : state_.specs())
      if (spec.role == Role::parameter) elements += numel(spec.shape);
    const auto& lanes = step.lane_plan();
    logs::info(str("model ", config_.model.kind, " ", elements, " parameters; mesh ", text(live_.words), "; ", lanes.micro_batches,
                   " micro-batches in ", lanes.lanes, " lanes per step"));
    logs::info(str("memory per rank: state ", bytes_text(static_cast<double>(state_.bytes_per_rank())), ", arena ",
                   bytes_text(static_cast<double>(step.arena_bytes())), ", reduction ",
                   bytes_text(static_cast<double>(step.reduction_bytes())), "; ", trainer_.options().threads,
                   trainer_.options().threads == 1 ? " thread" : " threads"));
    if (const std::string words = hosts_of(config_, live_.words, live_.ranks_per_node).words; !words.empty())
      logs::info(str("gradients are exchanged ", words));
    if (step.plan().recompute.values) logs::info(str("backward computes again: ", text(step.plan().recompute)));
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.1f", compiled);
    logs::info(str("compiled in ", seconds, " s; certificate ", step.certificate(), done ? "" : "; starting at step 1"));
  }

  void report(int64_t i, bool last, double seconds, const StepResult& result, const Step& step, Step* evaluation) {
    const auto& values = result.metrics;
    bool hash = last || (config_.log.hash_every > 0 && i % config_.log.hash_every == 0);
    bool eval = evaluation && (last || (config_.train.eval_every > 0 && i % config_.train.eval_every == 0));
    if (!(i == 1 || last || i % config_.log.every == 0 || hash || eval)) return;
    MetricsRow row(i);
    row.add("loss", static_cast<float>(values.at("loss")));
    if (auto found = values.find("grad_norm"); found != values.end()) row.add("grad_norm", static_cast<float>(found->second));
    row.add("lr", state_.scalars(i).at("optim.lr"));
    row.add("step_ms", static_cast<float>(seconds * 1e3));
    for (const auto& [dim, waited] : result.exposed) row.add(str("exposed_", dim, "_ms"), static_cast<float>(waited * 1e3));
    row.add("tokens_per_s", static_cast<float>(values.at("tokens") / seconds));
    if (foretold_ && foretold_->median_s() > 0) {  // the first row after it was measured
      if (foretold_->predicted_s() > 0) row.add("predicted_step_ms", static_cast<float>(foretold_->predicted_s() * 1e3));
      row.add("measured_step_ms", static_cast<float>(foretold_->median_s() * 1e3));
      foretold_.reset();
    }
    if (eval) {
      float loss = evaluate(*evaluation, i);
      row.add("val_loss", loss);
      logs::info(str("step ", i, ": validation loss ", number_text(loss)));
    }
    if (hash) {
      std::string text = hash_state();
      row.add("state_hash", text);
      if (last) logs::info(str("step ", i, ": state ", text));
    }
    row.add("certificate", step.certificate());
    if (rank() == 0) metrics_->write(row);
  }

  const RunHooks& hooks_;
  std::string dir_;
  Saving saving_;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<Foretold> foretold_;  // on rank 0, until its words are said
};
}  // namespace

RunHooks process_hooks(const RunConfig& config) {
  return {stop_requested, report_step, progress_output(terminal_fd(), terminal_columns()), config.train.device};
}

int run_rank(const RunConfig& config, const WorkerPlace& at, std::shared_ptr<World> world, const RunHooks& hooks) {
  return Run(config, at, std::move(world), hooks).run();
}
int run_worker(const RunConfig& config, const WorkerPlace& at) { return run_rank(config, at, open_world(), process_hooks(config)); }

int run_worker(const std::string& config_file, const WorkerPlace& at) {
  auto world = open_world();
  const RunConfig config = together(*world->group(), [&] { return load_config(config_file); });
  return run_rank(config, at, world, process_hooks(config));
}

}  // namespace lockstep
