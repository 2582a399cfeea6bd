// Device, roofline and hosts, then the plan.
#include "launcher/cli/planned_run.h"

#include "compiler/program/verify.h"
#include "core/base/error.h"

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

compiler::StepProgram PlannedRun::program_of(int64_t rank) const {
  if (rank >= run_->words.size())
    throw UserError(str("--rank is ", rank, ", and the ranks of this plan are 0 to ", run_->words.size() - 1,
                        "; give one of them, or a larger --nproc"));
  compiler::StepProgram program = launcher::program_of(run_->step, run_->words, rank);
  verify(program);
  return program;
}

}  // namespace lockstep::launcher::cli
