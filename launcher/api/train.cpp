// The loop around a step of a user's own.
#include "launcher/api/train.h"

#include <cmath>
#include <memory>

#include "checkpoint/checkpoint.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "distributed/watch/flight_record.h"
#include "launcher/report/metrics.h"
#include "launcher/trainer/options.h"

namespace lockstep {

using namespace compiler;

namespace {
StepInput input_of(const SampleData& data, const TrainOptions& options, int64_t done, bool vote) {
  std::vector<size_t> bytes;
  for (const auto& field : data.fields)
    bytes.push_back(static_cast<size_t>(numel(field.shape)) * size_of(field.dtype));
  auto filler = [&data, bytes, global = options.global_batch](int64_t step) {
    return
        [&data, bytes, from = step * global](int64_t first, int64_t count, const std::vector<void*>& fields) {
          for (int64_t k = 0; k < count; ++k) {
            std::vector<void*> at;
            for (size_t f = 0; f < fields.size(); ++f)
              at.push_back(static_cast<char*>(fields[f]) + static_cast<size_t>(k) * bytes[f]);
            data.fill(from + first + k, at);
          }
        };
  };
  StepInput out{done + 1, filler(done), vote ? 1 : 0};
  if (done + 1 < options.steps) out.fill_next = filler(done + 1);
  return out;
}

launcher::MetricsRow row_of(int64_t step, const StepResult& result) {
  launcher::MetricsRow row(step);
  for (const auto& [name, value] : result.metrics) row.add(name, static_cast<float>(value));
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
  std::vector<BatchField> fields;
  for (const auto& field : data.fields) {
    Shape shape = field.shape;
    shape.insert(shape.begin(), options.micro_batch);
    fields.push_back({field.name, field.dtype, shape});
  }
  distributed::enter_pace(Pace::start);
  Step step =
      compile(state, fields, {options.global_batch, options.micro_batch, options.lanes}, function, how);
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
    session.progress(done, told ? result.metrics : std::map<std::string, double>{});
    if (writer && told) writer->write(row_of(done, result));
    if (done == options.steps || stopped || (options.save_every > 0 && done % options.save_every == 0))
      save();
  }
  const std::string hash = state_hash(std::as_const(state).arrays(), mesh);
  if (session.rank() == 0) {
    std::printf("step %lld: state %s\n", static_cast<long long>(done), hash.c_str());
    std::fflush(stdout);
  }
  return hash;
}

}  // namespace lockstep
