// Builds the mpirun command for several hosts: hosts, networks, and the ranks' environment.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "core/base/error.h"
#include "core/base/port_range.h"
#include "launcher/supervise/launch/command.h"

extern char** environ;

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {
// Variables of this process that ranks on other hosts need too: those of Lockstep and its libraries, and the
// search paths of programs and Python packages.
bool travels(const std::string& name) {
  static const std::set<std::string> names{"PATH",        "LD_LIBRARY_PATH",      "LD_PRELOAD",
                                           "PYTHONPATH",  "VIRTUAL_ENV",          "GOMP_SPINCOUNT",
                                           "CUDA_HOME",   "CUDA_VISIBLE_DEVICES", "CUBLAS_WORKSPACE_CONFIG",
                                           "MASTER_ADDR", "MASTER_PORT",          "OMP_NUM_THREADS"};
  for (const char* prefix : {"LOCKSTEP_", "AWS_", "OMP_", "NCCL_", "ASAN_", "TSAN_", "UBSAN_", "LSAN_"})
    if (name.rfind(prefix, 0) == 0) return true;
  return names.count(name) > 0;
}

// Interfaces by name; NCCL does not accept subnets.
bool are_names(const std::string& network) { return network.find('/') == std::string::npos; }

void refuse_few_ports(const LaunchHosts& hosts, const PortRange& ports) {
  for (const auto& host : hosts.list)
    if (host.ranks + 1 > ports.count())
      throw UserError(str("--ports ", hosts.ports, " (launch.ports) are ", ports.count(), ", and ", host.name,
                          " needs ", host.ranks + 1, ": one for each of its ranks and one for its daemon"));
}
}  // namespace

std::string host_file(const std::string& log_dir) {
  return fs::absolute(log_dir + "/hosts").lexically_normal().string();
}

std::string host_file_text(const LaunchHosts& hosts) {
  std::string out;
  for (const auto& host : hosts.list) out += str(host.name, " slots=", host.ranks, "\n");
  return out;
}

std::string agent_words(const std::string& log_dir) {
  return str(fs::read_symlink("/proc/self/exe").string(), " hand-over ",
             fs::absolute(log_dir).lexically_normal().string());
}

namespace {
// The network, its ports and its patience, and what ranks know of the hosts.
void set_variables(LaunchCommand& command) {
  const LaunchHosts& hosts = command.hosts;
  auto unless_set = [&](const std::string& name, const std::string& value) {
    if (!std::getenv(name.c_str())) command.variables.emplace_back(name, value);
  };
  unless_set("OMPI_MCA_btl", "self,vader,tcp");  // shared memory within a host, TCP between hosts
  if (!hosts.network.empty()) {
    unless_set("OMPI_MCA_btl_tcp_if_include", hosts.network);
    unless_set("OMPI_MCA_oob_tcp_if_include", hosts.network);
    if (are_names(hosts.network)) unless_set("NCCL_SOCKET_IFNAME", hosts.network);
  }
  if (const auto ports = parse_port_range(hosts.ports)) {
    refuse_few_ports(hosts, *ports);
    // A daemon occupies its whole range although it needs one port, so it gets a range of one.
    for (const int version : {4, 6}) {
      unless_set(str("OMPI_MCA_oob_tcp_dynamic_ipv", version, "_ports"), str(ports->first));
      unless_set(str("OMPI_MCA_btl_tcp_port_min_v", version), str(ports->first + 1));
      unless_set(str("OMPI_MCA_btl_tcp_port_range_v", version), str(ports->count() - 2));  // after the first
    }
  }
  // Keepalive probes detect a host that is cut off before its peers time out without naming it.
  const auto quarter = static_cast<int64_t>(command.deadlines.step_s / 4);
  unless_set("OMPI_MCA_oob_tcp_keepalive_time", str(std::clamp<int64_t>(quarter, 1, 3)));
  unless_set("OMPI_MCA_oob_tcp_keepalive_intvl", "1");
  unless_set("OMPI_MCA_oob_tcp_keepalive_probes", str(std::clamp<int64_t>(quarter, 1, 4)));
  command.variables.emplace_back("LOCKSTEP_HOSTS", str(hosts.list.size()));
  command.variables.emplace_back("MASTER_ADDR", hosts.address.empty() ? hosts.list[0].name : hosts.address);
  command.variables.emplace_back("MASTER_PORT", str(hosts.port));
}

// How mpirun starts its daemons on the hosts.
void name_the_daemons(std::vector<std::string>& words, const LaunchHosts& hosts, const std::string& log_dir) {
  auto mca = [&](const std::string& name, const std::string& value) {
    words.insert(words.end(), {"--mca", name, value});
  };
  if (hosts.reach == Reach::slurm) {
    words.emplace_back("--oversubscribe");        // an allocation may have fewer tasks than ranks
    mca("plm", "slurm");                          // daemons by srun
    if (!std::getenv("OMPI_MCA_plm_slurm_args"))  // also from within a Slurm step, sharing its processors
      mca("plm_slurm_args", "--overlap");
    // Slurm sends SIGTERM to both daemons and ranks: the ranks stop and save, and the daemons wait for them.
    if (!std::getenv("OMPI_MCA_orte_launch_agent")) mca("orte_launch_agent", "env --block-signal=TERM orted");
  } else {
    mca("plm", "rsh");
  }
  if (hosts.reach == Reach::agents) {
    mca("plm_rsh_agent", agent_words(log_dir));
    mca("plm_rsh_no_tree_spawn", "1");
    mca("routed", "direct");
    mca("oob_tcp_static_ipv4_ports", str(hosts.port));
  }
}
}  // namespace

void start_by_mpirun(LaunchCommand& command, const LaunchOptions& options, const std::string& log_dir) {
  const LaunchHosts& hosts = command.hosts = options.hosts;
  set_variables(command);
  std::vector<std::string> words{"mpirun",
                                 "-n",
                                 str(command.nproc),
                                 "--hostfile",
                                 host_file(log_dir),
                                 "--map-by",
                                 "slot",
                                 "--bind-to",
                                 "none",
                                 "--wdir",
                                 fs::current_path().string()};
  if (geteuid() == 0) words.emplace_back("--allow-run-as-root");
  name_the_daemons(words, hosts, log_dir);
  std::set<std::string> given;
  for (const auto& [name, value] : command.variables)
    if (name.rfind("OMPI_MCA_", 0) != 0) given.insert(name);
  for (char** entry = environ; *entry; ++entry)
    if (const std::string name = split(*entry, '=')[0]; travels(name)) given.insert(name);
  for (const auto& name : given) words.insert(words.end(), {"-x", name});
  words.insert(words.end(), options.worker.begin(), options.worker.end());
  command.argv = std::move(words);
}

}  // namespace lockstep::launcher
