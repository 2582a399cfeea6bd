// Searches the levels of recomputation for the cheapest one whose arena fits.
#include "compiler/compile/memory_budget.h"

#include <algorithm>
#include <cstdio>
#include <future>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <system_error>

#include "compiler/codegen/target.h"
#include "compiler/program/build/build.h"
#include "compiler/remat/choices.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
// Levels at the end of the frontier among which the smallest arena is searched.
constexpr size_t kFloors = 4;

std::string exact(int64_t bytes) {
  return str(bytes, " bytes (", bytes_text(static_cast<double>(bytes)), ")");
}

class Search {
 public:
  Search(const Graph& joint, const CompileOptions& options,
         const std::function<StepPlan(const std::vector<ValueId>&)>& plan_with)
      : options_(options),
        plan_with_(plan_with),
        choices_(remat_choices(joint)),
        in_turn_(is_seen(joint, options)) {
    for (size_t k : choices_.frontier)
      logs::topic("remat", str("level ", k, ": ", choices_.values[k], " values again, estimated peak ",
                               choices_.peak[k], " bytes, cost ", 100 * choices_.cost[k] / choices_.step_cost,
                               " % of the step"));
    if (logs::enabled("remat"))
      for (size_t k = 0; k < choices_.order.size(); ++k) {
        const Value& value = joint[choices_.order[k]];
        const Node& node = joint.node(value.producer);
        logs::topic("remat", str("choice ", k + 1, ": ", node.op, " ", shape_text(value.dtype, value.shape),
                                 " @ ", node.at.text()));
      }
  }

  StepPlan run() {
    const auto& frontier = choices_.frontier;
    begin({0, frontier.back()});
    if (options_.memory_budget == kRecomputeFull)
      return take(options_.backend == Backend::native ? smallest() : frontier.back());
    if (arena(0) <= options_.memory_budget) return take(0);
    if (options_.offload_activations) return with_copies();
    if (arena(frontier.back()) > options_.memory_budget) {
      size_t least = smallest();
      if (arena(least) <= options_.memory_budget) return take(least);
      throw UserError(str("compile.memory_budget ", exact(options_.memory_budget),
                          ": the arena of the step needs at least ", exact(arena(least)),
                          " even with everything recomputed that makes it smaller (", exact(arena(0)),
                          " without); give that, or a smaller batch.micro or model.context",
                          options_.gather == GatherWhen::layers
                              ? ", or mesh.gather micro_batch, which keeps the activations of one micro-batch"
                              : ""));
    }
    return take(frontier[first_that_fits()]);
  }

 private:
  size_t first_floor() const {
    return choices_.frontier.size() - std::min(kFloors, choices_.frontier.size());
  }
  size_t smallest() {
    const auto& frontier = choices_.frontier;
    begin({frontier.begin() + static_cast<std::ptrdiff_t>(first_floor()), frontier.end()});
    size_t least = 0;
    for (size_t i = first_floor(); i < frontier.size(); ++i)
      if (arena(frontier[i]) < arena(least)) least = frontier[i];
    return least;
  }

  // The index in the frontier of the first level that fits, assuming that arenas shrink along it. An
  // interpolation search: each round plans two levels at once, the one that the estimates predict and the
  // middle.
  size_t first_that_fits() {
    const auto& frontier = choices_.frontier;
    size_t low = 0, high = frontier.size() - 1;
    while (high - low > 1) {
      const auto [near, far] = std::minmax({guess(low, high), (low + high) / 2});
      begin({frontier[near], frontier[far]});
      if (arena(frontier[near]) <= options_.memory_budget)
        high = near;
      else if (arena(frontier[far]) <= options_.memory_budget)
        low = near, high = far;
      else
        low = far;
    }
    return high;
  }
  // An index between the two, whose arenas are known, by interpolation between their estimates.
  size_t guess(size_t low, size_t high) {
    const auto& frontier = choices_.frontier;
    auto estimate = [&](size_t i) { return static_cast<double>(choices_.peak[frontier[i]]); };
    auto planned = [&](size_t i) { return static_cast<double>(arena(frontier[i])); };
    const double wanted = estimate(high) + (static_cast<double>(options_.memory_budget) - planned(high)) *
                                               (estimate(low) - estimate(high)) /
                                               std::max(planned(low) - planned(high), 1.0);
    size_t place = low + 1;
    while (place + 1 < high && estimate(place) > wanted) ++place;
    return place;
  }

  // A level, with copies to the host for the bytes that are over the budget.
  struct Way {
    int64_t within = 0;  // as StepPlan::body_within; 0: it needs no copies
    int64_t arena = 0;
    double seconds = 0;  // of the body, including stalls for copies
  };
  Way way(size_t level, int64_t budget) {
    const Tried& base = tried(level);
    if (base.arena <= budget) return {0, base.arena, base.seconds};
    StepPlan plan = base.plan;
    plan.body_within = std::max<int64_t>(1, budget - (base.arena - base.body));
    const ProgramBlock body = plan_body(plan);
    return {plan.body_within, base.arena - base.body + body.arena_bytes(), base.seconds + body.stall};
  }
  // The index in the frontier whose body, with copies for the rest, takes the least time. The first values to
  // be given up save the most bytes per flop, and the copy queue has time for some of the rest. It assumes
  // that times fall and then rise: it tries evenly spaced indices, and then those around the best, closer
  // together.
  StepPlan with_copies() {
    const auto& frontier = choices_.frontier;
    const size_t last = frontier.size() - 1;
    const size_t high = arena(frontier.back()) <= options_.memory_budget ? first_that_fits() : last;
    std::map<size_t, Way> ways;
    size_t best = high;
    auto fits = [&](size_t i) { return ways.at(i).arena <= options_.memory_budget; };
    auto look = [&](size_t i) {
      const auto [found, fresh] = ways.try_emplace(i);
      if (!fresh) return;
      found->second = way(frontier[i], options_.memory_budget);
      logs::topic("remat", str("level ", frontier[i], " with copies: arena ", exact(found->second.arena),
                               ", ", 1e3 * found->second.seconds, " ms"));
      if (fits(i) && (!fits(best) || found->second.seconds < ways.at(best).seconds)) best = i;
    };
    auto look_at = [&](const std::vector<size_t>& places) {
      std::vector<size_t> levels;
      for (size_t i : places) levels.push_back(frontier[i]);
      begin(levels);
      for (size_t i : places) look(i);
    };
    look(high);
    for (size_t apart = std::max<size_t>(1, high / 4);; apart = (apart + 1) / 2) {
      std::vector<size_t> places;
      if (ways.size() == 1)
        for (size_t i = 0; i < high; i += apart) places.push_back(i);
      look_at(places);
      places.clear();
      if (best >= apart) places.push_back(best - apart);
      if (best + apart <= high) places.push_back(best + apart);
      look_at(places);
      if (apart == 1 || apart * 16 <= high) break;
    }
    for (size_t i = first_floor(); i < frontier.size() && !fits(best); ++i) look(i);
    if (!fits(best)) {
      int64_t least = std::numeric_limits<int64_t>::max();
      for (const auto& [i, one] : ways) least = std::min(least, one.arena);
      refuse_with_copies(least);
    }
    StepPlan plan = take(frontier[best]);
    plan.body_within = ways.at(best).within;
    plan.recompute.arena = ways.at(best).arena;
    return plan;
  }
  [[noreturn]] void refuse_with_copies(int64_t least) {
    for (size_t i = first_floor(); i < choices_.frontier.size(); ++i)
      least = std::min(least, way(choices_.frontier[i], 0).arena);
    throw UserError(str("compile.memory_budget ", exact(options_.memory_budget),
                        ": the arena of the step needs at least ", exact(least),
                        " even with everything recomputed or copied to the host that makes it smaller (",
                        exact(arena(0)), " without); give that, or a smaller batch.micro or model.context",
                        options_.gather == GatherWhen::layers
                            ? ", or mesh.gather micro_batch, which keeps the activations of one micro-batch"
                            : ""));
  }

  struct Tried {
    StepPlan plan;
    int64_t arena = 0, body = 0;
    double flops = 0, seconds = 0;  // of the body
  };
  const Tried& tried(size_t level) {
    if (const auto found = tried_.find(level); found != tried_.end()) return found->second;
    begin({level});
    measure(level, begun_.extract(level).mapped().get());
    return tried_.at(level);
  }
  // Plans that will be needed soon. The first one runs when it is requested, the others on their own threads
  // meanwhile. Only the caller's thread calls libraries.
  void begin(const std::vector<size_t>& levels) {
    bool by_caller = true;
    for (size_t level : std::set<size_t>(levels.begin(), levels.end())) {
      if (tried_.count(level) || begun_.count(level)) continue;
      begun_.emplace(level, begun(level, by_caller || in_turn_));
      by_caller = false;
    }
  }
  std::future<StepPlan> begun(size_t level, bool by_caller) const {
    auto plan = [this, level] { return plan_of(level); };
    if (!by_caller) try {
        return std::async(std::launch::async, plan);
      } catch (const std::system_error&) {}  // no thread is to be had: the caller plans it
    return std::async(std::launch::deferred, plan);
  }
  // Whether the order of planning is observable: by the user's passes and ops, or in logs, whose lines would
  // mix.
  static bool is_seen(const Graph& joint, const CompileOptions& options) {
    return !options.extra_passes.empty() ||
           std::any_of(joint.nodes.begin(), joint.nodes.end(),
                       [](const Node& node) { return op_row(node.op).own != nullptr; }) ||
           std::any_of(logs::topics().begin(), logs::topics().end(),
                       [](const logs::Topic& topic) { return logs::enabled(topic.name); });
  }
  StepPlan plan_of(size_t level) const {
    return plan_with_({choices_.order.begin(), choices_.order.begin() + static_cast<std::ptrdiff_t>(level)});
  }
  void measure(size_t level, StepPlan plan) {
    Tried& made = tried_[level];
    made.plan = std::move(plan);
    if (options_.backend != Backend::reference) target_of(options_).device().enter();
    const StepBlocks blocks = plan_blocks(made.plan);
    made.arena = blocks.arena_bytes();
    made.body = blocks.body.arena_bytes();
    made.flops = blocks.body.flops();
    for (const BlockCall& call : blocks.body.calls) made.seconds += seconds_of(call, options_.travel);
    logs::topic("remat", str("level ", level, ": arena ", exact(made.arena)));
  }
  int64_t arena(size_t level) { return tried(level).arena; }
  StepPlan take(size_t level) {
    const double flops = tried(0).flops;
    StepPlan plan = tried(level).plan;
    plan.recompute = {choices_.values[level], flops > 0 ? tried(level).flops / flops - 1 : 0, arena(level),
                      arena(0)};
    if (level) plan.plain_body = std::make_shared<const Graph>(tried(0).plan.body);
    return plan;
  }

  const CompileOptions& options_;
  const std::function<StepPlan(const std::vector<ValueId>&)>& plan_with_;
  RematChoices choices_;
  bool in_turn_;  // see is_seen
  std::map<size_t, Tried> tried_;
  // Last, because threads must end before the data that they read.
  std::map<size_t, std::future<StepPlan>> begun_;
};
}  // namespace

int64_t parse_memory_budget(const std::string& word) {
  if (word == "none") return kRecomputeNothing;
  if (word == "full") return kRecomputeFull;
  if (auto bytes = parse_bytes(word)) return *bytes;
  throw UserError(
      str("compile.memory_budget is \"", word, "\"; give none, full, or bytes, as in 2GiB or 1.5GB"));
}

StepPlan plan_within_budget(
    const Graph& joint, const CompileOptions& options,
    const std::function<StepPlan(const std::vector<ValueId>& recomputed)>& plan_with) {
  if (options.offload_activations &&
      (options.memory_budget == kRecomputeNothing || options.memory_budget == kRecomputeFull))
    throw UserError(
        str("compile.offload_activations is true, and compile.memory_budget is ",
            options.memory_budget == kRecomputeFull ? "full" : "none",
            "; give the bytes that the arena is to keep within, as in 20GiB (trainrun plan --budgets "
            "--compile.offload_activations=false prints some), or leave compile.offload_activations out"));
  if (options.memory_budget == kRecomputeNothing) return plan_with({});
  if (options.memory_budget < 0)
    throw UserError(str("compile.memory_budget is ", options.memory_budget,
                        " bytes; give none, full, or at least 1 byte"));
  Search search(joint, options, plan_with);
  return search.run();
}

std::string away_text(const ProgramBlock& body, const Recompute& recompute) {
  if (body.away.empty()) return "nothing";
  return str(body.away.size(), " values, ", bytes_text(static_cast<double>(body.away_bytes())),
             " to the host and back in each micro-batch, arena ",
             bytes_text(static_cast<double>(recompute.arena)), " instead of ",
             bytes_text(static_cast<double>(recompute.arena_without)));
}

std::string text(const Recompute& recompute) {
  if (!recompute.values) return "nothing";
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.1f", 100 * recompute.extra_flops);
  return str(recompute.values, " values, +", percent, " % of the step's flops, arena ",
             bytes_text(static_cast<double>(recompute.arena)), " instead of ",
             bytes_text(static_cast<double>(recompute.arena_without)));
}

}  // namespace lockstep::compiler
