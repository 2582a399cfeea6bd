// mpirun's arguments, and why each is there.
#include "launcher/supervise/command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/base/env.h"
#include "core/base/error.h"

namespace lockstep {

namespace {
std::string quoted(const std::string& word) {
  auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("-_./=:,+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// The program as the PATH finds it; "" when it does not. (Boost's search_path would need Boost.Filesystem's library.)
std::string on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const auto& folder : split(path ? path : "/usr/local/bin:/usr/bin:/bin", ':')) {
    std::string full = (folder.empty() ? "." : folder) + "/" + program;
    if (std::filesystem::is_regular_file(full) && access(full.c_str(), X_OK) == 0) return full;
  }
  return "";
}
}  // namespace

int64_t threads_per_rank(const LaunchOptions& options, int64_t nproc, int64_t cores) {
  if (options.threads > 0) return options.threads;
  if (const char* own = std::getenv("OMP_NUM_THREADS"); own && std::atoll(own) > 0) return std::atoll(own);
  return std::max<int64_t>(1, cores / nproc);
}

LaunchCommand launch_command(const LaunchOptions& options, int64_t nproc, const std::string& run_dir, const std::string& log_dir,
                             int64_t restart, int columns) {
  LaunchCommand out;
  int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  int64_t threads = threads_per_rank(options, nproc, cores);
  out.variables = {{"OMP_NUM_THREADS", str(threads)},
                   {"LOCKSTEP_RUN_DIR", std::filesystem::absolute(run_dir).lexically_normal().string()},
                   {"LOCKSTEP_LOG_DIR", std::filesystem::absolute(log_dir).lexically_normal().string()},
                   {"LOCKSTEP_RESTART", str(restart)},
                   {"LOCKSTEP_TERMINAL", str(columns)}};
  out.deadlines = read_deadlines(options.deadlines.empty() ? env("LOCKSTEP_DEADLINE") : options.deadlines);
  out.variables.emplace_back("LOCKSTEP_DEADLINE", text(out.deadlines));
  if (!options.verify_collectives.empty()) out.variables.emplace_back("LOCKSTEP_VERIFY_COLLECTIVES", options.verify_collectives);
  // On cores that are shared, a thread that spins long at the end of a parallel loop keeps the one that it waits for from running.
  if (!std::getenv("GOMP_SPINCOUNT") && !std::getenv("OMP_WAIT_POLICY")) out.variables.emplace_back("GOMP_SPINCOUNT", "10000");
  // A launch within a launch: what an outer mpirun or srun said of this process is not true of the ranks below it.
  out.without = {"OMPI_COMM_WORLD_", "OMPI_MCA_ess", "OMPI_MCA_orte_",  "OMPI_UNIVERSE_SIZE", "PMIX_", "PMI_", "RANK",
                 "WORLD_SIZE",       "LOCAL_RANK",   "LOCAL_WORLD_SIZE"};
  if (nproc == 1) {
    for (const char* name : {"RANK", "LOCAL_RANK"}) out.variables.emplace_back(name, "0");
    for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) out.variables.emplace_back(name, "1");
    out.argv = options.worker;
  } else {
    std::string mpirun = on_path("mpirun");
    if (mpirun.empty())
      throw UserError(
          str("--nproc ", nproc, " needs mpirun, which is not on the PATH; install Open MPI (Debian: openmpi-bin), or use --nproc 1"));
    out.variables.emplace_back("OMPI_ALLOW_RUN_AS_ROOT", "1");  // containers run as root
    out.variables.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    out.argv = {mpirun, "-np", str(nproc)};
    auto add = [&](std::initializer_list<const char*> words) { out.argv.insert(out.argv.end(), words.begin(), words.end()); };
    add({"--bind-to", "none", "--oversubscribe"});  // threads are counted here; more ranks than cores are welcome
    add({"--mca", "pml", "ob1"});                   // one host: no probing of fabrics
    add({"--mca", "btl", "self,vader,tcp"});
    add({"--mca", "btl_vader_single_copy_mechanism", "none"});  // containers often forbid process_vm_readv
    add({"--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo"});
    // Ranks do not survive the SIGTERM with which mpirun ends a group after a failure; between it and SIGKILL mpirun sleeps, once or twice.
    add({"--mca", "odls_base_sigkill_timeout", "0"});
    if (nproc * threads > cores) add({"--mca", "mpi_yield_when_idle", "1"});
    out.argv.insert(out.argv.end(), options.worker.begin(), options.worker.end());
  }
  return out;
}

std::string text(const LaunchCommand& command) {
  std::string out;
  for (const auto& [name, value] : command.variables) out += str(name, "=", quoted(value), " ");
  for (size_t i = 0; i < command.argv.size(); ++i) out += str(i ? " " : "", quoted(command.argv[i]));
  return out;
}

}  // namespace lockstep
