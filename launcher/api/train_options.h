// What train() is given: data by the sample's number, what is measured on the way, and options.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compile.h"
#include "core/models/family.h"

namespace lockstep {

// A sample of the data: its fields by name, dtype and shape, and a function that writes sample `i` into one
// place per field. It is a function of i alone, so that a resumed run and any number of ranks see the same;
// it may be called on several threads at once.
struct SampleData {
  std::vector<models::Field> fields;
  std::function<void(int64_t i, const std::vector<void*>& fields)> fill;
  int64_t rows = 0;  // behind which the samples begin again; 0: none are known
  // What sample `i` is called in a message, "row 7"; empty: by its number.
  std::function<std::string(int64_t i)> name = {};
  // What ranks compare before they train, and a resumed run with its checkpoint: keys and fingerprints, as of
  // the arrays that it reads. Empty: ranks compare its first samples.
  std::function<std::vector<std::pair<std::string, std::string>>()> contents = {};
};

// What is measured on the way, on samples that are not trained on.
struct Validation {
  SampleData data;
  // Traced as an evaluation (Dropout does nothing), on a micro-batch of the fields; gives the loss, may give
  // metrics, and updates nothing.
  compiler::StepFunction function;
  int64_t samples = 0;  // of an evaluation: the first ones
  int64_t every = 0;    // steps between evaluations; 0: after the last one
  // Called on every rank behind each evaluation of `every` with its loss and metrics, the same everywhere, as
  // a Plateau wants them; not behind the one more at the end of a run, which a longer run does not have.
  std::function<void(const std::map<std::string, double>& metrics)> measured = {};
};

// Those that a config has too have its names, behind the dot, and its defaults: `trainrun explain
// train.on_nonfinite` tells more. The same on every rank, which train() compares first.
struct TrainOptions {
  std::string run = "runs/own";  // the folder of checkpoints and metrics.jsonl
  int64_t steps = 100;
  int64_t global_batch = 16;  // samples per step, over all ranks
  // Samples that a rank computes at a time. 0: what the batch and the step say, never the ranks: the whole
  // batch where the step mixes its samples, as batch norm does, or reads how many they are, else a part of it
  // that ranks can share (compiler/micro_batch.h).
  int64_t micro_batch = 0;
  int64_t lanes = 0;  // of the reduction; 0: default_lanes
  // How the step is compiled (compiler::CompileOptions): bytes of activations, beyond which they are computed
  // again, -1: all are kept; so many of a rank's micro-batches as one; what waits in the host's memory.
  int64_t memory_budget = -1;
  int64_t together = 1;
  bool offload_moments = false, offload_activations = false;
  int64_t save_every = 0;                     // 0: at the end only
  bool save_async = true;                     // checkpoint.async
  int64_t memory_every = 0;                   // checkpoint.memory_every; 0: none
  int64_t report_every = 10;                  // steps between lines
  int64_t keep = 3;                           // checkpoints
  std::optional<Validation> validation = {};  // "val_loss" and its metrics as "val_NAME"

  // By validation: which is the best, whether its state is kept in RUN/best, and after how many in a row that
  // were not better by more than min_delta the run is done (0: never).
  std::string monitor = "val_loss";
  std::string monitor_mode = "min";  // or "max"
  double min_delta = 0;
  bool best = false;
  int64_t patience = 0;
  // Steps whose loss or gradient norm is not finite, or far above its median: their update is not made where
  // the word is skip, rewind or stop.
  std::string on_nonfinite = "stop";
  int64_t nonfinite_limit = 10;
  std::string on_spike = "warn";
  double spike_factor = 10;
  int64_t spike_window = 64;

  int64_t hash_every = 0, norms_every = 0;
  bool tensorboard = false;
  int64_t profile = 0;  // steps that are traced; trainrun --profile=N goes before it
  int64_t retries = 3;  // of a save
  std::string on_failure = "stop";
  int64_t replicas_every = 1;
  int64_t recompute_every = 0;
  std::string on_corruption = "stop";

  // After a stop on request train() does not return: the process ends with exit code 80. True: it returns,
  // and Session::stop_requested tells why.
  bool return_when_stopped = false;
};

}  // namespace lockstep
