// Plans the blocks of a plan's phases.
#include "compiler/program/build/step_blocks.h"

#include <utility>

namespace lockstep::compiler {

int64_t StepBlocks::arena_bytes() const {
  int64_t bytes = count.arena_bytes() + seed.arena_bytes() + body.arena_bytes() + copies.arena_bytes() +
                  maxima.arena_bytes() + cast.arena_bytes() + scales.arena_bytes();
  for (const auto& fragment : fragments) bytes += fragment.arena_bytes();
  return bytes;
}

ProgramBlock plan_copies(const StepPlan& plan, int64_t micro_batches) {
  return plan_block({.graph = plan.copies, .micro_batches = micro_batches}, plan.options);
}

// A weight is gathered once, however far apart its readers are.
ProgramBlock plan_seed(const StepPlan& plan) {
  BlockSource source{.graph = plan.seed, .gather = gather_options(plan.options)};
  source.gather.reshard = false;
  for (const auto& weight : plan.phases.seed_streamed) source.streamed.push_back(weight.input);
  return plan_block(std::move(source), plan.options);
}

ProgramBlock plan_body(const StepPlan& plan) {
  const LanePlan lanes{plan.micro_batches, plan.lanes, static_cast<int>(plan.phases.whole.mesh.data_size()),
                       0, plan.order};
  std::vector<int> streamed;
  for (const auto& weight : plan.phases.streamed) streamed.push_back(weight.input);
  const bool layers = !streamed.empty() && plan.options.gather == GatherWhen::layers;
  std::vector<std::vector<int>> groups = plan.phases.buckets;
  for (const auto& rows : plan.phases.rows) groups.push_back({rows.ids, rows.rows});
  return plan_block({.graph = plan.body,
                     .groups = groups,
                     .keeps = lanes.is_one(),
                     .streamed = streamed,
                     .gather = gather_options(plan.options),
                     .micro_batches = layers ? lanes.slots(0) : 1,
                     .together = plan.options.together > 1,
                     .within = plan.body_within},
                    plan.options);
}

StepBlocks plan_blocks(const StepPlan& plan) {
  StepBlocks out;
  out.count = plan_block({plan.count, {}}, plan.options);
  out.seed = plan_seed(plan);
  out.body = plan_body(plan);
  out.copies = plan_copies(plan, out.body.micro_batches);
  out.maxima = plan_block({plan.maxima}, plan.options), out.cast = plan_block({plan.cast}, plan.options);
  out.scales = plan_block({plan.scales}, plan.options);
  for (const Graph& graph : plan.fragments) out.fragments.push_back(plan_block({graph, {}}, plan.options));
  return out;
}

SumPlan sum_plan_of(const StepPlan& plan, const ProgramRank& rank) {
  SumPlan out;
  out.lanes = {plan.micro_batches, plan.lanes, static_cast<int>(rank.mesh.data_size()),
               static_cast<int>(rank.mesh.data_rank(rank.rank)), plan.order};
  if (out.lanes.ranks == 1) out.lanes.order = LaneOrder::contiguous;
  out.owners = RowOwners::of(rank.mesh);
  out.invariant = plan.options.invariant;
  out.seats = exchanges_by_host(out.lanes, out.invariant, rank.seats) ? rank.seats : 0;
  out.limits = rank.limits;
  out.lanes.check();
  return out;
}

StepBlocks blocks_of(std::vector<ProgramBlock> all) {
  StepBlocks out{std::move(all.at(kCountBlock)),  std::move(all.at(kSeedBlock)),
                 std::move(all.at(kBodyBlock)),   std::move(all.at(kCopiesBlock)),
                 std::move(all.at(kMaximaBlock)), std::move(all.at(kCastBlock)),
                 std::move(all.at(kScalesBlock)), {}};
  for (size_t f = kTailBlocks; f < all.size(); ++f) out.fragments.push_back(std::move(all[f]));
  return out;
}

}  // namespace lockstep::compiler
