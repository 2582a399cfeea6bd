// The training run of a config: build, resume, loop, save.
#include <chrono>
#include <cmath>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "compiler/memory_budget.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/mesh/together.h"
#include "distributed/mesh/device_mesh.h"
#include "launcher/plan/foretold.h"
#include "launcher/report/metrics.h"
#include "launcher/report/progress.h"
#include "launcher/supervise/run_folder.h"
#include "launcher/supervise/worker_side.h"
#include "launcher/worker/build.h"
#include "launcher/worker/fingerprint.h"
#include "launcher/worker/paper.h"
#include "launcher/worker/run_device.h"
#include "launcher/worker/worker.h"

namespace lockstep {

namespace {
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class Run {
 public:
  Run(const RunConfig& config, const WorkerPlace& at, std::shared_ptr<World> world)
      : config_(config),
        at_(at),
        dir_(at.run_dir.empty() ? "runs/" + config.name : at.run_dir),
        world_(std::move(world)),
        live_(open_mesh(world_, config)),
        target_(open_device(live_, config.train.device, at.local_rank, at.local_world_size)),
        state_(live_, static_cast<uint64_t>(config.train.seed)),
        trainer_(config, at.local_world_size, state_, target_),
        data_(together(*live_.world, [&] { return data::Dataset(data_options(config)); })) {
    if (live_.world->size() > 1) compare(*live_.world, "before step 1", {libraries_part(target_), data_part(data_)});
  }

  int run() {
    std::filesystem::create_directories(dir_ + "/ckpt");
    together(*live_.world, [&] { check_validation(); });
    double start = now();
    check_memory();
    Step step = trainer_.compile_training();
    std::unique_ptr<Step> evaluation;
    if (int64_t sequences = validation_sequences()) evaluation = std::make_unique<Step>(trainer_.compile_evaluation(sequences));
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
    if (rank() == 0) foretold_ = std::make_unique<Foretold>(config_, live_.words, step.plan(), target_.device());
    ProgressLine progress(terminal_fd(), rank() == 0 ? terminal_columns() : 0, config_.train.steps, config_.log.every);
    for (int64_t i = done + 1; i <= config_.train.steps; ++i) {
      report_step(i);
      double began = now();
      auto filler = [&](int64_t of) {
        return [this, of](int64_t first, int64_t count, const std::vector<void*>& fields) {
          data_.fill(of - 1, config_.batch.global, first, count, static_cast<int32_t*>(fields[0]), static_cast<int32_t*>(fields[1]));
        };
      };
      StepInput input{i, filler(i), stop_requested() ? 1 : 0};
      if (i < config_.train.steps) input.fill_next = filler(i + 1);
      auto result = step.run(input);
      double seconds = now() - began;
      float loss = static_cast<float>(result.metrics.at("loss"));
      bool last = i == config_.train.steps || result.votes > 0;
      float norm = result.metrics.count("grad_norm") ? static_cast<float>(result.metrics.at("grad_norm")) : 0.0f;
      if (!std::isfinite(loss) || !std::isfinite(norm))
        throw UserError(str("step ", i, ": the loss is ", loss, " and the gradient norm is ", norm,
                            "; the last checkpoint is untouched. Lower optim.lr, or set optim.clip"));
      if (foretold_)
        if (auto line = foretold_->measured(seconds)) logs::info(str("step ", i, ": ", *line));
      report(i, last, seconds, result.metrics, evaluation.get());
      if (rank() == 0) progress.update(i, loss, static_cast<int64_t>(result.metrics.at("tokens")));
      bool save = last || (config_.checkpoint.every > 0 && i % config_.checkpoint.every == 0);
      if (save) {
        Json extra = {{"data", data_.fingerprint()}};
        save_checkpoint(checkpoints(), {i, config_json(config_), step.certificate(), extra}, std::as_const(state_).arrays(), live_,
                        static_cast<int>(config_.checkpoint.keep));
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
  int rank() const { return live_.world->rank(); }
  std::string checkpoints() const { return dir_ + "/ckpt"; }
  int64_t validation_sequences() const { return std::min(config_.train.eval_batches * config_.batch.global, data_.validation_sequences()); }

  // The sequences of the evaluation are read once before the first step: a bad token in them would end the run at its last one.
  void check_validation() const {
    std::vector<int32_t> ids(static_cast<size_t>(config_.model.context)), targets(ids.size());
    for (int64_t i = 0; i < validation_sequences(); ++i) data_.fill_validation(i, 1, ids.data(), targets.data());
  }

  int end(int code) {
    metrics_.reset();
    world_->finish();
    return code;
  }

  // Before anything is taken of a device's memory: whether the run fits in what is free of it. What is known to the byte decides; where
  // only the bounds of what libraries take do not fit, the run is warned and tried. The host's own memory is not foretold: caches give way.
  void check_memory() {
    Device& device = target_.device();
    if (device.addressable() || trainer_.options().backend == Backend::reference) return;
    std::string refused;
    try {
      PaperStep step(trainer_.plan_training(live_.words), live_.words);
      LibraryBounds bounds = library_bounds(config_.train.device, target_);
      bounds.context = 0;  // taken already
      MemoryNeeds needs = device_needs(config_, state_, trainer_, step, validation_sequences(), bounds);
      const int64_t free = device.memory_info().free;
      const std::string table = memory_table(needs, free, "free on the device");
      if (needs.exact() > free) {
        auto fit = nearest_config(config_, live_.words.size(), target_, validation_sequences(), bounds, free);
        refused = does_not_fit(config_.name, config_.batch.micro, live_.words.size(), needs, free, fit) + "\n" + table;
        refused.pop_back();
      } else if (needs.total() > free) {
        logs::warn(str("memory may run out on the device of rank ", rank(), ":\n", table));
      }
    } catch (const UserError& error) { refused = error.what(); }
    agree(*live_.world, refused);
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
    state_.materialize();
    if (!config_.train.init_from.empty()) {
      load_safetensors(config_.train.init_from, parameters(), live_);
      logs::info(str("initial weights from ", config_.train.init_from));
    }
    return 0;
  }
  std::vector<Array*> parameters() {
    std::vector<Array*> out;
    for (const auto& spec : state_.specs())
      if (spec.role == Role::parameter) out.push_back(&state_.array(spec.fqn));
    return out;
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
    if (step.plan().recompute.values) logs::info(str("backward computes again: ", text(step.plan().recompute)));
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.1f", compiled);
    logs::info(str("compiled in ", seconds, " s; certificate ", step.certificate(), done ? "" : "; starting at step 1"));
  }

  void report(int64_t i, bool last, double seconds, const std::map<std::string, double>& values, Step* evaluation) {
    bool hash = last || (config_.log.hash_every > 0 && i % config_.log.hash_every == 0);
    bool eval = evaluation && (last || (config_.train.eval_every > 0 && i % config_.train.eval_every == 0));
    if (!(i == 1 || last || i % config_.log.every == 0 || hash || eval)) return;
    MetricsRow row(i);
    row.add("loss", static_cast<float>(values.at("loss")));
    if (auto found = values.find("grad_norm"); found != values.end()) row.add("grad_norm", static_cast<float>(found->second));
    row.add("lr", state_.scalars(i).at("optim.lr"));
    row.add("step_ms", static_cast<float>(seconds * 1e3));
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
      std::string text = state_hash(std::as_const(state_).arrays(), live_);
      row.add("state_hash", text);
      if (last) logs::info(str("step ", i, ": state ", text));
    }
    if (rank() == 0) metrics_->write(row);
  }

  float evaluate(Step& evaluation, int64_t i) {
    int64_t sequences = validation_sequences(), context = config_.model.context;
    auto result = evaluation.run({i, [&](int64_t first, int64_t count, const std::vector<void*>& fields) {
                                    auto* ids = static_cast<int32_t*>(fields[0]);
                                    auto* targets = static_cast<int32_t*>(fields[1]);
                                    int64_t real = std::clamp<int64_t>(sequences - first, 0, count);
                                    if (real) data_.fill_validation(first, real, ids, targets);
                                    // The last micro-batch is filled up with sequences that count nothing.
                                    std::fill(ids + real * context, ids + count * context, 0);
                                    std::fill(targets + real * context, targets + count * context, static_cast<int32_t>(kIgnoreIndex));
                                  }});
    return static_cast<float>(result.metrics.at("loss"));
  }

  const RunConfig& config_;
  const WorkerPlace& at_;
  std::string dir_;
  std::shared_ptr<World> world_;
  LiveMesh live_;
  const Target& target_;
  State state_;
  Trainer trainer_;
  data::Dataset data_;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<Foretold> foretold_;  // on rank 0, until its words are said
};
}  // namespace

int run_worker(const RunConfig& config, const WorkerPlace& at) { return Run(config, at, open_world()).run(); }

int run_worker(const std::string& config_file, const WorkerPlace& at) {
  auto world = open_world();
  const RunConfig config = together(*world->group(), [&] { return load_config(config_file); });
  return Run(config, at, world).run();
}

}  // namespace lockstep
