// train(): the loop of trainrun around a model and data of the user's own: compiled, resumed, reported,
// saved.
#pragma once

#include <functional>
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

struct TrainOptions {
  std::string run = "runs/own";  // the folder of checkpoints and metrics.jsonl
  int64_t steps = 100;
  int64_t global_batch = 16;  // samples per step, over all ranks
  int64_t micro_batch = 4;
  int64_t lanes = 0;          // of the reduction; 0: default_lanes
  int64_t save_every = 0;     // 0: at the end only
  int64_t report_every = 10;  // steps between lines
  int64_t keep = 3;           // checkpoints
};

// Trains `state` on the session's mesh, device and precision: `function` is traced on a micro-batch of the
// fields, [micro_batch, shape...] each, updates the state, and gives the loss. Step i (from 0) reads samples
// i * global_batch to (i + 1) * global_batch - 1. Goes on from the newest checkpoint of the run; saves at the
// end, and when a signal asks for a stop. Prints loss and metrics, and at the end "step N: state HASH".
// Returns that hash. Collective. UserError from the compiler, and where the loss or the gradient norm is not
// finite: the last checkpoint is untouched then.
std::string train(Session& session, State& state, const SampleData& data,
                  const compiler::StepFunction& function, const TrainOptions& options = {});

}  // namespace lockstep
