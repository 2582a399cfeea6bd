// FunctionWorkload: builds batches of samples by number.
#include "launcher/api/function_workload.h"

#include <algorithm>
#include <filesystem>

#include "checkpoint/initial_weights.h"
#include "compiler/compile/micro_batch.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/mesh/fingerprint.h"
#include "core/mesh/together.h"
#include "core/nn/layers.h"
#include "launcher/api/micro_batch.h"
#include "launcher/api/option_words.h"
#include "launcher/api/planned_session.h"
#include "launcher/config/changes.h"
#include "launcher/supervise/folders/run.h"

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
// The data's own identity, else the first samples of a step.
FingerprintPart data_part(const char* name, const SampleData& data, int64_t samples) {
  constexpr int64_t kMost = 8;
  FingerprintPart part{
      name, {}, "give every rank the same data: the same files, and draws of one seed", true};
  if (data.contents) {
    part.lines = data.contents();
    return part;
  }
  std::vector<std::vector<std::byte>> held;
  std::vector<void*> at;
  for (const auto& field : data.fields) {
    held.emplace_back(static_cast<size_t>(numel(field.shape)) * size_of(field.dtype));
    at.push_back(held.back().data());
  }
  for (int64_t i = 0; i < std::min(samples, kMost); ++i) {
    data.fill(i, at);
    for (size_t f = 0; f < held.size(); ++f)
      part.lines.push_back({str("field \"", data.fields[f].name, "\" of sample ", i),
                            hash_hex(held[f].data(), held[f].size())});
  }
  return part;
}
auto namer(const SampleData& data, int64_t from) {
  return [&data, from](int64_t sample) {
    return data.name ? data.name(from + sample) : str("sample ", from + sample, " of the data");
  };
}
std::vector<BatchField> batch_fields(const SampleData& data, int64_t micro_batch) {
  std::vector<BatchField> fields;
  for (const auto& field : data.fields) fields.push_back({field.name, field.dtype, field.shape});
  return of_samples(std::move(fields), micro_batch);
}
// Training on validation samples would make the measurement worthless.
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
// Traced in evaluation mode.
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
                                   const StepFunction& function, const TrainOptions& options,
                                   const std::string& precision)
    : session_(session), state_(state), data_(data), function_(function), options_(options) {
  how_.precision = precision;
  each_train_option([&](const char*, const char*, [[maybe_unused]] auto of, auto... to) {
    ((how_.*to = options.*of), ...);
  });
  if (options.memory_budget < 0) how_.memory_budget = kRecomputeNothing;
}

Step FunctionWorkload::compile_training() {
  Step out = compile(state_, batch_fields(data_, options_.micro_batch), shape(), function_, how_);
  tell_no_update(out, state_);
  return out;
}

// Each rank reads its own samples of data that must be equal on all ranks. A rank that generated data without
// a seed would have other samples.
void FunctionWorkload::check() {
  if (mesh().world->size() < 2) return;
  const auto parts = together(*mesh().world, [&] {
    std::vector<FingerprintPart> out{data_part("data", data_, options_.global_batch)};
    if (const auto& asked = options_.validation)
      out.push_back(data_part("data of the validation", asked->data, asked->samples));
    return out;
  });
  compare(*mesh().world, "before the training step is compiled", parts);
}

std::unique_ptr<Step> FunctionWorkload::compile_evaluation(const Step& training) {
  if (!options_.validation) return nullptr;
  const Validation& asked = *options_.validation;
  return std::make_unique<Step>(compile(state_, batch_fields(asked.data, evaluation_shape().micro),
                                        evaluation_shape(), measuring(asked.function), how_, &training));
}

// Whole micro-batches of at most the training's size.
BatchShape FunctionWorkload::evaluation_shape() const {
  const int64_t samples = options_.validation->samples;
  return {samples, largest_divisor(samples, options_.micro_batch), 0};
}

void FunctionWorkload::plan(const PlannedSession& planned) {
  const Mesh& words = state_.mesh().words;
  const StepPlan step =
      plan_step(state_, words, batch_fields(data_, options_.micro_batch), shape(), function_, how_);
  if (!options_.validation) planned.answer(step, nullptr, state_);
  const Validation& asked = *options_.validation;
  const StepPlan evaluation = plan_step(state_, words, batch_fields(asked.data, evaluation_shape().micro),
                                        evaluation_shape(), measuring(asked.function), how_);
  planned.answer(step, &evaluation, state_);
}

void FunctionWorkload::tell_changes(const checkpoint::LoadedInfo& loaded, const std::string& certificate) {
  if (rank() != 0) return;
  tell_values(loaded);
  if (loaded.certificate.empty() || loaded.certificate == certificate) return;
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

// Facts of a program that the certificate lacks or does not name: the optimizers' numbers, and how samples
// form steps.
Json FunctionWorkload::values(int64_t i) const {
  Json out = {{kGlobalBatch, options_.global_batch},
              {kMicroBatch, options_.micro_batch},
              {"lanes", options_.lanes},
              {"precision", how_.precision},
              {"seed", state_.seed()}};
  for (const auto& [name, value] : contents()) out[name] = value;
  for (const auto& [name, value] : state_.scalars(std::max<int64_t>(i, 1))) out[name] = value;
  if (const Json adapters = checkpoint::adapters_of(state_); !adapters.is_null())
    out["lora.scale"] = adapters["scale"];
  return out;
}
// For arrays, which are read completely, computed only once.
const std::vector<std::pair<std::string, std::string>>& FunctionWorkload::contents() const {
  if (!contents_) {
    contents_.emplace();
    if (data_.contents)
      for (const auto& [key, value] : data_.contents()) contents_->push_back({"data: " + key, value});
    if (options_.validation && options_.validation->data.contents)
      for (const auto& [key, value] : options_.validation->data.contents())
        contents_->push_back({"validation: " + key, value});
  }
  return *contents_;
}
void FunctionWorkload::tell_values(const checkpoint::LoadedInfo& loaded) const {
  if (!loaded.extra.is_object() || !loaded.extra.contains("values")) return;
  const Json& was = loaded.extra["values"];
  const std::string from = str(" from step ", loaded.step + 1, " on");
  std::vector<launcher::ConfigChange> changes;
  const Json now = values(loaded.step);
  for (const auto& [name, is] : now.items()) {
    if (!was.is_object() || !was.contains(name) || was[name] == is) continue;
    const bool rate = name.ends_with(".lr"), adapters = name == "lora.scale", seed = name == "seed",
               samples = name == kGlobalBatch || name.starts_with("data: "),
               measures = name.starts_with("validation: "),
               rounding = name == kMicroBatch || name == "lanes" || name == "precision";
    changes.push_back({name, was[name], is, launcher::Effect::schedule,
                       (rate       ? "another learning rate"
                        : adapters ? "another function of the same adapters"
                        : samples  ? "other samples"
                        : seed     ? "other random numbers"
                        : measures ? "another validation"
                        : rounding ? "other rounding"
                                   : "other updates of the same gradients") +
                           from});
  }
  if (!changes.empty())
    logs::warn(str("the program is not that of the checkpoint: ", changes.size(),
                   changes.size() == 1 ? " value differs" : " values differ", "\n",
                   launcher::changes_table(changes)));
}

Json FunctionWorkload::remembered(int64_t i) {
  Json out = {{"library", target().library_version()}, {"values", values(i)}};
  if (const Json adapters = checkpoint::adapters_of(state_); !adapters.is_null())
    out[checkpoint::kAdapters] = adapters;
  return out;
}

StepInput FunctionWorkload::input(int64_t i, bool more, bool vote) {
  const int64_t from = (i - 1) * options_.global_batch;
  StepInput out{.step = i, .fill = filler(data_, from), .vote = vote ? 1 : 0, .name = namer(data_, from)};
  if (more) out.fill_next = filler(data_, i * options_.global_batch);
  return out;
}

StepInput FunctionWorkload::evaluation_input(int64_t i) {
  const SampleData& data = options_.validation->data;
  return {.step = i, .fill = filler(data, 0), .name = namer(data, 0)};
}

void FunctionWorkload::measured(int64_t i, const std::map<std::string, double>& validation) {
  const Validation& asked = *options_.validation;
  if (asked.measured && asked.every > 0 && i % asked.every == 0) asked.measured(validation);
}

bool FunctionWorkload::follows_validations() const {
  return options_.validation && options_.validation->measured && options_.validation->every > 0;
}

std::string FunctionWorkload::in_words(const std::string& text) const { return in_options(text); }

}  // namespace lockstep
