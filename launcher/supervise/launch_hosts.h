// Hosts of a launch: their names and ranks, how their daemons are started, and what is read of them from a
// host file, a list, or a Slurm allocation.
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

// Who starts Open MPI's daemon on another host.
enum class Reach {
  here,    // there is no other host
  ssh,     // mpirun, by ssh or what OMPI_MCA_plm_rsh_agent names
  agents,  // trainrun itself, which was given the same command there with --node-rank
  slurm    // mpirun, by srun, inside an allocation
};

// Ranks are numbered host after host. One host that is this one: `list` is empty.
struct LaunchHosts {
  std::vector<HostRanks> list;
  Reach reach = Reach::here;
  std::vector<HostRanks> spare{};  // which take the place of hosts that are lost
  std::string network{};  // interfaces or subnets, as in eth0 or 10.1.0.0/16; "": MPI and NCCL choose
  std::string ports{};    // that MPI listens on, as in 30000-30999 (core/base/port_range.h); "": any
  int64_t node = 0;       // of this host, with agents
  std::string address{};  // with agents: where node 0 is reached; "" elsewhere
  int64_t port = 29500;   // with agents: of node 0; MASTER_PORT of the ranks
  bool several() const { return reach != Reach::here; }
  int64_t ranks() const;  // of all hosts
  // The host of a rank; "" where there is one host.
  std::string of(int64_t rank) const;
  // Without hosts of these names, and with one rank less where each of these ranks is.
  LaunchHosts without(const std::vector<std::string>& names, const std::vector<int64_t>& ranks) const;
};

// "a:4,b": names with their ranks; `each` where none is given. UserError naming `flag`.
std::vector<HostRanks> read_host_list(const std::string& text, int64_t each, const std::string& flag);
// Lines "NAME", "NAME slots=N" (Open MPI, DeepSpeed) or "NAME:N" (MPICH); # begins a comment. `each` where a
// line gives no number. UserError naming the file and the line.
std::vector<HostRanks> read_host_file(const std::string& path, int64_t each);
// What Slurm's variables say of the allocation that this process is in: hosts and their tasks ("2(x3),1");
// `each`, where it is not 0, is the ranks of each. Empty outside of an allocation. UserError where the
// variables cannot be read.
std::vector<HostRanks> slurm_hosts(int64_t each);
// "n[08-10,12],gpu1": n08, n09, n10, n12, gpu1. UserError for what is no list of Slurm's.
std::vector<std::string> expand_node_list(const std::string& text);

}  // namespace lockstep::launcher
