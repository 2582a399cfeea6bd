// trainrun plan: what N ranks would hold, send and take, without starting one.
#include <cstdio>
#include <ostream>
#include <set>

#include "compiler/memory_budget.h"
#include "core/base/error.h"
#include "core/ops/op.h"
#include "launcher/cli/commands.h"
#include "launcher/worker/paper.h"
#include "launcher/worker/run_device.h"

namespace lockstep::cli {

namespace {
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
  FoundTarget found = found_target(config.train.device, arguments.nproc);
  Device& device = found.target.device();
  PaperRun paper(config, arguments.nproc, found.target);
  const auto& [words, state, trainer, step] = paper;
  const auto& [plan, executables, ranks, reduction, exchanged, batches] = step;

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
  if (plan.options.memory_budget != kRecomputeNothing) out << row("computed again", text(plan.recompute));
  // A GPU that is here has the memory that it has, unless the words say otherwise.
  bool on_device = !device.addressable() || device_choice(config.train.device).kind == "cuda";
  int64_t available = arguments.memory ? arguments.memory : device.kind() == "cuda" ? device.memory_info().total : 0;
  int64_t sequences = config.data.validation > 0 ? config.train.eval_batches * config.batch.global : 0;
  LibraryBounds bounds = library_bounds(config.train.device, found.target);
  MemoryNeeds needs;
  if (on_device) {
    needs = device_needs(config, state, trainer, step, sequences, bounds);
    out << "memory of the fullest rank's device\n" << memory_table(needs, available);
    if (!found.missing.empty())
      out << "  planned without the device (" << found.missing
          << "):\n  contractions and attention are counted with the CPU's workspaces, and the library workspaces are the device's bound\n";
  }
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
  out << "numerics certificate" << (found.missing.empty() ? "" : " of the CPU, since the device is not here")
      << " (equal certificates promise equal bits, on " << (plan.options.invariant ? "any" : "this") << " number of data ranks)\n"
      << row("", certificate_of(plan, executables, ranks));
  if (on_device && available > 0 && needs.total() > available)
    throw UserError(does_not_fit(config.name, config.batch.micro, arguments.nproc, needs, available,
                                 nearest_config(config, arguments.nproc, found.target, sequences, bounds, available)));
  return kExitOk;
}

}  // namespace lockstep::cli
