// PaperStep: plans programs that are never run.
#include "launcher/trainer/paper_step.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/program/build/lent_memory.h"
#include "compiler/reduce/block_tree.h"
#include "core/base/error.h"
#include "launcher/trainer/options.h"

namespace lockstep::launcher {

using namespace compiler;

namespace {
// Libraries choose their algorithms for the plan's device.
StepBlocks blocks_on_device(const StepPlan& plan) {
  if (plan.options.backend != Backend::reference) target_of(plan.options).device().enter();
  return plan_blocks(plan);
}

// Per StartCollective: bytes to other ranks; those of a collective's parts count for the first part.
std::vector<int64_t> sent_by(const StepProgram& program, const Mesh& mesh, int seats) {
  std::vector<int64_t> out;
  size_t first = 0;
  std::string name;  // of the collective that starts there
  for (const Instr& instr : program.instrs) {
    const auto* start = std::get_if<StartCollective>(&instr.what);
    if (!start) {
      name.clear();
      continue;
    }
    const Transfer sent = transfer_of(*start, members_of(start->along, mesh, program.rank, seats));
    out.push_back(0);
    if (sent.name != name) name = sent.name, first = out.size() - 1;
    out[first] += sent.sent;
  }
  return out;
}

// Sizes of the reduction subtrees of a host's ranks, and of their sums; with rounds, of the sums per round.
std::vector<std::vector<int64_t>> trees_of_host(const LanePlan& plan, int host, int seats) {
  std::vector<std::vector<int64_t>> out;
  if (plan.order == LaneOrder::interleaved) {
    for (int64_t slot = 0; slot < plan.slots(0); ++slot) {
      const int64_t first = slot * plan.ranks + static_cast<int64_t>(host) * seats;
      const int64_t count = std::clamp<int64_t>(plan.micro_batches - first, 0, seats);
      out.push_back({count, static_cast<int64_t>(trees_over_leaves(first, count, plan.per_lane()).size())});
    }
    return out;
  }
  std::vector<std::vector<LaneBlock>> blocks;
  for (int s = 0; s < seats; ++s) {
    blocks.push_back(plan.blocks(host * seats + s));
    std::vector<int64_t>& sizes = out.emplace_back();
    for (const LaneBlock& block : blocks.back()) sizes.push_back(block.size);
  }
  std::sort(out.begin(), out.end());
  out.push_back({static_cast<int64_t>(trees_over(blocks, false).size())});
  return out;
}
}  // namespace

std::vector<int> fullest_ranks(const LanePlan& plan, int seats) {
  std::vector<int> out;
  std::set<std::vector<std::vector<int64_t>>> seen;
  std::vector<std::vector<int64_t>> host;
  for (int r = 0; r < plan.ranks; ++r) {
    if (seats && r % seats == 0) host = trees_of_host(plan, r / seats, seats);
    auto key = host;
    std::vector<int64_t>& sizes = key.emplace_back();
    // With rounds every rank has the same partial sums.
    if (plan.order == LaneOrder::contiguous)
      for (const LaneBlock& block : plan.blocks(r)) sizes.push_back(block.size);
    if (seen.insert(std::move(key)).second) out.push_back(r);
  }
  return out;
}

PaperStep::PaperStep(StepPlan planned, const LiveMesh& mesh)
    : plan(std::move(planned)),
      seats(mesh.seats),
      ranks(static_cast<int>(mesh.words.data_size())),
      ranks_per_node(mesh.ranks_per_node) {
  const LanePlan lanes{plan.micro_batches, plan.lanes, ranks, 0, plan.order};
  auto few = fullest_ranks(lanes, exchanges_by_host(lanes, plan.options.invariant, seats) ? seats : 0);
  std::vector<int64_t> of_data(ranks, -1);  // one rank for each data coordinate
  for (int64_t rank = mesh.words.size() - 1; rank >= 0; --rank) of_data[mesh.words.data_rank(rank)] = rank;
  // Rank 0 comes last, so that its program is kept.
  std::reverse(few.begin(), few.end());
  StepBlocks blocks = blocks_on_device(plan);
  // Builds the program of each candidate, keeps the largest memory, and reuses the compiled blocks for the
  // next one.
  for (int data_rank : few) {
    const int64_t rank = of_data[data_rank];
    fullest.push_back(rank);
    program = build_program(plan, std::move(blocks), {mesh.words, rank, seats});
    const HeldBytes holds = held_bytes(program);
    if (holds.total() >= held.total()) held = holds;
    const auto sends = sent_by(program, mesh.words, seats);
    sent.resize(sends.size());
    for (size_t i = 0; i < sends.size(); ++i) sent[i] = std::max(sent[i], sends[i]);
    if (data_rank != 0) blocks = blocks_of(std::move(program.blocks));
  }
  for (const auto& field : plan.fields) batches += lanes.slots(0) * bytes_of(field.dtype, field.shape);
}

StepProgram program_of(const PaperStep& step, const Mesh& mesh, int64_t rank) {
  return build_program(step.plan, blocks_of(step.program.blocks), {mesh, rank, step.seats});
}

namespace {
// Memory of the fullest rank for a step and an evaluation inside its memory.
int64_t held_with(const PaperStep& step, const PaperStep& evaluation, const Mesh& mesh) {
  // The fullest rank of the pair may be the fullest of either, so both lists are tried.
  std::set<int64_t> ranks(step.fullest.begin(), step.fullest.end());
  ranks.insert(evaluation.fullest.begin(), evaluation.fullest.end());
  int64_t most = step.held.total();
  for (const int64_t rank : ranks) {
    const StepProgram trains = program_of(step, mesh, rank), measures = program_of(evaluation, mesh, rank);
    most = std::max(most,
                    held_bytes(trains).total() + held_bytes(measures).total() - lent_bytes(measures, trains));
  }
  return most;
}
}  // namespace

MemoryNeeds device_needs(const RunConfig& config, const State& state, const PaperStep& step,
                         const PaperStep* evaluation, const LibraryBounds& bounds) {
  StepBytes bytes{.arena = step.held.arena,
                  .batches = step.batches,
                  .reduction = step.held.reduction(),
                  .on_host = step.plan.on_host,
                  .away = step.held.host};
  if (compute_dtype(config) != DType::f32 && step.plan.options.backend != Backend::reference) {
    for (int b : {kSeedBlock, kMaximaBlock, kCastBlock}) bytes.copies += step.program.blocks[b].arena_bytes();
    bytes.arena -= bytes.copies;
  }
  if (evaluation) {
    bytes.evaluation = held_with(step, *evaluation, state.mesh().words) - step.held.total();
    bytes.lent = evaluation->held.total() - bytes.evaluation;
    bytes.batches += evaluation->batches;
    bytes.away += evaluation->held.host;
  }
  return device_needs(state, bytes, bounds);
}

void add_snapshot(MemoryNeeds& needs, const RunConfig& config, const State& state) {
  const auto& saves = config.checkpoint;
  const int64_t snapshots = saves.async ? (saves.every > 0 || saves.best) + (saves.memory_every > 0) : 0;
  if (snapshots)
    needs.parts.push_back({snapshots == 1 ? "snapshot of a save" : "snapshots of two saves",
                           snapshots * state.bytes_per_rank(), true});
  if (saves.memory_every > 0) {
    int64_t once = 0;
    for (const auto& spec : state.specs()) once += bytes_of(spec.dtype, spec.shape);
    const int64_t ranks = state.mesh().words.size();
    needs.parts.push_back({"checkpoints in memory", 2 * ((once + ranks - 1) / ranks), true});
  }
}

namespace {
constexpr double kLongSequence = 2048;  // tokens from which Hopper's tiles may be used (pays_on_hopper)
}

LibraryBounds library_bounds(const RunConfig& config, const Target& target) {
  LibraryBounds bounds;
  const std::string wanted = device_choice(config.train.device).kind;
  // Workspace for cuDNN's scores with lengths rounded up to 64 and 128: for all heads, or limited to 4 GiB,
  // but at least for the query heads of one key head. On Hopper with long sequences, it may instead be f32
  // sums of dq, dk and dv, plus two values per row.
  const auto rounded = [&](int64_t to) {
    return static_cast<double>((config.model.integer("context", 1) + to - 1) / to * to);
  };
  const double of_head = 2 * rounded(64) * rounded(128);
  const auto heads = static_cast<double>(config.model.integer("heads", 1)),
             of_key = heads / static_cast<double>(std::max<int64_t>(
                                  1, config.model.integer("kv_heads") ? config.model.integer("kv_heads")
                                                                      : config.model.integer("heads", 1)));
  const double scores = std::min(static_cast<double>(config.batch.micro) * heads * of_head,
                                 std::max(static_cast<double>(int64_t{4} << 30), of_key * of_head));
  const auto own = static_cast<double>(config.model.integer("head_dim"));
  const double features = own > 0 ? own : static_cast<double>(config.model.integer("width")) / heads,
               sums = rounded(1) < kLongSequence ? 0
                                                 : 4 * static_cast<double>(config.batch.micro) * rounded(1) *
                                                       (features * (heads + 2 * heads / of_key) + 3 * heads);
  bounds.workspace = (int64_t{32} << 20) + static_cast<int64_t>(std::max(scores, sums));
  if (target.device().kind() == "cuda")
    bounds.workspace = 0;
  else if (wanted == "plugin")
    bounds = {0, 0, 0, 0};
  else if (wanted != "cuda")
    bounds = host_bounds();
  return bounds;
}

}  // namespace lockstep::launcher
