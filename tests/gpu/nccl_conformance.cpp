// NCCL's group on GPUs, one rank per GPU. Prints PASS or FAIL per case, and the count of both at the end; a
// case that fails does not keep the next ones from running. Exit code 0 or 1; skips, saying why, where GPUs
// are missing.
//   mpirun -n 4 gpu_nccl_ranks                    all cases, ranks are processes
//   gpu_nccl_ranks --threads 4                    the same, ranks are threads: needs no MPI launcher
//   mpirun -n 2 gpu_nccl_ranks lost_alone sleep   one rank is lost in a collective; passes by what rank 0
//   says mpirun -n 2 gpu_nccl_ranks lost_in_graph sleep mpirun --enable-recovery -n 2 gpu_nccl_ranks
//   lost_in_graph exit
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/base/error.h"
#include "distributed/local/local_world.h"
#include "distributed/nccl/nccl_library.h"
#include "distributed/open_world.h"
#include "tests/gpu/nccl_cases.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {
struct Options {
  std::string scene = "all";
  bool exits = false;
  int threads = 0;
};

Options parse(int argc, char** argv) {
  Options out;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--threads" && i + 1 < argc)
      out.threads = std::atoi(argv[++i]);
    else if (word == "sleep" || word == "exit")
      out.exits = word == "exit";
    else
      out.scene = word;
  }
  return out;
}

// Why these ranks cannot run here; "" when they can.
std::string missing(int ranks_here) {
  std::string why;
  if (!cuda::available(&why)) return why;
  if (!nccl_available(&why)) return why;
  int gpus = cuda::device_count();
  return gpus < ranks_here ? str(ranks_here, " ranks need as many GPUs, and there are ", gpus) : "";
}

int local(const char* variable, int fallback) {
  const char* value = std::getenv(variable);
  return value ? std::atoi(value) : fallback;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// All cases, also after one that failed, as long as the ranks can still meet on the host and there is time.
// Whether one failed anywhere is agreed after each. Returns whether all passed, the same on every rank.
bool run_all(const gpu_nccl::Rank& rank) {
  constexpr double kSeconds = 200;
  World& world = *rank.world;
  gpu_nccl::Conformance suite(rank);
  auto cases = suite.cases();
  cases.push_back({"order", [&] { gpu_nccl::order_case(rank); }});
  cases.push_back({"capture", [&] { gpu_nccl::capture_case(rank); }});
  cases.push_back({"record", [&] { gpu_nccl::record_case(rank); }});
  cases.push_back({"mesh", [&] { gpu_nccl::mesh_case(rank); }});
  auto verdicts = world.split(0, world.rank(), "verdicts");
  verdicts->set_deadline(3 * world.group()->deadline() +
                         60);  // a peer may wait in a case for its deadline, and again to end its groups
  auto begin = std::chrono::steady_clock::now();
  std::vector<std::string> failed;
  size_t done = 0;
  for (int64_t late = 0; done < cases.size() && !late; ++done) {
    auto since = std::chrono::steady_clock::now();
    int64_t verdict[] = {0, 0};
    try {
      cases[done].run();
    } catch (const std::exception& error) {
      verdict[0] = 1;
      std::printf("FAIL %s on rank %d of %d: %s\n", cases[done].name.c_str(), world.rank(), world.size(),
                  error.what()),
          std::fflush(stdout);
    }
    verdict[1] = world.rank() == 0 && seconds_since(begin) > kSeconds;
    all_reduce(*verdicts, {verdict, verdict, 2, DType::i64, ReduceOp::max}, cases[done].name);
    late = verdict[1];
    if (verdict[0]) {
      failed.push_back(cases[done].name);
      suite.forget();
    } else if (world.rank() == 0) {
      std::printf("PASS %s on %d ranks, %.2f s\n", cases[done].name.c_str(), world.size(),
                  seconds_since(since)),
          std::fflush(stdout);
    }
  }
  const bool passed = failed.empty() && done == cases.size();
  if (world.rank() == 0) {
    std::string which;
    for (const auto& name : failed) which += str(" ", name);
    std::printf("%s: %zu cases on %d ranks, %zu failed, %zu not run, %.2f s%s%s\n", passed ? "PASS" : "FAIL",
                cases.size(), world.size(), failed.size(), cases.size() - done, seconds_since(begin),
                which.empty() ? "" : "; failed:", which.c_str());
    std::fflush(stdout);
  }
  barrier(*verdicts, "said");
  return passed;
}

[[noreturn]] void run_lost(const gpu_nccl::Rank& rank, const Options& options) {
  try {
    std::string said = gpu_nccl::lost_case(rank, options.scene == "lost_in_graph", options.exits);
    std::printf("PASS %s on rank %d of %d: %s\n", options.scene.c_str(), rank.world->rank(),
                rank.world->size(), said.c_str());
  } catch (const std::exception& error) {
    std::printf("FAIL %s on rank %d of %d: %s\n", options.scene.c_str(), rank.world->rank(),
                rank.world->size(), error.what());
    World::leave(1);
  }
  World::leave(0);
}

void run(std::shared_ptr<World> world, int ordinal, const Options& options) {
  gpu_nccl::Rank rank{world, cuda::open_device(ordinal)};
  rank.device->enter();
  if (options.scene != "all") run_lost(rank, options);
  if (!run_all(rank)) World::leave(1);
}
}  // namespace

int main(int argc, char** argv) {
  Options options = parse(argc, argv);
  setenv("LOCKSTEP_DEADLINE", "30", 0);
  try {
    if (options.threads > 0) {
      if (std::string why = missing(options.threads); !why.empty())
        return std::printf("SKIP: %s\n", why.c_str()), 0;
      with_world(options.threads, [&](std::shared_ptr<World> world) { run(world, world->rank(), options); });
    } else {
      auto world = open_world();
      std::string why = missing(local("OMPI_COMM_WORLD_LOCAL_SIZE", world->size()));
      int64_t skips = why.empty() ? 0 : 1;
      all_reduce(*world->group(), {&skips, &skips, 1, DType::i64, ReduceOp::max});
      if (skips && world->rank() == 0)
        std::printf("SKIP: %s\n", why.empty() ? "another rank has no GPU" : why.c_str());
      if (!skips) run(world, local("OMPI_COMM_WORLD_LOCAL_RANK", world->rank()), options);
      world->finish();
    }
  } catch (const std::exception& error) {
    std::printf("FAIL: %s\n", error.what());
    World::leave(1);
  }
  return 0;
}
