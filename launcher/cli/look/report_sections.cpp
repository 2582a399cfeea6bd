// Report sections: the anatomy of a step next to its plan, and memory.
#include <algorithm>
#include <cstdio>

#include "core/base/text.h"
#include "launcher/cli/look/report.h"

namespace lockstep::launcher::cli {

namespace {
std::string bytes(int64_t amount) { return bytes_text(static_cast<double>(amount)); }
std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, share > 0 && share < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * share);
  return text;
}
PageBar anatomy(const Measured& measured) {
  PageBar out{"Where the time of a step goes", seconds_text(measured.step_s), {}};
  double exposed = 0;
  for (const auto& [dim, seconds] : measured.exposed_s) exposed += seconds;
  const double busy = std::max(0.0, measured.step_s - exposed);
  out.parts.push_back({"work of the rank", busy, seconds_text(busy)});
  for (const auto& [dim, seconds] : measured.exposed_s)
    out.parts.push_back({str("stands still for ", dim), seconds, seconds_text(seconds)});
  return out;
}

PageBar predicted_anatomy(const Prediction& p) {
  PageBar out{str("Predicted by the roofline ", p.roofline), seconds_text(p.step_s), {}};
  for (const auto& [name, seconds] : std::initializer_list<std::pair<const char*, double>>{
           {"arithmetic", p.shares.arithmetic},
           {"memory traffic", p.shares.memory},
           {"launches", p.shares.launches},
           {"stands still for communication", p.shares.exposed}})
    out.parts.push_back({name, seconds, seconds_text(seconds)});
  return out;
}

PageTable beside_table(const Measured& measured, const Prediction& p) {
  PageTable out{"Plan and measurement", {{"", "planned", "measured", "ratio"}}};
  double exposed = 0;
  for (const auto& [dim, seconds] : measured.exposed_s) exposed += seconds;
  auto row = [&](const std::string& name, const std::string& a, const std::string& b, double m, double q) {
    out.rows.push_back({name, a, m > 0 ? b : "–", m > 0 && q > 0 ? percent(m / q) : "–"});
  };
  row("step", seconds_text(p.step_s), seconds_text(measured.step_s), measured.step_s, p.step_s);
  row(p.unit + "/s", figure_text(p.units_per_s), figure_text(measured.units_per_s), measured.units_per_s,
      p.units_per_s);
  row("exposed", seconds_text(p.exposed_s), seconds_text(exposed), exposed, p.exposed_s);
  if (p.peak_flops_per_s > 0 && measured.step_s > 0) {
    const double planned = p.flops_per_s / p.peak_flops_per_s, real = planned * p.step_s / measured.step_s;
    row("share of peak", percent(planned), percent(real), real, planned);
  }
  return out;
}

PageTable traffic_table(const PlanReport& plan) {
  PageTable out{"Communication of a step, fullest rank, as planned",
                {{"along", "times", "sent", "under way", "hidden"}}};
  for (const auto& row : plan.prediction.traffic)
    out.rows.push_back({str(row.dims, " ", row.op), str(row.count), bytes(row.bytes),
                        plan.predicted ? seconds_text(row.seconds) : "–",
                        plan.predicted && row.seconds > 0 ? percent(1 - row.exposed_s / row.seconds) : "–"});
  return out;
}
}  // namespace

std::string figure_text(double value) {
  const bool millions = value >= 1e6, thousands = value >= 1e3;
  char text[32];
  std::snprintf(text, sizeof text, "%#.3g", millions ? value / 1e6 : thousands ? value / 1e3 : value);
  std::string out = text;
  if (out.back() == '.') out.pop_back();
  return out + (millions ? "M" : thousands ? "k" : "");
}

PageSection step_section(const Measured& measured, const PlanReport* plan, const std::string& why) {
  PageSection out{.title = "A step",
                  .text =
                      "Medians of the steps that metrics.jsonl has, without the first ones of a start, "
                      "which load libraries."};
  if (measured.step_s > 0) out.bars.push_back(anatomy(measured));
  if (!plan) {
    out.text += str(" There is no plan beside them: ", why, ".");
    return out;
  }
  if (plan->predicted) {
    out.bars.push_back(predicted_anatomy(plan->prediction));
    out.tables.push_back(beside_table(measured, plan->prediction));
  } else {
    out.text += str(" Its time was not predicted: ", plan->no_prediction, ".");
  }
  if (!plan->prediction.traffic.empty()) out.tables.push_back(traffic_table(*plan));
  return out;
}

namespace {
// A rank's memory against a step's predicted time.
PageChart budgets_chart(const PlanReport& plan) {
  const bool large = plan.budgets[0].bytes >= int64_t{4} << 30;
  PageChart out{.title = "Memory against time",
                .unit = "ms, predicted",
                .series = {},
                .x = large ? "GiB a rank" : "MiB a rank"};
  PageSeries again{"by compile.memory_budget", {}, true},
      copies{"with compile.offload_activations", {}, true};
  for (const PlanBudget& budget : plan.budgets)
    if (!budget.offload)
      (budget.copies ? copies : again)
          .points.emplace_back(static_cast<double>(budget.bytes) / (large ? 1 << 30 : 1 << 20),
                               1e3 * budget.step_s);
  for (PageSeries* series : {&again, &copies}) {
    std::sort(series->points.begin(), series->points.end());
    if (!series->points.empty()) out.series.push_back(*series);
  }
  return out;
}
PageTable budgets_table(const PlanReport& plan) {
  PageTable out{"Bytes against time",
                {{"compile.memory_budget", "a rank takes", "step", "", "again", "on the host"}}};
  for (const PlanBudget& budget : plan.budgets)
    out.rows.push_back(
        {budget.name(), bytes(budget.bytes), budget.step_s > 0 ? seconds_text(budget.step_s) : "–",
         budget.values || budget.away || budget.offload ? more_time(budget, plan.budgets[0]) : "",
         budget.values ? str(budget.values, " values") : "nothing", away_words(budget)});
  return out;
}
}  // namespace

PageSection memory_section(const PlanReport& plan, const std::string& no_budgets) {
  PageSection out{
      .title = "Memory",
      .text = str("Of the fullest rank, as planned",
                  plan.needs.total() > plan.needs.exact() ? "; parts marked so are bounds." : ".")};
  PageBar bar{"A rank's memory", bytes(plan.needs.total()), {}};
  for (const auto& part : plan.needs.parts)
    bar.parts.push_back(
        {part.name, static_cast<double>(part.bytes), bytes(part.bytes), part.bound ? "at most" : ""});
  out.bars.push_back(bar);
  PageTable regions{"Activations and sums by region", {{"region", "bytes"}}};
  for (const auto& region : plan.regions) regions.rows.push_back({region.name, bytes(region.bytes)});
  if (plan.regions.size()) out.tables.push_back(regions);
  if (plan.budgets.size() > 1 && plan.predicted) out.charts.push_back(budgets_chart(plan));
  if (!plan.budgets.empty()) out.tables.push_back(budgets_table(plan));
  if (plan.budgets.size() == 1) out.text += " A full recomputation takes no less.";
  if (!no_budgets.empty()) out.text += str(" Other budgets could not be planned: ", no_budgets, ".");
  return out;
}

}  // namespace lockstep::launcher::cli
