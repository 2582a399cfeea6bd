// Chooses micro-batches by how a step mixes its samples.
#include "compiler/compile/micro_batch.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>

#include "compiler/trace/mixing.h"
#include "core/base/error.h"
#include "core/base/log.h"

namespace lockstep::compiler {

namespace {
constexpr int64_t kShared = 4;    // the least number of micro-batches, for ranks to share
constexpr int64_t kSamples = 32;  // the most samples of a micro-batch

bool trains(const Graph& traced) {
  return std::any_of(traced.outputs.begin(), traced.outputs.end(),
                     [](const GraphOutput& output) { return output.kind == OutputKind::state; });
}
// Traces on this many samples; none if the function refuses them.
std::optional<Graph> trace_if_taken(const State& state, std::vector<BatchField> batch, int64_t samples,
                                    int64_t micro_batches, const StepFunction& function) {
  for (BatchField& field : batch) field.shape[0] = samples;
  try {
    return trace(batch, function, state.policy(), micro_batches);
  } catch (const PeerError&) { throw; } catch (const std::exception&) {
    return {};
  }
}
// At least two, because one sample shows no mixing.
constexpr int64_t shown(int64_t micro) { return std::max<int64_t>(micro, 2); }
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
  const int64_t micro = largest_divisor(global, std::min(kSamples, std::max<int64_t>(1, global / kShared)));
  const auto batch = of_samples(sample, global);
  const Graph whole = trace(batch, function, state.policy(), 1);
  if (micro == global) return global;
  const auto tell = [&](const std::string& why) {
    if (state.mesh().world->rank() == 0)
      logs::info(
          str(why, ": a micro-batch is the whole batch of ", global, ", unless micro_batch says otherwise"));
    return global;
  };
  const auto some = trace_if_taken(state, batch, shown(micro), 1, function);
  if (!some) return tell(str("the step function refuses ", shown(micro), " samples"));
  const auto beside = global > 2 ? std::optional(whole) : trace_if_taken(state, batch, 4, 1, function);
  const auto mixing = beside ? mixed_samples(*some, *beside) : std::vector<Mixing>();
  if (mixing.empty()) return micro;
  return tell(str(mixing[0].op, " at ", mixing[0].at.text(), " ", verb(mixing[0].change), " a batch"));
}

void tell_mixed_samples(const State& state, const Graph& traced, const std::vector<BatchField>& batch,
                        int64_t global, int64_t micro, const StepFunction& function) {
  if (micro >= global || !trains(traced)) return;
  const auto again = [&](int64_t samples) {
    return trace_if_taken(state, batch, samples, global / micro, function);
  };
  const auto some = micro > 1 ? std::optional(traced) : again(2);
  const auto whole = some ? again(global > 2 ? global : 4) : std::nullopt;
  if (!whole || state.mesh().world->rank() != 0) return;
  const std::vector<Mixing> found = mixed_samples(*some, *whole);
  static std::mutex mutex;
  static std::set<std::string> told;
  std::lock_guard lock(mutex);
  const Mixing* first = nullptr;
  size_t more = 0;
  for (const Mixing& mixing : found)
    if (told.insert(str(mixing.op, " at ", mixing.at.text())).second)
      first ? void(++more) : void(first = &mixing);
  if (!first) return;
  const std::string others =
      more == 0 ? "" : str(", as ", more, more == 1 ? " other place does" : " other places do");
  const char* follows = first->change == Change::samples ? "it sees no more of them at a time"
                                                         : "the step computes something else on it";
  logs::warn(str(first->op, " at ", first->at.text(), " ", verb(first->change), " a micro-batch", others,
                 ", which has ", micro, " of the ", global, " of a step: ", follows, ". A micro-batch of ",
                 global, " sees the whole batch, on one rank"));
}

}  // namespace lockstep::compiler
