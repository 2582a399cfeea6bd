// Batches of samples by their numbers.
#include "launcher/api/function_workload.h"

#include <filesystem>

#include "core/base/log.h"
#include "core/nn/layers.h"
#include "launcher/api/planned_session.h"
#include "launcher/api/train_config.h"
#include "launcher/supervise/run_folder.h"

namespace lockstep {

using namespace compiler;

namespace {
// Samples `from`, `from` + 1, ... of the data.
auto filler(const SampleData& data, int64_t from) {
  std::vector<size_t> bytes;
  for (const auto& field : data.fields)
    bytes.push_back(static_cast<size_t>(numel(field.shape)) * size_of(field.dtype));
  return [&data, bytes, from](int64_t first, int64_t count, const std::vector<void*>& fields) {
    for (int64_t k = 0; k < count; ++k) {
      std::vector<void*> at;
      for (size_t f = 0; f < fields.size(); ++f)
        at.push_back(static_cast<char*>(fields[f]) + static_cast<size_t>(k) * bytes[f]);
      data.fill(from + first + k, at);
    }
  };
}
std::vector<BatchField> batch_fields(const SampleData& data, int64_t micro_batch) {
  std::vector<BatchField> fields;
  for (const auto& field : data.fields) {
    Shape shape = field.shape;
    shape.insert(shape.begin(), micro_batch);
    fields.push_back({field.name, field.dtype, shape});
  }
  return fields;
}
// Training on what is measured would make the measure worthless.
void refuse_updates(const std::vector<Tensor>& batch) {
  std::vector<std::string> names;
  if (!batch.empty())
    for (const auto& output : batch[0].builder()->graph.outputs)
      if (output.kind == OutputKind::state) names.push_back(output.name);
  if (names.empty()) return;
  throw UserError(str("[train] the function of the validation updates \"", names[0], "\"",
                      names.size() > 1 ? str(" and ", names.size() - 1, " more") : std::string(),
                      ": it would train on what it measures; leave optimizer and assign out of it"));
}
// As it is traced for an evaluation.
StepFunction measuring(const StepFunction& function) {
  return [function](const std::vector<Tensor>& batch) {
    Evaluation evaluation;
    auto measured = function(batch);
    refuse_updates(batch);
    return measured;
  };
}
}  // namespace

FunctionWorkload::FunctionWorkload(const Session& session, State& state, const SampleData& data,
                                   const StepFunction& function, const TrainOptions& options)
    : session_(session), state_(state), data_(data), function_(function), options_(options) {
  how_.precision = session.precision();
}

Step FunctionWorkload::compile_training() {
  return compile(state_, batch_fields(data_, options_.micro_batch), shape(), function_, how_);
}

std::unique_ptr<Step> FunctionWorkload::compile_evaluation() {
  if (!options_.validation) return nullptr;
  const Validation& asked = *options_.validation;
  return std::make_unique<Step>(compile(state_, batch_fields(asked.data, options_.micro_batch),
                                        evaluation_shape(), measuring(asked.function), how_));
}

void FunctionWorkload::plan(const PlannedSession& planned) {
  const Mesh& words = state_.mesh().words;
  const StepPlan step =
      plan_step(state_, words, batch_fields(data_, options_.micro_batch), shape(), function_, how_);
  if (!options_.validation) planned.answer(step, nullptr, state_);
  const Validation& asked = *options_.validation;
  const StepPlan evaluation = plan_step(state_, words, batch_fields(asked.data, options_.micro_batch),
                                        evaluation_shape(), measuring(asked.function), how_);
  planned.answer(step, &evaluation, state_);
}

void FunctionWorkload::tell_changes(const checkpoint::LoadedInfo& loaded, const std::string& certificate) {
  if (rank() != 0 || loaded.certificate.empty() || loaded.certificate == certificate) return;
  logs::warn(str("bits may change at step ", loaded.step + 1, ": the checkpoint was made with certificate ",
                 loaded.certificate, ", this run has ", certificate,
                 " (another function, batch, precision, library or other kernels)"));
}

void FunctionWorkload::describe(const std::string& run_dir) {
  const Json program = {{"command", session_.command()},
                        {"folder", std::filesystem::current_path().string()}};
  launcher::write_whole(run_dir + "/program.json",
                        program.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Json FunctionWorkload::remembered() { return {{"library", target().library_version()}}; }

StepInput FunctionWorkload::input(int64_t i, bool more, bool vote) {
  StepInput out{i, filler(data_, (i - 1) * options_.global_batch), vote ? 1 : 0};
  if (more) out.fill_next = filler(data_, i * options_.global_batch);
  return out;
}

std::map<std::string, double> FunctionWorkload::evaluate(Step& evaluation, int64_t i) {
  return evaluation.run({i, filler(options_.validation->data, 0)}).metrics;
}

void FunctionWorkload::measured(int64_t i, const std::map<std::string, double>& validation) {
  const Validation& asked = *options_.validation;
  if (asked.measured && asked.every > 0 && i % asked.every == 0) asked.measured(validation);
}

bool FunctionWorkload::follows_validations() const {
  return options_.validation && options_.validation->measured && options_.validation->every > 0;
}

std::string FunctionWorkload::shown(const StepResult& step) const {
  std::vector<std::string> out;
  for (const auto& [name, value] : step.metrics)
    if (name != "loss" && name != "tokens")
      out.push_back(str(name, " ", number_text(static_cast<float>(value))));
  return join(out, "  ");
}

std::string FunctionWorkload::in_words(const std::string& text) const { return in_options(text); }

}  // namespace lockstep
