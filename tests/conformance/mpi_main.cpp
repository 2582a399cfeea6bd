// Conformance over MPI: run by MPI's launcher on every rank count. Optional argument: elements per MPI call,
// to force collectives in parts.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "core/base/error.h"
#include "distributed/mpi/mpi_world.h"
#include "tests/conformance/group_conformance.h"
#include "tests/conformance/values.h"

using namespace lockstep;

int main(int argc, char** argv) {
  distributed::MpiOptions options{.deadline_s = 60};
  if (argc > 1) options.max_count = std::atoll(argv[1]);
  try {
    auto world = distributed::open_mpi_world(options);
    auto group = world->group();
    // A group that is a part of the world, in reverse order: every case again on it.
    auto half = world->split(world->rank() % 2, -world->rank(), "half");
    conformance::expect(half->size() == (world->size() + 1 - world->rank() % 2) / 2, "size of half");
    conformance::expect(half->rank() == half->size() - 1 - world->rank() / 2, "rank in half");
    for (const auto& one : conformance::group_cases()) {
      auto begin = std::chrono::steady_clock::now();
      one.run(*group);
      if (world->size() > 2) one.run(*half);
      double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (world->rank() == 0)
        std::printf("ok %s on %d ranks, %.2f s\n", one.name.c_str(), world->size(), seconds);
    }
    int rank = world->rank();
    world->finish();
    if (rank == 0) std::printf("all cases passed\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "FAILED: %s\n", error.what());
    distributed::World::leave(1);
  }
}
