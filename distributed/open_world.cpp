// Opens MPI's world or a world of one rank.
#include "distributed/open_world.h"

#include <algorithm>
#include <cstdlib>

#include "core/base/env.h"
#include "core/base/error.h"
#include "distributed/mpi/mpi_world.h"

namespace lockstep::distributed {

namespace {
class SoloWorld : public World {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::shared_ptr<Group> group() override { return group_; }
  std::shared_ptr<Group> split(int, int, const std::string& name) override { return solo_group(name); }
  void finish() override {}

 private:
  std::shared_ptr<Group> group_ = solo_group();
};
}  // namespace

std::shared_ptr<World> solo_world() { return std::make_shared<SoloWorld>(); }

bool launched_under_mpi() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"})
    if (std::getenv(variable)) return true;
  return false;
}

std::string world_library() { return launched_under_mpi() ? mpi_library() : "none"; }

namespace {
int64_t number(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : -1;
}

// Ranks that cannot communicate would each be a separate run as rank 0, all in one checkpoint folder.
void refuse_ranks_that_cannot_talk() {
  auto refuse = [](const std::string& who, const std::string& by, const std::string& ranks) {
    throw UserError(
        str("this process is ", who, " by ", by,
            ", and nothing says how the ranks talk (no MPI, no PMI): each would be a run of its own. ",
            "Start them with trainrun --nproc ", ranks, " PROGRAM, mpirun -n ", ranks,
            " or srun --mpi=pmix; or unset ", by, " for a single rank"));
  };
  // The single rank of a trainrun, which has checked this itself
  if (!env("LOCKSTEP_LOG_DIR").empty()) return;
  const int64_t size = number("WORLD_SIZE"), tasks = number("SLURM_STEP_NUM_TASKS"),
                task = number("SLURM_PROCID");
  if (size > 1)
    refuse(str("rank ", std::max<int64_t>(0, number("RANK")), " of ", size), "RANK and WORLD_SIZE",
           str(size));
  // A batch script is task 0 of its job but not a step: its SLURM_NTASKS is the number of tasks that it may
  // start.
  if (task >= 0 && tasks > 1)
    refuse(str("task ", task, " of ", tasks), "SLURM_PROCID and SLURM_STEP_NUM_TASKS", str(tasks));
  if (task > 0) refuse(str("task ", task), "SLURM_PROCID", "N");
}
}  // namespace

std::shared_ptr<World> open_world() {
  if (!launched_under_mpi()) {
    refuse_ranks_that_cannot_talk();
    return solo_world();
  }
  return open_mpi_world();
}

}  // namespace lockstep::distributed
