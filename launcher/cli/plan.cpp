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
  const FoundTarget& found = planned.found();
  const PaperRun& run = planned.run();
  Device& device = found.target.device();
  if (arguments.program) {
    out << print(planned.program_of(arguments.rank));
    return kExitOk;
  }
  if (arguments.listing) {
    out << compiler::listing(planned.program_of(arguments.rank));
    return kExitOk;
  }
  PlanReport report = make_report(config, run, planned.roofline(), planned.no_roofline());
  report.missing = found.missing;
  report.on_device = !device.addressable() || device_choice(config.train.device).kind == "cuda";
  // A GPU that is here has the memory that it has, unless the words say otherwise.
  report.available = arguments.memory          ? arguments.memory
                     : device.kind() == "cuda" ? device.memory_info().total
                                               : 0;
  const int64_t sequences = config.data.validation > 0 ? config.train.eval_batches * config.batch.global : 0;
  const LibraryBounds bounds = library_bounds(config, found.target);
  report.needs = device_needs(config, run.state, run.trainer, run.step, sequences, bounds);
  if (!report.on_device && !arguments.memory) {
    report.host = host_memory();
    report.host_ranks =
        config.mesh.ranks_per_node ? std::min(arguments.nproc, config.mesh.ranks_per_node) : arguments.nproc;
  }
  if (!report.fits())
    report.nearest =
        nearest_config(config, arguments.nproc, found.target, sequences, bounds, report.available);
  out << (arguments.json ? plan_json(report) : arguments.whole ? plan_text(report) : plan_screen(report));
  if (!report.fits())
    throw UserError(does_not_fit(config.name, config.batch.micro, arguments.nproc, report.needs,
                                 report.available, report.nearest));
  return kExitOk;
}

}  // namespace lockstep::launcher::cli
