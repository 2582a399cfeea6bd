// A model of any family trained for a task in one process, ranks as threads: what tests of models compare.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compile/compile.h"
#include "core/nn/lora.h"
#include "core/tasks/task.h"

namespace lockstep::tests {

using Objectives = std::function<std::vector<tasks::Objective>(const models::Model&, const tasks::Batch&)>;

struct ModelRun {
  std::string kind;
  Json options = Json::object();
  Mesh mesh{{1}, {"dp_replicate"}};
  int zero = 3;
  DType compute = DType::f32;
  compiler::Backend backend = compiler::Backend::native;
  int64_t global = 12, micro = 2, steps = 3;
  std::string task = {};  // none: the family's
  // In place of a task: these fields beside the model's inputs, this loss.
  std::vector<models::Field> fields = {};
  Objectives objectives = {};
  bool formula = false;     // state starts by formula_weight
  bool evaluation = false;  // nothing is updated
  std::optional<LoraOptions> lora = {};
  std::vector<std::string> passes = {};  // of one's own
  int64_t tp_pieces = 1;
};

struct ModelResult {
  std::vector<std::string> losses;        // one per step, shortest text
  std::map<std::string, double> metrics;  // of the first step; "norm.FQN" of each gradient
  std::map<std::string, Shape> state;     // parameters and buffers
  std::map<std::string, double> norms;    // of each of them at the end; on one rank
  std::string hash;
  int64_t pieces = 0;  // values of the body that are put together of pieces
};

// All ranks are checked to report the same; rank 0's result is returned.
ModelResult train_model(const ModelRun& run);

// Numbers that follow from a name and an index alone: tests/golden/models/make.py has the same formulas.
double formula_unit(const std::string& name, int64_t i);  // in [0, 1), a multiple of 2^-24
float formula_weight(const std::string& fqn, const Shape& shape, int64_t i);

}  // namespace lockstep::tests
