// A model of any family trained for a task in one process.
#include "tests/support/model_run.h"

#include <cmath>
#include <mutex>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/models/families.h"
#include "core/nn/layers.h"
#include "core/nn/metric.h"
#include "core/nn/tuning.h"
#include "core/optim/adamw.h"
#include "distributed/local/local_world.h"

namespace lockstep::tests {

namespace {
uint32_t mix(uint32_t x) {
  x ^= x >> 16, x *= 0x7feb352du;
  x ^= x >> 15, x *= 0x846ca68bu;
  return x ^ x >> 16;
}
uint32_t bits(const std::string& name, int64_t i) {
  uint32_t salt = 2166136261u;
  for (const char c : name) salt = (salt ^ static_cast<unsigned char>(c)) * 16777619u;
  return mix(mix(salt) + static_cast<uint32_t>(i));
}

// Integers are below the model's classes, those that choose rows of tables below 3, segments and masks below
// 2; floats are in [0, 1), a binary target 0 or 1; a length is at least 1.
void fill_field(const models::Field& field, int64_t classes, int64_t step, int64_t first, int64_t count,
                void* to) {
  const int64_t each = numel(field.shape);
  const std::string name = step == 1 ? field.name : str(field.name, step);
  for (int64_t i = 0; i < count * each; ++i) {
    const int64_t at = first * each + i;
    if (field.dtype == DType::i32) {
      const auto below = static_cast<uint32_t>(field.name == "categories" ? 3 : field.zeros ? 2 : classes);
      static_cast<int32_t*>(to)[i] = static_cast<int32_t>(bits(name, at) % below) + (field.name == "lengths");
    } else {
      const double u = formula_unit(name, at);
      static_cast<float*>(to)[i] = static_cast<float>(field.name == "targets" ? (u > 0.5 ? 1 : 0) : u);
    }
  }
}

void fill_by_formula(State& state) {
  for (Array* array : state.arrays()) {
    if (array->fqn.rfind("optim.", 0) == 0) continue;
    for (int64_t i = 0; i < array->local_numel(); ++i)
      array->data.as<float>()[i] = formula_weight(array->fqn, array->shape, i);
    array->host_wrote();
  }
}
std::map<std::string, double> norms_of(State& state) {
  std::map<std::string, double> out;
  for (Array* array : state.arrays()) {
    if (array->fqn.rfind("optim.", 0) == 0) continue;
    double total = 0;
    for (int64_t i = 0; i < array->local_numel(); ++i)
      total += std::pow(static_cast<double>(array->data.as<float>()[i]), 2);
    out[array->fqn] = std::sqrt(total);
  }
  return out;
}

Gradients gradients(const State& state, const std::vector<tasks::Objective>& objectives) {
  Gradients all;
  for (const auto& objective : objectives) {
    std::vector<Parameter> mine;
    for (const Parameter& p : state.parameters())
      if (glob_match(objective.parameters, p.fqn())) mine.push_back(p);
    Gradients part = grad(objective.loss, mine);
    all.parameters.insert(all.parameters.end(), part.parameters.begin(), part.parameters.end());
    all.values.insert(all.values.end(), part.values.begin(), part.values.end());
  }
  return all;
}

ModelResult train_on(const ModelRun& run, LiveMesh& mesh) {
  State state(mesh, 7);
  state.zero(run.zero);
  state.compute_dtype(run.compute);
  const models::Family& family = models::family(run.kind);
  const models::Model model = models::build(state.root(), run.kind, run.options);
  if (run.lora) state.lora(*run.lora);
  state.place_by_default(model.placements);
  if (auto rules = adapter_placements(state); !rules.empty()) state.place_by_default(rules);
  const tasks::Task& task = tasks::task(run.task.empty() ? family.task : std::string_view(run.task));
  std::vector<models::Field> fields = model.inputs;
  if (run.objectives)
    fields.insert(fields.end(), run.fields.begin(), run.fields.end());
  else
    fields = task.fields(model, Json::object());
  std::vector<compiler::BatchField> batch;
  for (const auto& field : fields) {
    Shape shape = field.shape;
    shape.insert(shape.begin(), run.micro);
    batch.push_back({field.name, field.dtype, shape});
  }
  AdamW adamw(state / "optim", {.lr = 1e-2});
  compiler::CompileOptions options;
  options.backend = run.backend;
  options.extra_passes = run.passes;
  options.tp_pieces = run.tp_pieces;
  if (run.compute == DType::bf16) options.precision = "bf16";
  auto step = compile(
      state, batch, {run.global, run.micro, 0},
      [&](const std::vector<Tensor>& values) {
        Evaluation evaluation(run.evaluation);
        const tasks::Batch named(fields, values);
        auto objectives =
            run.objectives ? run.objectives(model, named) : task.objectives(model, named, Json::object());
        if (run.evaluation) return objectives[0].loss;
        Gradients all = gradients(state, objectives);
        if (run.formula)
          for (size_t i = 0; i < all.values.size(); ++i)
            metric("norm." + all.parameters[i].fqn(), sqrt(sum(all.values[i] * all.values[i])));
        adamw.update(all);
        return objectives[0].loss;
      },
      options);
  state.materialize();
  if (run.formula) fill_by_formula(state);
  ModelResult out;
  for (int64_t i = 1; i <= run.steps; ++i) {
    auto result = step.run({i, [&](int64_t first, int64_t count, const std::vector<void*>& to) {
                              for (size_t f = 0; f < fields.size(); ++f)
                                fill_field(fields[f], model.classes, i, first, count, to[f]);
                            }});
    out.losses.push_back(number_text(static_cast<float>(result.metrics.at("loss"))));
    if (i == 1)
      for (const auto& [name, value] : result.metrics) out.metrics[name] = value;
  }
  for (const Node& node : step.plan().body.nodes) out.pieces += node.attrs.flag("pieces");
  for (const Spec& spec : state.specs())
    if (spec.role != Role::moment) out.state[spec.fqn] = spec.shape;
  if (mesh.words.size() == 1) out.norms = norms_of(state);
  out.hash = state_hash(std::as_const(state).arrays(), mesh);
  return out;
}
}  // namespace

double formula_unit(const std::string& name, int64_t i) {
  return static_cast<double>(bits(name, i) >> 8) * 0x1p-24;
}
float formula_weight(const std::string& fqn, const Shape& shape, int64_t i) {
  const double v = formula_unit(fqn, i) - 0.5;
  auto ends = [&](std::string_view with) {
    return fqn.size() >= with.size() && fqn.compare(fqn.size() - with.size(), with.size(), with) == 0;
  };
  const int64_t rest = numel(shape) / shape[0];
  if (ends("running_mean") || (rest == 1 && fqn.find("bias") != std::string::npos))
    return static_cast<float>(0.4 * v);
  if (rest == 1) return static_cast<float>(1 + 0.4 * v);
  return static_cast<float>(3.4 * v / std::sqrt(static_cast<double>(rest)));
}

ModelResult train_model(const ModelRun& run) {
  std::mutex mutex;
  std::vector<ModelResult> results(static_cast<size_t>(run.mesh.size()));
  distributed::local_mesh(static_cast<int>(run.mesh.size()), run.mesh, [&](LiveMesh& mesh) {
    ModelResult mine = train_on(run, mesh);
    std::lock_guard guard(mutex);
    results[static_cast<size_t>(mesh.rank)] = std::move(mine);
  });
  for (const auto& result : results)
    if (result.losses != results[0].losses || result.hash != results[0].hash)
      throw InternalError("ranks report different losses or hashes");
  return results[0];
}

}  // namespace lockstep::tests
