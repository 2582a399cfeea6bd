// train(): the loop of trainrun around a model and data of the user's own: compiled, resumed, reported,
// saved.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "core/models/family.h"
#include "launcher/api/session.h"

namespace lockstep {

// A sample of the data: its fields by name, dtype and shape, and a function that writes sample `i` into one
// place per field. It is a function of i alone, so that a resumed run and any number of ranks see the same;
// it may be called on several threads at once.
struct SampleData {
  std::vector<models::Field> fields;
  std::function<void(int64_t i, const std::vector<void*>& fields)> fill;
};

// What is measured on the way, on samples that are not trained on.
struct Validation {
  SampleData data;
  // Traced as an evaluation (Dropout does nothing), on a micro-batch of the fields; gives the loss, may give
  // metrics, and updates nothing.
  compiler::StepFunction function;
  int64_t samples = 0;  // of an evaluation: the first ones, whole micro-batches
  int64_t every = 0;    // steps between evaluations; 0: after the last one
  // Called on every rank behind each evaluation of `every` with its loss and metrics, the same everywhere, as
  // a Plateau wants them; not behind the one more at the end of a run, which a longer run does not have.
  std::function<void(const std::map<std::string, double>& metrics)> measured = {};
};

struct TrainOptions {
  std::string run = "runs/own";  // the folder of checkpoints and metrics.jsonl
  int64_t steps = 100;
  int64_t global_batch = 16;  // samples per step, over all ranks
  int64_t micro_batch = 4;
  int64_t lanes = 0;                          // of the reduction; 0: default_lanes
  int64_t save_every = 0;                     // 0: at the end only
  int64_t report_every = 10;                  // steps between lines
  int64_t keep = 3;                           // checkpoints
  std::optional<Validation> validation = {};  // "val_loss" and its metrics as "val_NAME"
};

// Trains `state` on the session's mesh, device and precision: `function` is traced on a micro-batch of the
// fields, [micro_batch, shape...] each, updates the state, and gives the loss. Step i (from 0) reads samples
// i * global_batch to (i + 1) * global_batch - 1. Goes on from the newest checkpoint of the run; saves at the
// end, and when a signal asks for a stop. Prints loss and metrics, and at the end "step N: state HASH"; rows
// of metrics.jsonl have step_ms and samples_per_s, too. Returns that hash. Collective. UserError from the
// compiler, for a validation of parts of micro-batches, and where the loss or the gradient norm is not
// finite: the last checkpoint is untouched then.
std::string train(Session& session, State& state, const SampleData& data,
                  const compiler::StepFunction& function, const TrainOptions& options = {});

}  // namespace lockstep
