// The arguments of train(): data by sample number, validation, and options.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compile/compile.h"
#include "core/models/family.h"

namespace lockstep {

// A sample of the data: its fields by name, dtype and shape, and a function that writes sample `i` into one
// place per field. It must depend only on i, so that a resumed run and any number of ranks see the same; it
// may be called from several threads at once.
struct SampleData {
  std::vector<models::Field> fields;
  std::function<void(int64_t i, const std::vector<void*>& fields)> fill;
  int64_t rows = 0;  // number of samples before they repeat; 0: unknown
  // The name of sample `i` in messages, "row 7"; unset: its number.
  std::function<std::string(int64_t i)> name = {};
  // Keys and fingerprints of the data, for example of the arrays it reads. Ranks compare them before
  // training, and a resumed run compares them with its checkpoint. Empty: ranks compare the first samples.
  std::function<std::vector<std::pair<std::string, std::string>>()> contents = {};
};

// Measurements during training on samples that are not trained on.
struct Validation {
  SampleData data;
  // Traced as an evaluation (Dropout does nothing), on a micro-batch of the fields; gives the loss, may give
  // metrics, and updates nothing.
  compiler::StepFunction function;
  int64_t samples = 0;  // the number of first samples in an evaluation
  int64_t every = 0;    // steps between evaluations; 0: after the last one
  // Called on every rank after each evaluation of `every` with its loss and metrics, equal on all ranks, for
  // example for a Plateau. Not called after the extra evaluation at the end of a run, which a longer run
  // would not have.
  std::function<void(const std::map<std::string, double>& metrics)> measured = {};
};

// Options that a config also has use its key names (the part after the dot) and defaults; `trainrun explain
// train.on_nonfinite` explains one. They must be the same on every rank; train() compares them first.
struct TrainOptions {
  std::string run = "runs/own";  // the folder of checkpoints and metrics.jsonl
  int64_t steps = 100;
  int64_t global_batch = 16;  // samples per step, over all ranks
  // Samples that a rank computes at a time. 0: chosen from the batch and the step, never from the ranks. It
  // is the whole batch if the step mixes samples (as batch norm does) or uses their number, else a part of it
  // that ranks can share (compiler/compile/micro_batch.h).
  int64_t micro_batch = 0;
  int64_t lanes = 0;  // of the reduction; 0: default_lanes
  // How the step is compiled (compiler::CompileOptions): bytes of activations before recomputation starts,
  // -1: keep all; how many of a rank's micro-batches run as one; the activations kept in host memory.
  int64_t memory_budget = -1;
  int64_t together = 1;
  bool offload_moments = false, offload_activations = false;
  int64_t save_every = 0;                     // 0: at the end only
  bool save_async = true;                     // checkpoint.async
  int64_t memory_every = 0;                   // checkpoint.memory_every; 0: none
  int64_t report_every = 10;                  // steps between lines
  int64_t keep = 3;                           // checkpoints
  std::optional<Validation> validation = {};  // "val_loss" and its metrics as "val_NAME"

  // Best validation: the metric that decides, whether the best state is kept in RUN/best, and after how many
  // validations in a row without an improvement by more than min_delta the run ends (0: never).
  std::string monitor = "val_loss";
  std::string monitor_mode = "min";  // or "max"
  double min_delta = 0;
  bool best = false;
  int64_t patience = 0;
  // Handling of steps whose loss or gradient norm is not finite or far above its median: skip, rewind and
  // stop drop their update.
  std::string on_nonfinite = "stop";
  int64_t nonfinite_limit = 10;
  std::string on_spike = "warn";
  double spike_factor = 10;
  int64_t spike_window = 64;

  int64_t hash_every = 0, norms_every = 0;
  bool tensorboard = false;
  int64_t profile = 0;  // traced steps; trainrun --profile=N overrides it
  int64_t retries = 3;  // retries of a failed save
  std::string on_failure = "stop";
  int64_t replicas_every = 1;
  int64_t recompute_every = 0;
  std::string on_corruption = "stop";

  // False: after a requested stop train() ends the process with exit code 80. True: it returns, and
  // Session::stop_requested is true.
  bool return_when_stopped = false;
};

// Calls `row` for each option except `validation`: its name, the config key with its meaning and rule ("":
// none), its member, and the member of CompileOptions if it goes there and not into a config. What compares,
// converts, names or reads options goes through these rows.
template <class Row>
void each_train_option(Row&& row) {
  using O = TrainOptions;
  using C = compiler::CompileOptions;
  row("run", "", &O::run);
  row("steps", "train.steps", &O::steps);
  row("global_batch", "batch.global", &O::global_batch);
  row("micro_batch", "batch.micro", &O::micro_batch);
  row("lanes", "batch.lanes", &O::lanes);
  row("memory_budget", "compile.memory_budget", &O::memory_budget, &C::memory_budget);
  row("together", "compile.together", &O::together, &C::together);
  row("offload_moments", "optim.offload", &O::offload_moments, &C::offload_moments);
  row("offload_activations", "compile.offload_activations", &O::offload_activations, &C::offload_activations);
  row("save_every", "checkpoint.every", &O::save_every);
  row("save_async", "checkpoint.async", &O::save_async);
  row("memory_every", "checkpoint.memory_every", &O::memory_every);
  row("report_every", "log.every", &O::report_every);
  row("keep", "checkpoint.keep", &O::keep);
  row("monitor", "train.monitor", &O::monitor);
  row("monitor_mode", "train.monitor_mode", &O::monitor_mode);
  row("min_delta", "train.min_delta", &O::min_delta);
  row("best", "checkpoint.best", &O::best);
  row("patience", "train.patience", &O::patience);
  row("on_nonfinite", "train.on_nonfinite", &O::on_nonfinite);
  row("nonfinite_limit", "train.nonfinite_limit", &O::nonfinite_limit);
  row("on_spike", "train.on_spike", &O::on_spike);
  row("spike_factor", "train.spike_factor", &O::spike_factor);
  row("spike_window", "train.spike_window", &O::spike_window);
  row("hash_every", "log.hash_every", &O::hash_every);
  row("norms_every", "log.norms_every", &O::norms_every);
  row("tensorboard", "log.tensorboard", &O::tensorboard);
  row("profile", "log.profile", &O::profile);
  row("retries", "checkpoint.retries", &O::retries);
  row("on_failure", "checkpoint.on_failure", &O::on_failure);
  row("replicas_every", "verify.replicas_every", &O::replicas_every);
  row("recompute_every", "verify.recompute_every", &O::recompute_every);
  row("on_corruption", "verify.on_corruption", &O::on_corruption);
  row("return_when_stopped", "", &O::return_when_stopped);
}

}  // namespace lockstep
