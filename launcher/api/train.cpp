// The loop around a step of a user's own.
#include "launcher/api/train.h"

#include <chrono>
#include <cmath>
#include <memory>

#include "checkpoint/checkpoint.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/nn/layers.h"
#include "distributed/watch/flight_record.h"
#include "launcher/report/metrics.h"
#include "launcher/trainer/options.h"

namespace lockstep {

using namespace compiler;

namespace {
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

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
StepInput input_of(const SampleData& data, const TrainOptions& options, int64_t done, bool vote) {
  StepInput out{done + 1, filler(data, done * options.global_batch), vote ? 1 : 0};
  if (done + 1 < options.steps) out.fill_next = filler(data, (done + 1) * options.global_batch);
  return out;
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

std::unique_ptr<Step> compile_validation(State& state, const TrainOptions& options,
                                         const CompileOptions& how) {
  if (!options.validation) return nullptr;
  const Validation& asked = *options.validation;
  if (asked.samples < 1 || asked.samples % options.micro_batch != 0)
    throw UserError(str("validation.samples is ", asked.samples, ", and a micro-batch has ",
                        options.micro_batch, ": take a multiple of it, 1 time and more"));
  if (asked.every < 0) throw UserError(str("validation.every is ", asked.every, ", needs 0 or more steps"));
  return std::make_unique<Step>(compile(
      state, batch_fields(asked.data, options.micro_batch), {asked.samples, options.micro_batch, 0},
      [function = asked.function](const std::vector<Tensor>& batch) {
        Evaluation evaluation;
        return function(batch);
      },
      how));
}

launcher::MetricsRow row_of(int64_t step, const std::map<std::string, double>& metrics) {
  launcher::MetricsRow row(step);
  for (const auto& [name, value] : metrics) row.add(name, static_cast<float>(value));
  return row;
}
}  // namespace

// Steps in a row that a loss scale may need to become small enough.
constexpr int64_t kScaled = 10;

std::string train(Session& session, State& state, const SampleData& data, const StepFunction& function,
                  const TrainOptions& options) {
  const std::string folder = options.run + "/ckpt";
  CompileOptions how;
  how.precision = session.precision();
  state.compute_dtype(launcher::dtype_of_precision(how.precision));
  distributed::enter_pace(Pace::start);
  Step step = compile(state, batch_fields(data, options.micro_batch),
                      {options.global_batch, options.micro_batch, options.lanes}, function, how);
  const auto evaluation = compile_validation(state, options, how);
  const LiveMesh& mesh = session.mesh();
  std::shared_ptr<checkpoint::FolderLock> lock;
  std::string refused;
  if (session.rank() == 0) {
    try {
      lock = checkpoint::lock_checkpoints(folder);
    } catch (const UserError& error) { refused = error.what(); }
  }
  agree(*mesh.world, refused);
  auto loaded = checkpoint::load_latest(folder, state.arrays(), mesh);
  if (!loaded) state.materialize();
  int64_t done = loaded ? loaded->step : 0;
  if (loaded && session.rank() == 0)
    logs::info(str("resumed from ", loaded->path, " (step ", done, ", state ", loaded->state_hash, ")",
                   done >= options.steps ? str("; nothing to do: it is step ", done, " of ", options.steps,
                                               ", raise steps to go on")
                                         : ""));
  std::unique_ptr<launcher::MetricsWriter> writer;
  if (session.rank() == 0)
    writer = std::make_unique<launcher::MetricsWriter>(options.run + "/metrics.jsonl", done);
  auto save = [&] {
    distributed::enter_pace(Pace::start);
    checkpoint::save_checkpoint(folder, {done, Json::object(), step.certificate(), Json::object()},
                                std::as_const(state).arrays(), mesh, static_cast<int>(options.keep));
  };
  bool stopped = false;
  int64_t passed_over = 0;  // steps in a row
  while (done < options.steps && !stopped) {
    const double began = now();
    const StepResult result = step.run(input_of(data, options, done, session.stop_requested()));
    const auto loss = static_cast<float>(result.metrics.at("loss"));
    passed_over = result.applied ? 0 : passed_over + 1;
    if (passed_over > (state.compute_dtype() == DType::f16 ? kScaled : 0))
      throw UserError(
          str("step ", done + 1, ": the loss is ", number_text(loss),
              ", or its gradient is not finite; the update was not made, and the last checkpoint is "
              "untouched. Lower the learning rate, or clip the gradients"));
    ++done;
    stopped = result.votes > 0;
    const bool told = done == 1 || done == options.steps || stopped || done % options.report_every == 0;
    const double seconds = now() - began;
    std::map<std::string, double> metrics = result.metrics;
    const bool last = done == options.steps || stopped;
    const bool measured =
        evaluation && (last || (options.validation->every > 0 && done % options.validation->every == 0));
    if (measured) {
      const auto found = evaluation->run({done, filler(options.validation->data, 0)}).metrics;
      for (const auto& [name, value] : found)
        if (name != "tokens") metrics["val_" + name] = value;
      const int64_t every = options.validation->every;
      if (options.validation->measured && every > 0 && done % every == 0) options.validation->measured(found);
    }
    session.progress(done, told || measured ? metrics : std::map<std::string, double>{});
    if (writer && (told || measured)) {
      launcher::MetricsRow row = row_of(done, metrics);
      row.add("step_ms", static_cast<float>(seconds * 1e3));
      row.add("samples_per_s", static_cast<float>(static_cast<double>(options.global_batch) / seconds));
      writer->write(row);
    }
    if (done == options.steps || stopped || (options.save_every > 0 && done % options.save_every == 0))
      save();
  }
  if (stopped && done < options.steps && session.rank() == 0)
    logs::info(str("stopped on request after step ", done, "; saved in ", folder,
                   "; the same command goes on from there"));
  const std::string hash = state_hash(std::as_const(state).arrays(), mesh);
  if (session.rank() == 0) {
    std::printf("step %lld: state %s\n", static_cast<long long>(done), hash.c_str());
    std::fflush(stdout);
  }
  return hash;
}

}  // namespace lockstep
