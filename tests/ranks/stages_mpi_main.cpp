// Stages that hand their values on over MPI: one rank, run by MPI's launcher.
#include <cstdio>

#include "compiler/program/check/verify.h"
#include "distributed/open_world.h"
#include "tests/ranks/stages_case.h"

using namespace lockstep;

int main() {
  try {
    auto world = distributed::open_world();
    const int rank = world->rank(), ranks = world->size();
    const auto programs = stages(ranks, 4);
    compiler::verify_together(programs, {{ranks}, {"dp_replicate"}}, 0);
    if (run_stage(*world, programs[static_cast<size_t>(rank)]) != expected_of_stage(rank, ranks, 4))
      throw InternalError("the last stage has another sum");
    world->finish();
    if (rank == 0) std::printf("stages on %d ranks: ok\n", ranks);
  } catch (const std::exception& error) {
    std::printf("stages FAILED: %s\n", error.what());
    distributed::World::leave(1);
  }
}
