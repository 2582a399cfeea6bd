// trainrun plan: what N ranks would hold, send and take, without starting one.
#include <algorithm>
#include <ostream>

#include "compiler/memory_budget.h"
#include "compiler/program/listing.h"
#include "compiler/program/print.h"
#include "core/base/error.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/planned_run.h"
#include "launcher/plan/report.h"

namespace lockstep::launcher::cli {

int plan(const PlanArguments& arguments, std::ostream& out) {
  const PlannedRun planned(arguments.config, arguments.nproc, arguments.roofline);
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
  if (arguments.budgets) report.budgets = planned.budgets();
  out << (arguments.json ? plan_json(report) : arguments.whole ? plan_text(report) : plan_screen(report));
  if (arguments.budgets && !arguments.json) out << budgets_text(report.budgets);
  if (!report.fits())
    throw UserError(does_not_fit(config.name, config.batch.micro, arguments.nproc, report.needs,
                                 report.available, report.nearest));
  return kExitOk;
}

}  // namespace lockstep::launcher::cli
