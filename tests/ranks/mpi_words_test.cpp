// Words of the MPI world that need no launcher.
#include <gtest/gtest.h>
#include <mpi.h>

#include "core/base/error.h"
#include "distributed/mpi/mpi_world.h"
#include "tests/ranks/expect_error.h"

using namespace lockstep;

TEST(MpiWorld, NeedsAnMpiWithThreads) {
  distributed::check_thread_level(MPI_THREAD_MULTIPLE);
  expect_error<UserError>([] { distributed::check_thread_level(MPI_THREAD_SERIALIZED); },
                          {"MPI_THREAD_MULTIPLE", "thread level 2", "install"});
}
