// trainrun plan: what N ranks would hold, send and take, without starting one.
#include <algorithm>
#include <ostream>

#include "compiler/memory_budget.h"
#include "compiler/program/build.h"
#include "compiler/program/print.h"
#include "compiler/program/verify.h"
#include "core/base/error.h"
#include "launcher/cli/commands.h"
#include "launcher/machine/run_device.h"
#include "launcher/plan/report.h"

namespace lockstep::cli {

namespace {
// --roofline, or that of the device: of the one that is here, else of the kind that the config names.
std::string roofline_word(const PlanArguments& arguments, const FoundTarget& found) {
  if (!arguments.roofline.empty()) return arguments.roofline;
  if (!found.missing.empty() && device_choice(arguments.config.train.device).kind == "cuda") return "h200";
  return roofline_of(found.target.device());
}
}  // namespace

namespace {
// What `rank` does in a step of the planned run.
StepProgram program_of(const PaperRun& run, int64_t rank) {
  if (rank >= run.words.size())
    throw UserError(str("--rank is ", rank, ", and the ranks of this plan are 0 to ", run.words.size() - 1,
                        "; give one of them, or a larger --nproc"));
  if (run.step.plan.options.backend == Backend::reference)
    throw UserError(
        "plan --program: the reference backend evaluates graphs node by node and has no program; "
        "leave compile.backend at \"native\"");
  StepProgram program = program_of(run.step, run.words, rank);
  verify(program);
  return program;
}
}  // namespace

int plan(const PlanArguments& arguments, std::ostream& out) {
  RunConfig config = arguments.config;
  FoundTarget found = found_target(config.train.device, arguments.nproc);
  Device& device = found.target.device();
  Roofline roofline;
  const std::string word = roofline_word(arguments, found);
  if (!word.empty()) roofline = roofline_named(word);
  // Hosts as the roofline knows them, where the config leaves them open.
  if (!config.mesh.ranks_per_node && arguments.nproc > roofline.ranks_per_node &&
      arguments.nproc % roofline.ranks_per_node == 0)
    config.mesh.ranks_per_node = roofline.ranks_per_node;
  PaperRun run(config, arguments.nproc, found.target, word.empty() ? nullptr : &roofline);
  if (arguments.program) {
    out << print(program_of(run, arguments.rank));
    return kExitOk;
  }
  PlanReport report = make_report(
      config, run, word.empty() ? nullptr : &roofline,
      str("no roofline is known for ", device.describe(), "; give one with --roofline h200|cpu|FILE.json"));
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
  out << (arguments.json ? plan_json(report) : plan_text(report));
  if (!report.fits())
    throw UserError(does_not_fit(config.name, config.batch.micro, arguments.nproc, report.needs,
                                 report.available, report.nearest));
  return kExitOk;
}

}  // namespace lockstep::cli
