// Builds the command and environment of a rank, and states why each variable is set.
#include "launcher/supervise/launch/command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/base/env.h"
#include "core/base/error.h"

namespace lockstep::launcher {

std::string quoted(const std::string& word) {
  auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("-_./=:,+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string found_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const auto& folder : split(path ? path : "/usr/bin:/bin", ':')) {
    const std::string file = str(folder.empty() ? "." : folder, "/", program);
    if (std::error_code failed;
        std::filesystem::is_regular_file(file, failed) && access(file.c_str(), X_OK) == 0)
      return file;
  }
  return "";
}

int64_t threads_per_rank(const LaunchOptions& options, int64_t nproc, int64_t cores) {
  if (options.threads > 0) return options.threads;
  if (const char* own = std::getenv("OMP_NUM_THREADS"); own && std::atoll(own) > 0) return std::atoll(own);
  return std::max<int64_t>(1, cores / nproc);
}

LaunchCommand launch_command(const LaunchOptions& options, int64_t nproc, const std::string& run_dir,
                             const std::string& log_dir, int64_t restart, int columns) {
  LaunchCommand out;
  int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  int64_t neighbours = nproc;  // ranks that share the cores of a host
  if (options.hosts.several()) neighbours = 1;
  for (const auto& host : options.hosts.list) neighbours = std::max(neighbours, host.ranks);
  int64_t threads = threads_per_rank(options, neighbours, cores);
  out.variables = {{"OMP_NUM_THREADS", str(threads)},
                   {"LOCKSTEP_RUN_DIR", std::filesystem::absolute(run_dir).lexically_normal().string()},
                   {"LOCKSTEP_LOG_DIR", std::filesystem::absolute(log_dir).lexically_normal().string()},
                   {"LOCKSTEP_RESTART", str(restart)},
                   {"LOCKSTEP_TERMINAL", str(columns)}};
  if (!options.memory_dir.empty()) out.variables.emplace_back("LOCKSTEP_MEMORY_FOLDER", options.memory_dir);
  out.deadlines = read_deadlines(options.deadlines.empty() ? env("LOCKSTEP_DEADLINE") : options.deadlines);
  out.variables.emplace_back("LOCKSTEP_DEADLINE", text(out.deadlines));
  if (!options.verify_collectives.empty())
    out.variables.emplace_back("LOCKSTEP_VERIFY_COLLECTIVES", options.verify_collectives);
  out.variables.insert(out.variables.end(), options.variables.begin(), options.variables.end());
  if (options.profile > 0) out.variables.emplace_back("LOCKSTEP_PROFILE", str(options.profile));
  // On shared cores, a thread that spins at the end of a parallel loop takes the core from the thread it
  // waits for.
  if (!std::getenv("GOMP_SPINCOUNT") && !std::getenv("OMP_WAIT_POLICY"))
    out.variables.emplace_back("GOMP_SPINCOUNT", "10000");
  // A nested launch: the variables of an outer mpirun or srun describe this process, not its ranks.
  out.without = {
      "OMPI_COMM_WORLD_", "OMPI_MCA_ess", "OMPI_MCA_orte_",  "OMPI_UNIVERSE_SIZE", "PMIX_", "PMI_", "RANK",
      "WORLD_SIZE",       "LOCAL_RANK",   "LOCAL_WORLD_SIZE"};
  out.nproc = nproc;
  out.argv = options.worker;
  out.heeds_stop = options.heeds_stop;
  if (nproc == 1 && !options.hosts.several()) return out;
  // The user's choice of MPI transports takes precedence: OMPI_MCA_btl=self,tcp forces TCP.
  auto unless_set = [&](const char* name, const char* value) {
    if (!std::getenv(name)) out.variables.emplace_back(name, value);
  };
  if (neighbours * threads > cores) unless_set("OMPI_MCA_mpi_yield_when_idle", "1");
  unless_set("OMPI_MCA_pml", "ob1");                               // no probing of fabrics
  unless_set("OMPI_MCA_btl_vader_single_copy_mechanism", "none");  // containers often forbid process_vm_readv
  if (options.hosts.several()) {
    start_by_mpirun(out, options, log_dir);
    return out;
  }
  unless_set("OMPI_MCA_btl", "self,vader");  // shared memory only: no rank listens on a port
  unless_set("OMPI_MCA_btl_tcp_if_include", "lo");
  unless_set("NCCL_SOCKET_IFNAME",
             "lo");  // NCCL ranks connect over a socket, which would otherwise listen on the network
  // trainrun chooses the thread count, so ranks are not bound to cores.
  out.variables.emplace_back("OMPI_MCA_hwloc_base_binding_policy", "none");
  out.variables.emplace_back("OMPI_MCA_orte_bound_at_launch", "1");
  // Without a daemon Open MPI treats a process as a world of one. It only reads the daemon's name, then asks
  // the PMIx server.
  out.variables.emplace_back("OMPI_MCA_orte_local_daemon_uri", "0.0;tcp://127.0.0.1:9");
  return out;
}

std::vector<std::pair<std::string, std::string>> place_variables(const std::string& rank, int64_t nproc) {
  std::vector<std::pair<std::string, std::string>> out = {
      {"RANK", rank}, {"LOCAL_RANK", rank}, {"WORLD_SIZE", str(nproc)}, {"LOCAL_WORLD_SIZE", str(nproc)}};
  if (nproc == 1) return out;
  for (const char* name : {"RANK", "LOCAL_RANK", "NODE_RANK"})
    out.emplace_back(str("OMPI_COMM_WORLD_", name), rank);
  for (const char* name : {"SIZE", "LOCAL_SIZE"}) out.emplace_back(str("OMPI_COMM_WORLD_", name), str(nproc));
  return out;
}

std::string text(const LaunchCommand& command) {
  const char* const next = " \\\n";
  std::string out;
  for (const auto& [name, value] : command.variables) out += str(name, "=", quoted(value), next);
  if (!command.hosts.several())
    for (const auto& [name, value] : place_variables(command.nproc > 1 ? "R" : "0", command.nproc))
      out += str(name, "=", value, next);
  for (size_t i = 0; i < command.argv.size(); ++i) {
    const std::string& word = command.argv[i];
    const bool flag = i > 0 && word.size() > 1 && word[0] == '-';
    const bool program = i > 1 && command.argv[i - 2] == "-x";  // after mpirun's last flag
    out += str(i == 0                                         ? ""
               : command.hosts.several() && (flag || program) ? str(next, "  ")
                                                              : " ",
               quoted(word));
  }
  return out;
}

}  // namespace lockstep::launcher
