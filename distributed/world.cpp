// The front door: MPI's world or a world of one.
#include "distributed/world.h"

#include <cstdlib>

#include "distributed/mpi/mpi_world.h"

namespace lockstep {

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

std::shared_ptr<World> open_world() {
  if (!launched_under_mpi()) return solo_world();
  return open_mpi_world();
}

}  // namespace lockstep
