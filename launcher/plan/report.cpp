// Builds the report of a planned run.
#include "launcher/plan/report.h"

#include "launcher/machine/hosts.h"
#include "launcher/machine/idle_ranks.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "compiler/compile/memory_budget.h"
#include "compiler/compile/model_dims.h"
#include "compiler/runtime/certificate.h"
#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::launcher {

using namespace compiler;

namespace {
// Parts of a name that are numbers become "*".
std::string pattern_of(const std::string& fqn) {
  auto parts = split(fqn, '.');
  for (auto& part : parts)
    if (!part.empty() &&
        std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c); }))
      part = "*";
  return join(parts, ".");
}
std::string role_of(const Spec& spec) {
  return spec.role == Role::parameter ? "weights" : spec.role == Role::moment ? "moments" : "other state";
}
std::string placements_of(const Layout& layout, const Mesh& mesh) {
  std::vector<std::string> out;
  for (const auto& [dim, placement] : layout.splits)
    if (mesh.shape[dim] > 1) out.push_back(str(mesh.dim_names[dim], ": ", text(placement)));
  return join(out, ", ");
}
bool alike(const PlanTensors& a, const PlanTensors& b) {
  return a.role == b.role && a.type == b.type && a.placements == b.placements && a.bytes == b.bytes;
}

// The cost of verify.recompute_every: one micro-batch relative to those of that many steps on the fullest
// rank.
std::string recomputation_words(const RunConfig& config, const LanePlan& lanes) {
  const int64_t every = config.verify.recompute_every;
  if (every == 0) return "";
  if (lanes.ranks < 2) return "nothing: one data rank has no other to compare with (verify.recompute_every)";
  int64_t most = 1;
  for (int rank = 0; rank < lanes.ranks; ++rank) most = std::max(most, lanes.slots(rank));
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.3g %%", 100 / static_cast<double>(every * most));
  return str("one micro-batch on every rank, ", every == 1 ? "each step" : str("every ", every, " steps"),
             " and before each save: ", percent, " more than the ", every * most, " of these steps");
}
}  // namespace

std::vector<PlanTensors> tensor_rows(const State& state) {
  const Mesh& mesh = state.mesh().words;
  std::vector<PlanTensors> rows;
  std::map<std::string, size_t> index;  // by everything that a row's tensors share
  for (const auto& spec : state.specs()) {
    const Layout layout = state.layout(spec.fqn);
    PlanTensors row{
        pattern_of(spec.fqn),
        role_of(spec),
        shape_text(spec.dtype, spec.shape),
        placements_of(layout, mesh),
        1,
        numel(padded_local_shape(layout, mesh, spec.shape)) * static_cast<int64_t>(size_of(spec.dtype))};
    auto [found, added] = index.try_emplace(
        str(row.name, "|", row.role, "|", row.type, "|", row.placements, "|", row.bytes), rows.size());
    if (added)
      rows.push_back(std::move(row));
    else
      ++rows[found->second].count;
  }
  // The moments of one weight share a row: a.b.{exp_avg,exp_avg_sq}.
  std::vector<PlanTensors> out;
  std::map<std::string, size_t> stems;
  for (auto& row : rows) {
    const size_t dot = row.name.rfind('.');
    const std::string stem = row.name.substr(0, dot);
    auto found = stems.find(stem);
    if (row.role == "moments" && dot != std::string::npos && found != stems.end() &&
        alike(out[found->second], row) && out[found->second].count % row.count == 0) {
      PlanTensors& whole = out[found->second];
      std::string& name = whole.name;
      if (name.back() == '}')
        name.pop_back();
      else
        name.insert(dot + 1, "{");
      name += "," + row.name.substr(dot + 1) + "}";
      whole.count += row.count;
      continue;
    }
    if (row.role == "moments" && dot != std::string::npos) stems[stem] = out.size();
    out.push_back(std::move(row));
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    auto rank = [](const PlanTensors& t) { return t.role == "weights" ? 0 : t.role == "moments" ? 1 : 2; };
    return rank(a) < rank(b);
  });
  return out;
}

std::vector<PlanUse> uses_of(int64_t micro_batches, int64_t lanes, int64_t ranks, bool splits_gradients,
                             bool invariant) {
  std::set<int64_t> counts{1, ranks / 4, ranks / 2, ranks - 1, ranks, ranks + 1, 2 * ranks, 4 * ranks};
  if (invariant && micro_batches <= 4 * ranks) counts.insert(micro_batches);  // one each
  std::vector<PlanUse> out;
  for (int64_t n : counts) {
    const LaneOrder order = lane_order(splits_gradients, micro_batches, n, invariant);
    if (n < 1 || (n > 2 * (order == LaneOrder::contiguous ? lanes : micro_batches) && n > ranks)) continue;
    const int64_t most = LanePlan{micro_batches, lanes, static_cast<int>(n), 0, order}.slots(0);
    out.push_back({n, most, static_cast<double>(micro_batches) / static_cast<double>(most * n)});
  }
  return out;
}

std::string roofline_word(const std::string& asked, const std::string& train_device,
                          const FoundTarget& found) {
  if (!asked.empty()) return asked;
  return !found.missing.empty() && device_choice(train_device).kind == "cuda"
             ? "h200"
             : roofline_of(found.target.device());
}

std::string no_roofline(const FoundTarget& found) {
  return str("no roofline is known for ", found.target.device().describe(), "; give one with --roofline ",
             join(roofline_names(), "|"), "|FILE.json");
}

void add_memory(PlanReport& report, const RunConfig& config, const FoundTarget& found,
                const MemoryNeeds& needs, int64_t memory) {
  Device& device = found.target.device();
  report.missing = found.missing;
  report.on_device = !device.addressable() || device_choice(config.train.device).kind == "cuda";
  // A present GPU's own memory is used, unless the roofline was named explicitly.
  report.available = memory ? memory : device.kind() == "cuda" ? device.memory_info().total : 0;
  report.needs = needs;
  if (report.on_device || memory) return;
  report.host = host_memory();
  report.host_ranks =
      config.mesh.ranks_per_node ? std::min(report.ranks, config.mesh.ranks_per_node) : report.ranks;
}

std::string PlanReport::ranks_of_host() const {
  return str(host_ranks, host_ranks < ranks ? str(" of the ", ranks) : "", ranks == 1 ? " rank" : " ranks");
}
std::string PlanReport::host_ranks_by() const {
  return host_ranks < ranks && !host_by.empty() ? str(" (", host_ranks, " a host, by ", host_by, ")") : "";
}

PlanReport make_report(const RunConfig& config, const PaperRun& run, const Roofline* roofline,
                       const std::string& why) {
  return make_report(config, units_of_step(config), run.state, run.step, roofline, why);
}

namespace {
// Gradients and moments that the tail gathers because an update reads them whole. Excludes new weights:
// values split by rows that only the next gather or the state reads.
std::string whole_updates(const Graph& graph, const Phases& phases) {
  const auto readers = users_of(graph);
  int64_t tensors = 0, bytes = 0;
  std::set<std::string> dims;
  for (const TailStep& step : phases.tail) {
    if (!step.node.valid()) continue;
    const Node& wait = graph.node(step.node);
    if (wait.op != ops::wait && wait.op != ops::model_wait) continue;
    const Node& start = graph.node(graph[wait.inputs[0]].producer);
    const bool model = start.op == ops::model_gather_start;
    if (start.op != ops::all_gather_start && !model) continue;
    if (graph.mesh.size(start.attrs.word("mesh_dim")) == 1) continue;
    for (ValueId v : wait.outputs) {
      if (numel(graph[v].shape) == 1) continue;  // the loss, on one rank
      const auto& of = readers[v];
      if (std::none_of(of.begin(), of.end(),
                       [&](NodeId n) { return graph.node(n).op != ops::all_gather_start; }))
        continue;
      ++tensors, bytes += bytes_of(graph[v].dtype, graph[v].shape);
      dims.insert(start.attrs.word("mesh_dim"));
    }
  }
  if (!tensors) return "";
  return str(tensors, tensors == 1 ? " tensor, " : " tensors, ", bytes_text(static_cast<double>(bytes)),
             ", gathered over ", join({dims.begin(), dims.end()}, ", "),
             " once a step; every rank computes these updates");
}

void add_model(PlanReport& out, const State& state) {
  for (const auto& spec : state.specs()) {
    out.state_bytes_once += bytes_of(spec.dtype, spec.shape);
    if (spec.role != Role::parameter) continue;
    out.parameters += numel(spec.shape);
    if (!spec.trainable) out.frozen += numel(spec.shape);
  }
  out.tensors = tensor_rows(state);
}

// The parts of the arena, then of the reduction, that are not empty.
std::vector<MemoryPart> regions_of(const PaperStep& step, const std::string& unit) {
  const auto& blocks = step.program.blocks;
  const int64_t body = step.held.body,
                seed = blocks[kSeedBlock].arena_bytes() + blocks[kMaximaBlock].arena_bytes() +
                       blocks[kCastBlock].arena_bytes(),
                count = blocks[kCountBlock].arena_bytes();
  std::vector<MemoryPart> out;
  for (const MemoryPart& part :
       {MemoryPart{"forward and backward", body}, MemoryPart{"made of weights once a step", seed},
        MemoryPart{unit == "tokens" ? "token counts" : "counts", count},
        MemoryPart{"between sums and update", step.held.arena - body - seed - count},
        MemoryPart{"partial sums of gradients", step.held.sums},
        MemoryPart{"sums, update and gathers", step.held.update}})
    if (part.bytes) out.push_back(part);
  return out;
}

// When split weights are gathered for the body. `whole`: ZeRO 3, whose weights are gathered even if none is
// in the body.
std::string gathers_of(const StepPlan& plan, bool whole) {
  std::string out = whole ? "once per step, kept over its micro-batches" : "";
  if (!plan.phases.streamed.empty())
    out = str(plan.options.gather == GatherWhen::layers ? "layer by layer over the micro-batches"
                                                        : "in each micro-batch",
              ", a bucket ahead of use; ",
              plan.options.reshard_after_forward ? "freed after forward, and again for backward"
                                                 : "kept from forward to backward");
  if (!plan.phases.seed_streamed.empty())
    out += str(out.empty() ? "" : "; ", plan.phases.seed_streamed.size(),
               " of them once per step, a bucket ahead of what is made of them, and freed");
  return out;
}

// The largest micro-batch size that gives each rank 4 micro-batches; 0 if they have them already.
int64_t advised_micro(const BatchConfig& batch, int64_t micro_batches, int64_t ranks) {
  int64_t advised = batch.global / (4 * ranks);
  while (advised > 1 && batch.global % advised) --advised;
  return micro_batches < 4 * ranks && advised >= 1 && advised < batch.micro ? advised : 0;
}

void add_prediction(PlanReport& out, const RunConfig& config, const StepUnits& units, const PaperStep& step,
                    const Roofline* roofline, const std::string& why) {
  const Roofline none{.name = "",
                      .contraction = {{"fp32", 1}},
                      .memory = 1,
                      .inside = {1, 0},
                      .across = {1, 0},
                      .measured_on = ""};
  out.prediction = predict(config, units, out.mesh, step, roofline ? *roofline : none);
  out.capacity = roofline ? roofline->capacity : 0;
  out.predicted = roofline && out.prediction.step_s > 0;
  if (!out.predicted)
    out.no_prediction = roofline ? "the reference backend has no calls whose time could be foretold" : why;
}
}  // namespace

PlanReport make_report(const RunConfig& config, const StepUnits& units, const State& state,
                       const PaperStep& step, const Roofline* roofline, const std::string& why) {
  const StepPlan& plan = step.plan;
  const Mesh& mesh = state.mesh().words;
  PlanReport out;
  out.name = config.name;
  out.ranks = mesh.size();
  out.mesh = mesh;
  add_model(out, state);
  out.whole_on_tp = whole_on_tp(state, mesh);
  if (plan.options.memory_budget != kRecomputeNothing) out.recomputed = text(plan.recompute);
  if (!out.recomputed.empty() && step.held.together > 1)
    out.recomputed += str("; that of each of the ", step.held.together, " micro-batches that run together");
  const StepProgram& program = step.program;
  if (plan.options.offload_activations) out.offloaded = away_text(program.blocks[kBodyBlock], plan.recompute);
  // The body is a rank's share of what the ranks outside the data dims compute together.
  out.flops = program.blocks[kBodyBlock].flops() *
              static_cast<double>(plan.micro_batches * (mesh.size() / mesh.data_size()));
  std::tie(out.unit, out.units) = units;

  out.state = state.bytes_per_rank();
  out.arena = step.held.arena;
  out.reduction = step.held.reduction();
  out.stands_in = plan.options.stands_in;
  if (plan.options.together > 1) out.together = step.held.together;
  out.regions = regions_of(step, out.unit);

  out.micro_batches = plan.micro_batches;
  out.micro = config.batch.micro;
  out.lanes = plan.lanes;
  out.data_ranks = step.ranks;
  if (step.ranks > 1)
    out.buckets = static_cast<int64_t>(plan.phases.buckets.size()),
    out.bucket_bytes = plan.options.bucket_bytes;
  out.hosts = hosts_of(config, mesh, 0).words;
  out.gathers = gathers_of(plan, config.mesh.zero == 3 && mesh.size("dp_shard") > 1);
  for (const Node& node : plan.phases.body.graph.nodes)
    if (node.attrs.flag("pieces")) out.tp_pieces = static_cast<int64_t>(node.inputs.size());
  out.whole_updates = whole_updates(plan.phases.whole, plan.phases);
  out.recomputations =
      recomputation_words(config, LanePlan{plan.micro_batches, plan.lanes, step.ranks, 0, plan.order});
  out.uses = uses_of(plan.micro_batches, plan.lanes, step.ranks, splits_gradients(mesh, state.zero()),
                     plan.options.invariant);
  out.idle =
      idle_ranks({plan.micro_batches, plan.lanes, step.ranks, 0, plan.order}, mesh, plan.options.invariant);
  out.advised_micro = advised_micro(config.batch, plan.micro_batches, out.data_ranks);
  out.one_round = plan.order == LaneOrder::interleaved && !splits_gradients(mesh, state.zero());

  add_prediction(out, config, units, step, roofline, why);
  out.invariant = plan.options.invariant;
  out.certificate = certificate_of(plan, blocks_of(program.blocks), step.ranks);
  return out;
}

}  // namespace lockstep::launcher
