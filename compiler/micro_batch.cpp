// Micro-batches by what a step mixes.
#include "compiler/micro_batch.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "compiler/trace/mixing.h"
#include "core/base/error.h"
#include "core/base/log.h"

namespace lockstep::compiler {

namespace {
constexpr int64_t kShared = 4;    // micro-batches, at least, that ranks share
constexpr int64_t kSamples = 32;  // of one of them, at most

bool trains(const Graph& traced) {
  return std::any_of(traced.outputs.begin(), traced.outputs.end(),
                     [](const GraphOutput& output) { return output.kind == OutputKind::state; });
}
}  // namespace

int64_t largest_divisor(int64_t of, int64_t most) {
  int64_t out = std::clamp<int64_t>(most, 1, std::max<int64_t>(of, 1));
  while (of % out) --out;
  return out;
}

std::vector<BatchField> of_samples(std::vector<BatchField> sample, int64_t micro) {
  for (BatchField& field : sample) field.shape.insert(field.shape.begin(), micro);
  return sample;
}

int64_t default_micro_batch(const State& state, const std::vector<BatchField>& sample, int64_t global,
                            const StepFunction& function) {
  if (global < 1) throw UserError(str("batch.global is ", global, "; a step has at least 1 sample"));
  const Graph traced = trace(of_samples(sample, global), function, state.policy(), 1);
  if (const auto mixing = mixed_samples(traced); !mixing.empty()) {
    if (state.mesh().world->rank() == 0)
      logs::info(str(mixing[0].op, " at ", mixing[0].at.text(),
                     " mixes the samples of a batch: a micro-batch is the whole batch of ", global,
                     ", unless micro_batch says otherwise"));
    return global;
  }
  return largest_divisor(global, std::min(kSamples, std::max<int64_t>(1, global / kShared)));
}

void tell_mixed_samples(const State& state, const Graph& traced, const std::vector<BatchField>& batch,
                        int64_t global, int64_t micro, const StepFunction& function) {
  const bool tells = state.mesh().world->rank() == 0;
  if (micro >= global || !trains(traced) || (micro > 1 && !tells)) return;
  std::vector<Mixing> found;
  if (micro > 1) {
    found = mixed_samples(traced);
  } else {
    std::vector<BatchField> two = batch;
    for (BatchField& field : two) field.shape[0] = 2;
    try {
      found = mixed_samples(trace(two, function, state.policy(), global / micro));
    } catch (const PeerError&) { throw; } catch (const std::exception&) {
      return;
    }  // a function that is written for one sample mixes none
  }
  if (!tells) return;
  static std::mutex mutex;
  static std::set<std::string> told;
  std::lock_guard lock(mutex);
  std::vector<std::string> fresh;
  for (const Mixing& mixing : found)
    if (std::string what = str(mixing.op, " at ", mixing.at.text()); told.insert(what).second)
      fresh.push_back(std::move(what));
  if (fresh.empty()) return;
  const size_t more = fresh.size() - 1;
  logs::warn(str(fresh[0],
                 more == 0   ? " mixes"
                 : more == 1 ? " and another place mix"
                             : str(" and ", more, " other places mix"),
                 " the samples of a micro-batch, which has ", micro, " of the ", global,
                 " of a step: it sees no more of them at a time. A micro-batch of ", global,
                 " sees the whole batch, on one rank"));
}

}  // namespace lockstep::compiler
