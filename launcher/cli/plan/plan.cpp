// trainrun plan: predicts memory, traffic and time of N ranks without starting one.
#include <algorithm>
#include <memory>
#include <ostream>

#include "compiler/compile/memory_budget.h"
#include "compiler/program/show/listing.h"
#include "compiler/program/show/print.h"
#include "core/base/error.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/plan/planned_run.h"
#include "launcher/plan/report.h"

namespace lockstep::launcher::cli {

namespace {
// Adds the possible budgets if the config's own is not among them.
std::unique_ptr<PlannedRun> planned_beside(const PlanArguments& arguments,
                                           const std::vector<PlanBudget>& budgets, std::ostream& out) try {
  return std::make_unique<PlannedRun>(arguments.config, arguments.nproc, arguments.roofline);
} catch (const UserError&) {
  if (!budgets.empty() && !arguments.json) out << budgets_text(budgets);
  throw;
}
}  // namespace

int plan(const PlanArguments& arguments, std::ostream& out) {
  if (arguments.budgets && (arguments.program || arguments.listing))
    throw UserError(str("plan: --budgets is a table beside the plan, and --",
                        arguments.program ? "program" : "listing",
                        " is one step's instructions; leave one of them out"));
  std::vector<PlanBudget> budgets;
  if (arguments.budgets) budgets = budgets_of(arguments.config, arguments.nproc, arguments.roofline);
  const std::unique_ptr<PlannedRun> made = planned_beside(arguments, budgets, out);
  const PlannedRun& planned = *made;
  const RunConfig& config = planned.config();
  if (arguments.program) {
    out << print(planned.program_of(arguments.rank));
    return kExitOk;
  }
  if (arguments.listing) {
    out << compiler::listing(planned.program_of(arguments.rank));
    return kExitOk;
  }
  PlanReport report = planned.report(arguments.memory);
  report.budgets = budgets;
  out << (arguments.json ? plan_json(report) : arguments.whole ? plan_text(report) : plan_screen(report));
  if (arguments.budgets && !arguments.json) out << budgets_text(budgets);
  if (!report.fits())
    throw UserError(does_not_fit(config.name, config.batch.micro, arguments.nproc, report.needs,
                                 report.available, report.nearest));
  return kExitOk;
}

}  // namespace lockstep::launcher::cli
