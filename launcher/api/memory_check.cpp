// MemoryCheck: estimates bytes, and plans only if the estimate is not enough.
#include "launcher/api/memory_check.h"

#include <algorithm>

#include "compiler/program/build/lent_memory.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "launcher/api/option_words.h"
#include "launcher/machine/idle_ranks.h"
#include "launcher/plan/program_plan.h"
#include "launcher/trainer/host_check.h"
#include "launcher/trainer/paper_step.h"

namespace lockstep {

using namespace compiler;
using namespace launcher;

namespace {
// An upper bound for a step: separate memory for every value of its graphs, and gradient sums per lane.
double rough_bytes(const StepPlan& plan, const State& state) {
  double out = static_cast<double>(state.bytes_per_rank()) * static_cast<double>(4 + plan.lanes);
  auto add = [&](const Graph& graph) {
    for (const Value& value : graph.values)
      out += static_cast<double>(numel(value.shape)) * static_cast<double>(size_of(value.dtype));
  };
  for (const Graph* graph :
       {&plan.count, &plan.seed, &plan.body, &plan.copies, &plan.maxima, &plan.cast, &plan.scales})
    add(*graph);
  for (const Graph& fragment : plan.fragments) add(fragment);
  return out + static_cast<double>(host_bounds().libraries);
}

// The step's memory that is not yet allocated.
MemoryNeeds needs_of(const StepPlan& plan, const State& state, const Target& target, const Step* lender) {
  const RunConfig config = config_of_plan(plan, state, "program");
  LibraryBounds bounds = library_bounds(config, target);
  if (!target.device().addressable()) bounds.context = 0;
  if (state.allocated()) bounds = {.context = 0, .libraries = 0, .communicator = 0, .workspace = 0};
  const PaperStep paper(plan, state.mesh());
  MemoryNeeds out;
  if (lender) {
    const int64_t own = paper.held.total() - lent_bytes(paper.program, lender->program());
    if (own > 0) out.parts.push_back({"step", own});
    out.parts.push_back({"batches", paper.batches});
    out.away = paper.held.host;
  } else {
    out = device_needs(config, state, paper, nullptr, bounds);
  }
  if (state.allocated()) {
    std::erase_if(out.parts, [](const MemoryPart& part) {
      return part.name == "weights" || part.name == "moments" || part.name == "other state";
    });
    out.on_host = 0;
    for (const Array* array : state.arrays())
      if (plan.on_host.count(array->fqn) && !array->lives_on_host())
        out.on_host += static_cast<int64_t>(array->local_bytes());
  }
  return out;
}
}  // namespace

void MemoryCheck::operator()(const StepPlan& plan, const State& state, const Step* lender) const {
  const bool trains = !plan.phases.buckets.empty();
  if (const Mesh& mesh = state.mesh().words; trains && at_.rank == 0)
    tell_idle_ranks(in_options(
        idle_ranks({plan.micro_batches, plan.lanes, static_cast<int>(mesh.data_size()), 0, plan.order}, mesh,
                   plan.options.invariant)));
  if (plan.options.backend == Backend::reference) return;
  if (target_->device().addressable())
    check_host(plan, state, lender);
  else
    check_device(plan, state, lender);
}

void MemoryCheck::check_host(const StepPlan& plan, const State& state, const Step* lender) const {
  if (at_.local_rank != 0) return;
  const HostRoom room(at_);
  if (room.plenty(rough_bytes(plan, state))) return;
  const MemoryNeeds needs = needs_of(plan, state, *target_, lender);
  if (const std::string refused = room.refused("the program", needs); !refused.empty())
    throw UserError(refused);
  room.warn(needs);
}

void MemoryCheck::check_device(const StepPlan& plan, const State& state, const Step* lender) const {
  const MemoryNeeds needs = needs_of(plan, state, *target_, lender);
  if (const std::string refused =
          offloaded_does_not_fit_host("the program", at_.local_world_size, needs, host_memory());
      !refused.empty())
    throw UserError(in_options(refused));
  const int64_t free = target_->device().memory_info().free;
  if (needs.total() <= free) return;
  std::string table = memory_table(needs, free, "free on the device");
  table.pop_back();
  if (needs.exact() > free)
    throw UserError(str(too_large("the program", state.mesh().words.size(), needs, free),
                        "; take a smaller micro-batch, more ranks with the mesh dim dp_shard, or a smaller "
                        "model\n",
                        table));
  logs::warn(str("memory may run out on the device of rank ", at_.rank, ":\n", table));
}

}  // namespace lockstep
