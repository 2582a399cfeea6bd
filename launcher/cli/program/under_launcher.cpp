// Detects another launcher from the environment.
#include "launcher/cli/program/under_launcher.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/base/error.h"
#include "launcher/supervise/hosts/other_launcher.h"

namespace lockstep::launcher::cli {

namespace {
bool places_ranks(const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  for (const char* each :
       {"--nproc", "--nproc-per-node", "--nproc_per_node", "--nnodes", "--hosts", "--host", "--hostfile",
        "--machinefile", "--node-rank", "--node_rank", "--simulate", "--slurm"})
    if (flag == each) return true;
  return false;
}
}  // namespace

bool waited_for_first(std::vector<std::string>& words) {
  if (std::any_of(words.begin(), words.end(), places_ranks)) return false;
  const auto other = other_launcher();
  if (!other) return false;
  if (!other->first()) {
    wait_for_first(*other);
    return true;
  }
  const auto flags = flags_of(*other);
  words.insert(words.begin() + 1, flags.begin(), flags.end());
  be_first(*other, false);
  return false;
}

void refuse_under_a_launcher() {
  for (auto [rank, size] : {std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                            {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"},
                            {"PMI_RANK", "SLURM_STEP_NUM_TASKS"},
                            {"PMI_RANK", "PMI_SIZE"},
                            {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                            {"RANK", "WORLD_SIZE"}}) {
    const char* ranks = std::getenv(rank) ? std::getenv(size) : nullptr;
    if (ranks && std::atoll(ranks) > 1)
      throw UserError(str("this trainrun is one of ", ranks, " ranks that mpirun, srun or torchrun started (",
                          rank, " and ", size,
                          " are set), and each of them would start the whole run: trainrun ",
                          "starts its ranks itself; leave that launcher out, and use trainrun --nproc ",
                          ranks, ", or unset ", size, " where one of them alone calls trainrun"));
  }
}

}  // namespace lockstep::launcher::cli
