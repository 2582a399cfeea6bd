// Chooses the micro-batch from a run's checkpoint or the step function.
#include "launcher/api/micro_batch.h"

#include <cstdlib>

#include "checkpoint/checkpoint.h"
#include "compiler/compile/micro_batch.h"
#include "core/base/error.h"
#include "core/mesh/together.h"

namespace lockstep {

namespace {
// The size in the run's newest checkpoint with this batch; 0: none.
int64_t remembered(const std::string& run, int64_t global) {
  try {
    const std::string newest = checkpoint::newest_checkpoint(run);
    if (newest.empty()) return 0;
    const Json extra = checkpoint::read_manifest(newest).extra;
    if (!extra.is_object() || !extra.contains("values")) return 0;
    const Json& values = extra["values"];
    const int64_t micro = values.value(kMicroBatch, int64_t{0});
    return values.value(kGlobalBatch, int64_t{0}) == global && micro > 0 && global % micro == 0 ? micro : 0;
  } catch (const std::exception&) { return 0; }  // the load reports the error
}
}  // namespace

TrainOptions with_micro_batch(const Session& session, const State& state, const SampleData& data,
                              const compiler::StepFunction& function, TrainOptions options) {
  if (options.micro_batch != 0 || options.global_batch < 1) {
    if (options.micro_batch == 0) options.micro_batch = 1;  // global_batch is refused elsewhere
    return options;
  }
  Group& world = *session.mesh().world;
  const std::string kept =
      session.planned() || world.size() == 1
          ? str(remembered(options.run, options.global_batch))
          : broadcast_text(world, world.rank() ? "" : str(remembered(options.run, options.global_batch)));
  options.micro_batch = std::atoll(kept.c_str());
  if (options.micro_batch > 0) return options;
  std::vector<compiler::BatchField> sample;
  for (const auto& field : data.fields) sample.push_back({field.name, field.dtype, field.shape});
  options.micro_batch = together(
      world, [&] { return compiler::default_micro_batch(state, sample, options.global_batch, function); });
  return options;
}

}  // namespace lockstep
