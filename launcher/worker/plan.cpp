// trainrun plan: what N ranks would hold, send and take, without starting one.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <ostream>
#include <set>

#include "compiler/codegen/target.h"
#include "compiler/run/certificate.h"
#include "compiler/run/lane_reducer.h"
#include "compiler/run/tail.h"
#include "core/base/error.h"
#include "core/ops/op.h"
#include "launcher/cli/commands.h"
#include "launcher/memory/needs.h"
#include "launcher/worker/build.h"

namespace lockstep::cli {

namespace {
// The world as words alone: enough for layouts, none for messages.
LiveMesh paper_mesh(const Mesh& words) {
  LiveMesh mesh = solo_mesh();
  mesh.words = words;
  return mesh;
}

// The step of a config on N ranks, on paper: what it is measured by.
struct PaperRun {
  PaperRun(const RunConfig& config, int64_t nproc)
      : words(validate(config, nproc)),
        state(paper_mesh(words), static_cast<uint64_t>(config.train.seed)),
        trainer(config, nproc, state),
        step(trainer.plan_training(words)),
        executables(make_executables(step)),
        ranks(static_cast<int>(words.data_size())),
        reduction(tail_bytes(step.phases, ranks, 0)) {
    auto paper = cpu_target().make_reductions({});  // counts bytes; adds nothing
    for (const auto& bucket : step.phases.buckets) {
      std::vector<Shape> shapes;
      for (int output : bucket) shapes.push_back(step.body[step.body.outputs[static_cast<size_t>(output)].value].shape);
      auto reducer = [&](int rank) {
        return LaneReducer(shapes, LanePlan{step.micro_batches, step.lanes, ranks, rank}, cpu_device(), *paper);
      };
      // Ranks are left with different partial sums; the fullest one counts.
      int64_t most = 0;
      for (int r = 0; r < ranks; ++r) most = std::max(most, reducer(r).bytes());
      reduction += most;
      exchanged += reducer(0).sent_bytes();
    }
  }
  MemoryNeeds needs(const std::string& precision) const {
    return device_needs(state, {.arena = executables.arena_bytes(), .reduction = reduction}, precision);
  }

  Mesh words;
  State state;
  Trainer trainer;
  StepPlan step;
  StepExecutables executables;
  int ranks;
  int64_t reduction;      // bytes
  int64_t exchanged = 0;  // bytes that rank 0 sends
};

// Bytes of the fullest rank with another micro-batch and rank count; nullopt where the config cannot be.
std::optional<int64_t> bytes_with(RunConfig config, int64_t micro, int64_t nproc) {
  config.batch.micro = micro;
  try {
    return PaperRun(config, nproc).needs(config.train.precision).total();
  } catch (const UserError&) {
    return {};  // a mesh of fixed sizes, lanes that do not divide
  }
}

struct Traffic {
  int64_t count = 0, bytes = 0;
};

std::string exact_bytes(int64_t bytes) { return str(bytes, " bytes (", bytes_text(static_cast<double>(bytes)), ")"); }
std::string row(const std::string& name, const std::string& value) {
  return str("  ", name, std::string(name.size() < 26 ? 26 - name.size() : 1, ' '), value, "\n");
}
}  // namespace

int plan(const PlanArguments& arguments, std::ostream& out) {
  const RunConfig& config = arguments.config;
  PaperRun paper(config, arguments.nproc);
  const auto& [words, state, trainer, plan, executables, ranks, reduction, exchanged] = paper;

  int64_t parameters = 0, elements = 0;
  for (const auto& spec : state.specs()) {
    elements += numel(spec.shape);
    if (spec.role == Role::parameter) parameters += numel(spec.shape);
  }
  double flops = executables.body->flops() * static_cast<double>(plan.micro_batches);

  out << config.name << " on " << arguments.nproc << (arguments.nproc == 1 ? " rank" : " ranks") << ", mesh " << text(words) << "\n\n";
  int64_t held = state.bytes_per_rank(), arena = executables.arena_bytes();
  char gflop[32];
  std::snprintf(gflop, sizeof gflop, "%.4g", flops / 1e9);
  out << "model\n" << row("parameters", str(parameters)) << row("state, once", bytes_text(static_cast<double>(elements) * 4));
  out << "memory of the fullest rank\n";
  out << row("state", exact_bytes(held)) << row("arena", exact_bytes(arena)) << row("reduction", exact_bytes(reduction))
      << row("together", exact_bytes(held + arena + reduction));
  bool on_gpu = device_choice(config.train.device).kind == "cuda";
  MemoryNeeds needs = paper.needs(config.train.precision);
  if (on_gpu) out << "memory of the fullest rank's device\n" << memory_table(needs, arguments.memory);
  out << "step\n";
  out << row("micro-batches", str(plan.micro_batches, " of ", config.batch.micro, " sequences, in ", plan.lanes, " lanes"));
  out << row("tokens", str(config.batch.global * config.model.context)) << row("contractions", str(gflop, " Gflop, all ranks together"));

  std::map<std::string, Traffic> traffic;
  const Graph& whole = plan.phases.whole;
  for (const Node& node : whole.nodes) {
    if (op_row(node.op).kind != OpKind::collective || node.op == "wait") continue;
    Traffic& t = traffic[node.op];
    ++t.count;
    for (ValueId v : node.inputs) {
      int64_t bytes = numel(whole[v].shape) * static_cast<int64_t>(size_of(whole[v].dtype));
      if (node.op == "lane_exchange_start") bytes = 0;  // counted by the reducers
      if (node.op == "all_gather_start") bytes = ranks > 1 ? bytes * (ranks - 1) / ranks : 0;
      if (node.op == "all_reduce_start") bytes = ranks > 1 ? 2 * bytes * (ranks - 1) / ranks : 0;
      t.bytes += bytes;
    }
  }
  if (traffic.count("lane_exchange_start")) traffic["lane_exchange_start"].bytes = exchanged;
  out << "collectives per step on " << (words.ndim() == 1 ? words.dim_names[0] : "the data dims") << " (bytes that rank 0 sends)\n";
  for (const auto& [op, t] : traffic)
    out << row(op.substr(0, op.size() - 6), str(t.count, " x, ", bytes_text(static_cast<double>(t.bytes))));

  out << "micro-batches per rank, by number of data ranks\n";
  std::set<int64_t> counts{1, 2, 3, 4, 6, 8, 16, 32, ranks};
  for (int64_t n : counts) {
    if (n > 2 * plan.lanes && n != ranks) continue;
    LanePlan other{plan.micro_batches, plan.lanes, static_cast<int>(n), 0};
    auto [first, most] = other.micro_batch_range(0);
    (void)first;
    char used[64];
    std::snprintf(used, sizeof used, "%lld on the fullest, %.0f %% of the slots are used%s", static_cast<long long>(most),
                  100.0 * static_cast<double>(plan.micro_batches) / static_cast<double>(most * n), n == ranks ? "  <- this plan" : "");
    out << row(str(n), used);
  }
  int64_t advised = config.batch.global / (4 * ranks);
  while (advised > 1 && config.batch.global % advised) --advised;
  if (plan.micro_batches < 4 * ranks && advised >= 1 && advised < config.batch.micro)
    out << "  advice: at least 4 micro-batches per rank keep ranks busy on other cluster sizes; batch.micro " << advised << " gives that\n";
  out << "numerics certificate (equal certificates promise equal bits, on any number of data ranks)\n"
      << row("", certificate_of(plan, executables));
  if (on_gpu && arguments.memory > 0 && needs.total() > arguments.memory)
    throw UserError(does_not_fit(config.name, config.batch.micro, arguments.nproc, needs, arguments.memory,
                                 nearest_fit(config.batch.micro, arguments.nproc, arguments.memory,
                                             [&](int64_t micro, int64_t nproc) { return bytes_with(config, micro, nproc); })));
  return kExitOk;
}

}  // namespace lockstep::cli
