// Planning without a device's memory: executables that only have sizes, reducers that only count.
#include "launcher/trainer/dry_run.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "compiler/reduce/gradient_reducer.h"
#include "compiler/runtime/tail.h"
#include "core/base/error.h"
#include "launcher/machine/hosts.h"

namespace lockstep {

namespace {
// The world as words alone: enough for layouts, none for messages.
LiveMesh paper_mesh(const RunConfig& config, const Mesh& words) {
  LiveMesh mesh = solo_mesh();
  const Hosts hosts = hosts_of(config, words, 0);
  mesh.words = words;
  mesh.ranks_per_node = hosts.ranks_per_node;
  mesh.seats = hosts.seats;
  return mesh;
}
// Libraries choose their algorithms on the device of the plan.
StepExecutables on_device(const StepPlan& plan) {
  if (plan.options.backend != Backend::reference) target_of(plan.options).device().enter();
  return make_executables(plan);
}
}  // namespace

std::vector<int> fullest_ranks(const LanePlan& plan) {
  std::vector<int> out;
  std::set<std::vector<int64_t>> seen;
  for (int r = 0; r < plan.ranks; ++r) {
    std::vector<int64_t> sizes;
    for (const LaneBlock& block : plan.blocks(r)) sizes.push_back(block.size);
    if (seen.insert(std::move(sizes)).second) out.push_back(r);
  }
  return out;
}

PaperStep::PaperStep(StepPlan planned, const LiveMesh& mesh)
    : plan(std::move(planned)),
      executables(on_device(plan)),
      ranks(static_cast<int>(mesh.words.data_size())),
      tail(tail_bytes(plan.phases, mesh.words, 0)),
      reduction(tail),
      ranks_per_node(mesh.ranks_per_node) {
  auto counting = cpu_target().make_reductions({});  // adds nothing here
  LanePlan lanes{plan.micro_batches, plan.lanes, ranks, 0, plan.order};
  // In rounds every rank keeps the same partial sums, and the first one owns the most rows.
  const DataNodes nodes{mesh.seats};
  auto full = plan.order == LaneOrder::interleaved ? std::vector<int>{0} : fullest_ranks(lanes);
  if (nodes.ranks) {  // what a rank holds depends on its host's other ranks, too
    full.resize(ranks);
    std::iota(full.begin(), full.end(), 0);
  }
  struct Bucket {
    int64_t held = 0, sent = 0, across = -1;
  };
  std::map<std::pair<std::vector<Shape>, DType>, Bucket> known;  // layers are alike, and so are their buckets
  int64_t shared = 0;
  const auto buckets = bucket_shapes(plan);
  const auto dtypes = bucket_dtypes(plan);
  for (size_t b = 0; b < buckets.size(); ++b) {
    auto [found, added] = known.try_emplace({buckets[b], dtypes[b]});
    auto& [held, sends, across] = found->second;
    if (added)
      for (int r : full) {
        lanes.rank = r;
        const auto one = make_reducers({buckets[b]}, lanes, RowOwners::of(mesh.words), cpu_device(),
                                       *counting, plan.options.invariant, nodes, {dtypes[b]});
        held = std::max(held, one.buckets[0]->bytes());
        sends = std::max(sends, one.sent_bytes());
        across = std::max(across, one.sent_across());
        shared = std::max(shared, one.shared_bytes);
      }
    reduction += held;
    sent.push_back(sends);
    sent_across.push_back(across);
  }
  reduction += shared;
  int64_t micro_batches = 0;
  for (int r = 0; r < ranks; ++r) micro_batches = std::max(micro_batches, lanes.slots(r));
  for (const auto& field : plan.fields)
    batches += micro_batches * numel(field.shape) * static_cast<int64_t>(size_of(field.dtype));
}

MemoryNeeds device_needs(const RunConfig& config, const State& state, const Trainer& trainer,
                         const PaperStep& step, int64_t sequences, const LibraryBounds& bounds) {
  StepBytes bytes{
      .arena = step.executables.arena_bytes(), .batches = step.batches, .reduction = step.reduction};
  if (compute_dtype(config) != DType::f32 && step.plan.options.backend != Backend::reference) {
    bytes.copies = step.executables.seed->arena_bytes();
    bytes.arena -= bytes.copies;
  }
  if (sequences > 0) {
    const Mesh& words = state.mesh().words;
    PaperStep evaluation(trainer.plan_evaluation(words, sequences), state.mesh());
    bytes.evaluation = evaluation.executables.arena_bytes() + evaluation.reduction;
    bytes.batches += evaluation.batches;
  }
  return device_needs(state, bytes, bounds);
}

LibraryBounds library_bounds(const RunConfig& config, const Target& target) {
  LibraryBounds bounds;
  const std::string wanted = device_choice(config.train.device).kind;
  // Scores as cuDNN keeps them, lengths rounded up to 64 and 128: of all heads, or cut to 4 GiB, but not
  // below the query heads of one key head.
  const auto rounded = [&](int64_t to) {
    return static_cast<double>((config.model.context + to - 1) / to * to);
  };
  const double of_head = 2 * rounded(64) * rounded(128);
  const auto heads = static_cast<double>(config.model.heads),
             of_key = heads / static_cast<double>(std::max<int64_t>(
                                  1, config.model.kv_heads ? config.model.kv_heads : config.model.heads));
  const double scores = std::min(static_cast<double>(config.batch.micro) * heads * of_head,
                                 std::max(static_cast<double>(int64_t{4} << 30), of_key * of_head));
  bounds.workspace = (int64_t{32} << 20) + static_cast<int64_t>(scores);
  if (target.device().kind() == "cuda")
    bounds.workspace = 0;
  else if (wanted == "plugin")
    bounds = {0, 0, 0, 0};
  else if (wanted != "cuda")
    bounds = host_bounds();
  return bounds;
}

PaperRun::PaperRun(const RunConfig& config, int64_t nproc, const Target& target, const Roofline* roofline)
    : words(validate(config, nproc)),
      state(paper_mesh(config, words), static_cast<uint64_t>(config.train.seed)),
      trainer(config, nproc, state, target, roofline),
      step(trainer.plan_training(words), state.mesh()) {}

std::optional<Fit> nearest_config(const RunConfig& config, int64_t nproc, const Target& target,
                                  int64_t sequences, const LibraryBounds& bounds, int64_t available) {
  return nearest_fit(
      config.batch.micro, nearby_meshes(validate(config, nproc)), available,
      [&](int64_t micro, const Mesh& mesh) -> std::optional<int64_t> {
        RunConfig other = config;
        other.batch.micro = micro;
        other.mesh.shape = mesh.shape;
        other.mesh.dim_names = mesh.dim_names;
        try {
          // The state alone may be too much, and costs no plan.
          State state(paper_mesh(other, mesh), 0);
          Trainer trainer(other, mesh.size(), state, target);
          if (int64_t held = state.bytes_per_rank(); held > available) return held;
          PaperRun run(other, mesh.size(), target);
          return device_needs(other, run.state, run.trainer, run.step, sequences, bounds).total();
        } catch (const UserError&) {
          return {};  // sizes that cannot be, lanes that do not divide
        }
      });
}

}  // namespace lockstep
