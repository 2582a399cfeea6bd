// Prediction: rows and sums over a step's timeline.
#include "launcher/plan/predict.h"

#include <algorithm>
#include <cstdio>

#include "core/base/text.h"
#include "core/tasks/task.h"

namespace lockstep::launcher {

using namespace compiler;

namespace {
// A row for each kind of collective along the same dims, in order of their first starts.
std::vector<TrafficRow> traffic_of(const Timeline& timeline, const Mesh& mesh,
                                   const std::vector<int64_t>& sent) {
  std::vector<TrafficRow> rows;
  std::vector<size_t> row_of;
  for (const auto& route : timeline.routes) {
    const bool copies = route.along == kToDevice || route.along == kToHost;
    const std::string dims = copies ? route.along : dims_text(mesh, dims_along(route.along, mesh));
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const TrafficRow& row) {
      return row.dims == dims && row.op == route.op;
    });
    row_of.push_back(static_cast<size_t>(found - rows.begin()));
    if (found == rows.end()) rows.push_back({.dims = dims, .op = route.op});
  }
  for (const auto& flight : timeline.flights) {
    TrafficRow& row = rows[row_of[flight.route]];
    // The exchange across hosts is the second half of the one within hosts.
    row.count += !flight.goes_on && timeline.routes[flight.route].along != "across_hosts";
    row.bytes += flight.start < 0 ? flight.sent : sent[flight.start];
    row.seconds += flight.end - flight.begin;
    row.exposed_s += flight.exposed;
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.dims < b.dims; });
  return rows;
}
TimeShares shares_of(const StepProgram& program, const Timeline& timeline, const std::string& precision,
                     const Roofline& roofline) {
  // Per block: the accumulated time before each call, and in total.
  std::vector<std::vector<TimeShares>> until;
  for (const ProgramBlock& block : program.blocks) {
    auto& sums = until.emplace_back(1);
    for (const CallCost& cost : call_costs(block.calls, precision, roofline)) {
      TimeShares next = sums.back();
      next.arithmetic += cost.arithmetic, next.memory += cost.memory, next.launches += cost.launch;
      sums.push_back(next);
    }
  }
  TimeShares out;
  for (const auto& work : timeline.work) {
    if (const auto* run = std::get_if<RunBlock>(&program.instrs[work.instr].what)) {
      const TimeShares &from = until[run->block][work.first], &to = until[run->block][work.last];
      const auto times = static_cast<double>(run->micro_batches);
      out.arithmetic += times * (to.arithmetic - from.arithmetic);
      out.memory += times * (to.memory - from.memory);
      out.launches += times * (to.launches - from.launches);
    } else {
      const double launch = std::min(roofline.launch, work.end - work.begin);
      out.launches += launch;
      out.memory += work.end - work.begin - launch;
    }
  }
  for (const auto& flight : timeline.flights) out.exposed += flight.exposed;
  return out;
}
}  // namespace

StepUnits units_of_step(const RunConfig& config) {
  const std::string unit(tasks::pace_unit(tasks::task(task_kind(config))));
  return {unit, config.batch.global * (unit == "tokens" ? config.model.integer("context", 1) : 1)};
}

Roofline roofline_of_rank(const Roofline& roofline, const Mesh& mesh, const PaperStep& step) {
  Roofline out = roofline;
  if (step.ranks_per_node) out.ranks_per_node = step.ranks_per_node;
  return out.for_rank(mesh.size(), step.plan.options.threads);
}

Prediction predict(const RunConfig& config, const StepUnits& units, const Mesh& mesh, const PaperStep& step,
                   const Roofline& given) {
  const StepPlan& plan = step.plan;
  const StepProgram& program = step.program;
  const Roofline roofline = roofline_of_rank(given, mesh, step);
  Prediction out;
  out.roofline = roofline.name;
  out.measured_on = roofline.measured_on;
  out.beyond_node = mesh.size() > roofline.ranks_per_node;
  out.micro_batches = LanePlan{plan.micro_batches, plan.lanes, step.ranks, 0, plan.order}.slots(0);

  const Timeline timeline = timeline_of(program, {mesh, step.seats, roofline, config.train.precision});
  out.traffic = traffic_of(timeline, mesh, step.sent);
  for (const auto& row : out.traffic) {
    out.exposed_s += row.exposed_s;
    if (row.dims == kToDevice || row.dims == kToHost) out.copies_s += row.exposed_s;
  }
  const ProgramBlock& body = program.blocks[kBodyBlock];
  if (plan.options.backend == Backend::reference) return out;
  for (const auto& work : timeline.work)
    (in_micro_batch(program, program.instrs[work.instr]) ? out.body_s : out.once_s) += work.end - work.begin;
  out.body_s /= static_cast<double>(std::max<int64_t>(1, out.micro_batches));
  out.step_s = timeline.end;
  out.peak_flops_per_s = products_rate(roofline, config.train.precision);
  out.shares = shares_of(program, timeline, config.train.precision, roofline);
  out.unit = units.first;
  out.units_per_s = static_cast<double>(units.second) / out.step_s;
  out.flops_per_s =
      body.flops() * static_cast<double>(plan.micro_batches) / static_cast<double>(step.ranks) / out.step_s;
  return out;
}

std::string seconds_text(double seconds) {
  const double units[] = {1e-6, 1e-3, 1};
  const char* names[] = {"us", "ms", "s"};
  int unit = seconds >= 0.9995 ? 2 : seconds >= 0.9995e-3 ? 1 : 0;
  const double value = seconds / units[unit];
  char text[48];
  std::snprintf(text, sizeof text, "%.*f %s",
                value >= 99.95   ? 0
                : value >= 9.995 ? 1
                : value > 0      ? 2
                                 : 0,
                value, names[unit]);
  return text;
}

std::string predicted_and_measured(const Prediction& prediction, double measured_s) {
  return str("predicted ", seconds_text(prediction.step_s), ", measured ", seconds_text(measured_s),
             " a step (roofline ", prediction.roofline,
             prediction.beyond_node ? ", measured on one node only)" : ")");
}

}  // namespace lockstep::launcher
