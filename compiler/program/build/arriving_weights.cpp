// Runs calls after the gathers of the weights that they read, and overlaps the seed with the first
// micro-batch.
#include <algorithm>
#include <map>
#include <utility>

#include "compiler/program/build/builder.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

StepBuilder::Stretches StepBuilder::begin_stretches(int b, int64_t micro) {
  Stretches out{.block = b, .micro = micro};
  out.flights.resize(block(b).gathers.buckets.size());
  if (!out.flights.empty()) {
    writer_.set_micro_batch(micro);
    out.flights[0] = gather_weights(b, 0);
  }
  return out;
}

// Runs calls up to `end` in stretches. Each stretch comes after the wait for the weights that it reads, and
// after the start of the next bucket's gathers.
void StepBuilder::run_to(Stretches& at, int end, const std::function<void(int, int)>& run_calls) {
  const auto& buckets = block(at.block).gathers.buckets;
  while (at.from < end) {
    writer_.set_micro_batch(at.micro);
    for (; at.next < buckets.size() && buckets[at.next].wait == at.from; ++at.next) {
      for (int flight : at.flights[at.next]) writer_.wait(flight);
      if (at.next + 1 < buckets.size()) at.flights[at.next + 1] = gather_weights(at.block, at.next + 1);
    }
    const int to = at.next < buckets.size() ? std::min(end, buckets[at.next].wait) : end;
    run_calls(at.from, to);
    at.from = to;
  }
  writer_.set_micro_batch(-1);
}

void StepBuilder::behind_weights(int b, int64_t micro, const std::function<void(int, int)>& run_calls) {
  Stretches all = begin_stretches(b, micro);
  run_to(all, static_cast<int>(block(b).calls.size()), run_calls);
}

void StepBuilder::begin_seed() {
  seed_inputs_ = inputs_of(plan_.phases.seed, -1);
  seed_ = begin_stretches(kSeedBlock, -1);
  writer_.set_micro_batch(-1);
  for (size_t o = 0; o < plan_.phases.seed.outputs.size(); ++o)
    at_[plan_.phases.seed.outputs[o]] = output_of(kSeedBlock, o, seed_inputs_);
  if (seed_runs_beside())
    find_needs();
  else
    seed_to(static_cast<int>(block(kSeedBlock).calls.size()));
}

// Whether the seed may overlap: it has gathers, and all ranks run equally many micro-batches one after
// another, so that they gather in one order.
bool StepBuilder::seed_runs_beside() const {
  const LanePlan& lanes = sum_.lanes;
  if (inspects_ || seed_.flights.empty() || slots_ == 0) return false;
  if (by_layer() && !plan_.phases.streamed.empty()) return false;
  for (int r = 0; r < lanes.ranks; ++r)
    if (lanes.slots(r) != slots_ || lanes.micro_batch(r, 0) < 0) return false;
  return true;
}

void StepBuilder::find_needs() {
  const ProgramBlock &seed = block(kSeedBlock), &body = block(kBodyBlock);
  PerValue<int> there(seed.graph.values.size(), 0);  // the number of seed calls after which a value exists
  for (const auto& segment : seed.gathers.segments)
    there[seed.graph.inputs[segment.input].value] = segment.first + 1;
  std::map<NodeId, int> call_of;
  for (size_t c = 0; c < seed.calls.size(); ++c) call_of[seed.calls[c].node] = static_cast<int>(c);
  for (NodeId n : seed.graph.node_ids()) {
    const Node& node = seed.graph.node(n);
    const auto call = call_of.find(n);
    int after = call == call_of.end() ? 0 : call->second + 1;
    for (ValueId v : node.inputs) after = std::max(after, there[v]);  // for a view: those of its inputs
    for (ValueId v : node.outputs) there[v] = after;
  }
  std::map<ValueId, int> of_whole;
  for (size_t o = 0; o < seed.graph.outputs.size(); ++o)
    of_whole[plan_.phases.seed.outputs[o]] = there[seed.graph.outputs[o].value];
  needs_.assign(body.calls.size(), 0);
  for (size_t c = 0; c < body.calls.size(); ++c)
    for (const BlockPlace& arg : body.calls[c].args)
      if (arg.base >= 0)
        if (const auto found = of_whole.find(plan_.phases.body.inputs[arg.base]); found != of_whole.end())
          needs_[c] = std::max(needs_[c], found->second);
}

void StepBuilder::seed_to(int call) {
  if (call > seed_.from)
    run_to(seed_, call, [&](int from, int to) { run(kSeedBlock, seed_inputs_, from, to); });
}

void StepBuilder::run_body(Turn& turn, int from, int to) {
  const auto all = static_cast<int>(block(kSeedBlock).calls.size());
  while (from < to) {
    int until = to;
    if (seed_.from < all) {
      seed_to(needs_[from]);
      writer_.set_micro_batch(micro_batch(turn.slot));
      for (until = from + 1; until < to && needs_[until] <= seed_.from;) ++until;
    }
    run_beside_copies(turn, from, until);
    from = until;
  }
}

std::vector<int> StepBuilder::gather_weights(int b, size_t bucket) {
  const GatherPlan& plan = block(b).gathers;
  std::vector<StartCollective> gathers;
  std::vector<SourceLine> lines;
  for (int s : plan.buckets[bucket].segments) {
    const auto& segment = plan.segments[s];
    for (const auto& weight : b == kSeedBlock ? plan_.phases.seed_streamed : plan_.phases.streamed) {
      if (weight.input != segment.input) continue;
      const Node& node = whole_.node(weight.start);
      const ValueId rows = weight.rows;
      const std::string& along = node.attrs.word("mesh_dim");
      const DType dtype = whole_[rows].dtype;  // groups only count bytes here, and have no float8
      StartCollective gather{
          .verb = Verb::all_gather, .along = along, .dtype = is_float8(dtype) ? DType::u8 : dtype};
      const int64_t ranks = held_.size(along);
      for (int64_t r = 0; r < ranks; ++r)
        gather.receive.push_back(held_.of(whole_[rows], held_.dim(along), r).count);
      gather.send.assign(ranks, held_.of(whole_[rows]).count);
      gather.from = at_[rows];
      gather.to =
          span_of({b, 0, 0, {}, arenas_[b].own[0], arenas_[b].shared}, block(b).segment_at[s], segment.bytes);
      gather.label = str(b == kSeedBlock ? "weights of the seed " : "weights ", bucket);
      if (!gathers.empty()) gathers.back().more = gathers.back().along == gather.along;
      gathers.push_back(std::move(gather)), lines.push_back(node.at);
    }
  }
  std::vector<int> flights;
  for (size_t g = 0; g < gathers.size(); ++g)
    flights.push_back(writer_.start(std::move(gathers[g]), lines[g]));
  return flights;
}

}  // namespace lockstep::compiler
