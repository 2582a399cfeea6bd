// LaunchHosts: the hosts of a launch, their ranks, and how their daemons are started; parsed from a host
// file, a list, or a Slurm allocation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::launcher {

struct HostRanks {
  std::string name;
  int64_t ranks = 1;
  bool operator==(const HostRanks&) const = default;
};

// How Open MPI's daemon is started on another host.
enum class Reach {
  here,    // only this host
  ssh,     // mpirun, by ssh or the agent of OMPI_MCA_plm_rsh_agent
  agents,  // trainrun itself, started there with the same command and --node-rank
  slurm    // mpirun, by srun, inside an allocation
};

// Ranks are numbered host by host. `list` is empty when this is the only host.
struct LaunchHosts {
  std::vector<HostRanks> list;
  Reach reach = Reach::here;
  std::vector<HostRanks> spare{};  // replacements for lost hosts
  std::string network{};  // interfaces or subnets, as in eth0 or 10.1.0.0/16; "": MPI and NCCL choose
  std::string ports{};    // that MPI listens on, as in 30000-30999 (core/base/port_range.h); "": any
  int64_t node = 0;       // of this host, with agents
  std::string address{};  // with agents: address of node 0; else ""
  int64_t port = 29500;   // with agents: of node 0; MASTER_PORT of the ranks
  bool several() const { return reach != Reach::here; }
  int64_t ranks() const;  // of all hosts
  // The host of a rank; "" where there is one host.
  std::string of(int64_t rank) const;
  // A copy without the named hosts, and with one rank less on its host for each of `ranks`.
  LaunchHosts without(const std::vector<std::string>& names, const std::vector<int64_t>& ranks) const;
};

// Parses "a:4,b": names with their rank counts; `each` is the default count. UserError naming `flag`.
std::vector<HostRanks> read_host_list(const std::string& text, int64_t each, const std::string& flag);
// Lines "NAME", "NAME slots=N" (Open MPI, DeepSpeed) or "NAME:N" (MPICH); # begins a comment. `each` is the
// count for a line without a number. UserError naming the file and the line.
std::vector<HostRanks> read_host_file(const std::string& path, int64_t each);
// The hosts of this process's Slurm allocation and their tasks ("2(x3),1"), from Slurm's variables; a nonzero
// `each` sets the ranks of each host. Empty outside of an allocation. UserError when the variables cannot be
// parsed.
std::vector<HostRanks> slurm_hosts(int64_t each);
// "n[08-10,12],gpu1": n08, n09, n10, n12, gpu1. UserError for anything that is not a Slurm list.
std::vector<std::string> expand_node_list(const std::string& text);

}  // namespace lockstep::launcher
