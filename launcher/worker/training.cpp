// ConfigTraining: feeds steps and evaluations, initializes weights, and checks device memory.
#include "launcher/worker/training.h"

#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "checkpoint/initial_weights.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/mesh/together.h"
#include "launcher/config/changes.h"
#include "launcher/data/kinds/open_samples.h"
#include "launcher/data/tokenizer/stop.h"
#include "launcher/hf/import.h"
#include "launcher/machine/run_device.h"
#include "launcher/plan/predict.h"
#include "launcher/supervise/folders/run.h"
#include "launcher/trainer/dry_run.h"
#include "launcher/trainer/fingerprint.h"
#include "launcher/trainer/host_check.h"
#include "launcher/trainer/model.h"
#include "launcher/worker/resume_changes.h"

namespace lockstep::launcher {

Training::Training(const RunConfig& config, const WorkerPlace& at, std::shared_ptr<distributed::World> world,
                   const std::string& device)
    : config_(config),
      at_(at),
      world_(std::move(world)),
      live_(open_mesh(world_, config, at)),
      target_(open_device(live_, device, at.local_rank, at.local_world_size)),
      state_(live_, static_cast<uint64_t>(config.train.seed)),
      trainer_(config, at.local_world_size, state_, target_),
      data_(together(*live_.world, [&]() -> std::unique_ptr<data::Samples> {
        try {
          return data::open_samples(data_options(config), trainer_.sample_fields());
        } catch (const data::Stopped&) { return nullptr; }
      })) {
  stop_together(!data_);
  if (live_.world->size() > 1)
    compare(*live_.world, "before step 1", {libraries_part(target_), data_part(*data_)});
}

// One rank was asked to stop while it read data, so all stop.
void Training::stop_together(bool stopped) {
  try {
    agree(*live_.world, stopped ? "stopped" : "");
  } catch (const UserError&) { throw data::Stopped(); }
}

const models::Field* Training::masked_field() const {
  for (const auto& field : trainer_.sample())
    if (field.name == "targets" && field.dtype == DType::i32) return &field;
  return nullptr;
}

void Training::check_validation() {
  constexpr int64_t kBytes = int64_t{1} << 20;  // block size for reading samples
  int64_t sample = 1;
  for (const auto& field : trainer_.sample()) sample += bytes_of(field.dtype, field.shape);
  const int64_t all = validation_sequences(),
                block = std::clamp<int64_t>(kBytes / sample, 1, std::max<int64_t>(1, all));
  bool stopped = false;
  together(*live_.world, [&] {
    std::vector<std::vector<std::byte>> rows;
    std::vector<void*> fields;
    for (const auto& field : trainer_.sample())
      fields.push_back(
          rows.emplace_back(static_cast<size_t>(block * numel(field.shape)) * size_of(field.dtype)).data());
    try {
      for (int64_t i = 0; i < all; i += block, data::check_stop())
        data_->fill_validation(i, std::min(block, all - i), fields);
    } catch (const data::Stopped&) { stopped = true; }
  });
  stop_together(stopped);
}

void Training::check_memory(bool evaluates) {
  const int64_t sequences = evaluates ? validation_sequences() : 0;
  Device& device = target_.device();
  if (trainer_.options().backend == compiler::Backend::reference) return;
  if (device.addressable()) {
    std::string refused;
    try {
      refused = check_host_memory(config_, state_, trainer_, sequences, at_);
    } catch (const UserError& error) { refused = error.what(); }
    return agree(*live_.world, refused);
  }
  std::string refused;
  try {
    // The plans inspected here are compiled afterwards. Kernels of both compile while libraries are planned.
    const compiler::StepPlan& training = trainer_.begin_training();
    const compiler::StepPlan* measured = sequences > 0 ? &trainer_.begin_evaluation(sequences) : nullptr;
    const PaperStep step(training, live_);
    std::optional<PaperStep> evaluation;
    if (measured) evaluation.emplace(*measured, live_);
    LibraryBounds bounds = library_bounds(config_, target_);
    bounds.context = 0;  // taken already
    MemoryNeeds needs = device_needs(config_, state_, step, evaluation ? &*evaluation : nullptr, bounds);
    const int64_t free = device.memory_info().free;
    const std::string table = memory_table(needs, free, "free on the device");
    if (needs.exact() > free) {
      auto fit = nearest_config(config_, live_.words.size(), target_, sequences, bounds, free);
      refused = does_not_fit(config_.name, config_.batch.micro, live_.words.size(), needs, free, fit) + "\n" +
                table;
      refused.pop_back();
    } else if (needs.total() > free) {
      logs::warn(str("memory may run out on the device of rank ", rank(), ":\n", table));
    }
    if (refused.empty() && at_.local_rank == 0)
      refused = offloaded_does_not_fit_host(config_.name, at_.local_world_size, needs, host_memory());
  } catch (const UserError& error) { refused = error.what(); }
  agree(*live_.world, refused);
}

std::unique_ptr<compiler::Step> Training::compile_evaluation(const compiler::Step& training) {
  const int64_t sequences = validation_sequences();
  if (sequences == 0 && data_->validation() > 0 && rank() == 0)
    logs::warn(str("data.validation keeps ", data_->validation(),
                   data_->validation() == 1 ? " sample" : " samples",
                   ", fewer than a micro-batch (batch.micro is ", config_.batch.micro,
                   "): there will be no validation; keep more"));
  auto out = sequences ? std::make_unique<compiler::Step>(trainer_.compile_evaluation(sequences, &training))
                       : nullptr;
  trainer_.check_followed(out.get());
  return out;
}

void Training::start_state() {
  state_.materialize();
  if (config_.train.init_from.empty()) {
    if (rank() == 0 && (config_.train.lora.rank > 0 || !config_.train.freeze.empty()))
      logs::warn(str(config_.train.lora.rank > 0 ? "train.lora.rank" : "train.freeze",
                     " leaves weights as they are, and these are random: name what is to be tuned, as in "
                     "--train.init_from=runs/NAME"));
    return;
  }
  hf::load_initial(config_.train.init_from, config_, state_);
}

bool Training::is_import(const std::string& step_dir) const {
  const bool import = together(*live_.world, [&] {
    try {
      const auto manifest = checkpoint::read_manifest(step_dir);
      return manifest.step == 0 && manifest.certificate.empty();
    } catch (const UserError&) { return false; }  // the load reports the error
  });
  return broadcast_text(*live_.world, import ? "import" : "") == "import";
}

void Training::load_import(const std::string& step_dir) {
  together(*live_.world, [&] {
    std::vector<ConfigChange> changes;  // the trained part of the model is chosen now
    for (const auto& change : config_changes(checkpoint::read_manifest(step_dir).config, config_, 0, false))
      if (!change.path.starts_with("train.")) changes.push_back(change);
    if (const std::string refused = other_model_error(changes, config_, step_dir); !refused.empty())
      throw UserError(refused);
  });
  state_.materialize();
  for (const auto& line : together(*live_.world, [&] {
                            return checkpoint::InitialWeights({step_dir, true}, state_, {}, "the model");
                          }).load(state_))
    logs::info(line);
}

compiler::StepInput Training::input(int64_t i, bool more, bool vote) {
  auto filler = [&](int64_t of) {
    return [this, of](int64_t first, int64_t count, const std::vector<void*>& fields) {
      data_->fill(of - 1, config_.batch.global, first, count, fields);
    };
  };
  compiler::StepInput out{i, filler(i), vote ? 1 : 0};
  out.name = [this, i](int64_t sample) { return data_->name(i - 1, config_.batch.global, sample); };
  if (more) out.fill_next = filler(i + 1);
  return out;
}

compiler::StepInput Training::evaluation_input(int64_t i) {
  const int64_t sequences = validation_sequences();
  auto fill = [this, sequences](int64_t first, int64_t count, const std::vector<void*>& fields) {
    const auto& sample = trainer_.sample();
    const int64_t real = std::clamp<int64_t>(sequences - first, 0, count);
    if (real) data_->fill_validation(first, real, fields);
    for (size_t f = 0; f < sample.size(); ++f) {
      const int64_t row = numel(sample[f].shape);
      if (real == count) break;
      LS_CHECK(sample[f].dtype == DType::i32, "an evaluation of a part of a micro-batch");
      std::fill(static_cast<int32_t*>(fields[f]) + real * row, static_cast<int32_t*>(fields[f]) + count * row,
                &sample[f] == masked_field() ? static_cast<int32_t>(kIgnoreIndex) : 0);
    }
  };
  auto name = [this](int64_t sample) { return data_->validation_name(sample); };
  return {.step = i, .fill = fill, .name = name};
}

int64_t Training::read_in(const compiler::StepResult& step) const {
  return pace_unit() == "tokens" ? static_cast<int64_t>(step.metrics.at("tokens")) : config_.batch.global;
}
int64_t Training::planned_units() const { return units_of_step(config_).second; }

void Training::check() {
  check_validation();
  check_memory();
}

void Training::describe(const std::string& run_dir) {
  write_whole(run_dir + "/config.json", config_text(config_));
}

bool Training::only_checkpoint_is(const std::string& checkpoints, const std::string& folder) const {
  const std::string found = together(*live_.world, [&] {
    const auto all = checkpoint::list_checkpoints(checkpoints);
    return all.size() == 1 ? all[0].path : std::string();
  });
  return broadcast_text(*live_.world, found) == folder;
}

bool Training::start_from_import(const std::string& checkpoints) {
  const std::string first = checkpoints + "/step-0";
  return only_checkpoint_is(checkpoints, first) && start_from_weights(first);
}

bool Training::start_from_weights(const std::string& step_dir) {
  if (!is_import(step_dir)) return false;
  load_import(step_dir);
  return true;
}

void Training::tell_changes(const checkpoint::LoadedInfo& loaded, const std::string& certificate) {
  launcher::tell_changes(loaded, config_, *data_, certificate, rank() == 0);
  if (!config_.train.init_from.empty())
    logs::info("train.init_from is ignored: the run folder holds a checkpoint");
}

Json Training::remembered(int64_t) {
  if (rank() == 0) tell_rewritten(*data_, rewritten_);
  return launcher::remembered(*data_, target_.library_version());
}

}  // namespace lockstep::launcher
