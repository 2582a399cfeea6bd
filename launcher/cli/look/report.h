// The page of a run: the records of its folder next to its plan.
#pragma once

#include <map>
#include <string>

#include "launcher/plan/report.h"
#include "launcher/report/page.h"

namespace lockstep::launcher::cli {

// Measurements of a run: medians over the rows of metrics.jsonl from `first_steady` on.
struct Measured {
  double step_s = 0, busy_s = 0, units_per_s = 0;
  std::map<std::string, double> exposed_s;  // per mesh dim
};

std::string figure_text(double value);  // "9.11k", "1.2M"
// Sections of the page; `plan` is null if planning failed for the reason `why`.
PageSection step_section(const Measured& measured, const PlanReport* plan, const std::string& why);
// `no_budgets`: why bytes against time could not be planned; else "".
PageSection memory_section(const PlanReport& plan, const std::string& no_budgets = "");

}  // namespace lockstep::launcher::cli
