// Device, roofline and hosts, then the plan.
#include "launcher/cli/planned_run.h"

#include "compiler/program/verify.h"
#include "core/base/error.h"
#include "launcher/memory/host.h"

namespace lockstep::launcher::cli {

PlannedRun::PlannedRun(RunConfig config, int64_t nproc, const std::string& roofline)
    : config_(std::move(config)), found_(found_target(config_.train.device, nproc)) {
  std::string word = roofline;
  if (word.empty())
    word = !found_.missing.empty() && device_choice(config_.train.device).kind == "cuda"
               ? "h200"
               : roofline_of(found_.target.device());
  known_ = !word.empty();
  if (known_) roofline_ = roofline_named(word);
  if (!config_.mesh.ranks_per_node && nproc > roofline_.ranks_per_node &&
      nproc % roofline_.ranks_per_node == 0)
    config_.mesh.ranks_per_node = roofline_.ranks_per_node;
  run_ = std::make_unique<PaperRun>(config_, nproc, found_.target, this->roofline());
}

std::string PlannedRun::no_roofline() const {
  return str("no roofline is known for ", found_.target.device().describe(),
             "; give one with --roofline h200|cpu|FILE.json");
}

PlanReport PlannedRun::report(int64_t memory) const {
  Device& device = found_.target.device();
  const int64_t nproc = run_->words.size();
  PlanReport report = make_report(config_, *run_, roofline(), no_roofline());
  report.missing = found_.missing;
  report.on_device = !device.addressable() || device_choice(config_.train.device).kind == "cuda";
  // A GPU that is here has the memory that it has, unless the words say otherwise.
  report.available = memory ? memory : device.kind() == "cuda" ? device.memory_info().total : 0;
  const int64_t sequences =
      config_.data.validation > 0 ? config_.train.eval_batches * config_.batch.global : 0;
  const LibraryBounds bounds = library_bounds(config_, found_.target);
  report.needs = device_needs(config_, run_->state, run_->trainer, run_->step, sequences, bounds);
  if (!report.on_device && !memory) {
    report.host = host_memory();
    report.host_ranks = config_.mesh.ranks_per_node ? std::min(nproc, config_.mesh.ranks_per_node) : nproc;
  }
  if (!report.fits())
    report.nearest = nearest_config(config_, nproc, found_.target, sequences, bounds, report.available);
  return report;
}

compiler::StepProgram PlannedRun::program_of(int64_t rank) const {
  if (rank >= run_->words.size())
    throw UserError(str("--rank is ", rank, ", and the ranks of this plan are 0 to ", run_->words.size() - 1,
                        "; give one of them, or a larger --nproc"));
  compiler::StepProgram program = launcher::program_of(run_->step, run_->words, rank);
  verify(program);
  return program;
}

}  // namespace lockstep::launcher::cli
