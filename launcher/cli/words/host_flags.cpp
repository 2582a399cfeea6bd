// Turns --nnodes and related flags into hosts and their ranks.
#include "launcher/cli/words/host_flags.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/port_range.h"
#include "launcher/cli/words/care_flags.h"

namespace lockstep::launcher::cli {

namespace {
struct NodeCount {
  int64_t least = 0, most = 0;  // 0: not given
};

int64_t positive(const std::string& text) {
  const bool digits =
      !text.empty() && text.size() < 7 && text.find_first_not_of("0123456789") == std::string::npos;
  return digits ? std::atoll(text.c_str()) : 0;
}

NodeCount read_nnodes(const std::string& text) {
  if (text.empty()) return {};
  const size_t colon = text.find(':');
  const int64_t least = positive(text.substr(0, colon)),
                most = colon == std::string::npos ? least : positive(text.substr(colon + 1));
  if (least < 1 || most < least)
    throw UserError(
        str("--nnodes is \"", shortened(text, 60), "\"; give a number of hosts, 1 or more, or MIN:MAX"));
  return {least, most};
}

std::string this_host() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

// "HOST", "HOST:PORT" and "[v6]:PORT" of --rdzv-endpoint; else --master-addr and --master-port.
void read_endpoint(LaunchHosts& hosts, const HostFlags& flags) {
  hosts.address = flags.address;
  if (flags.port) hosts.port = flags.port;
  if (flags.endpoint.empty()) return;
  if (!flags.address.empty())
    throw UserError(str("--rdzv-endpoint ", flags.endpoint, " and --master-addr ", flags.address,
                        " are both given; they say the same: leave one out"));
  const size_t colon = flags.endpoint.rfind(':');
  hosts.address = flags.endpoint.substr(0, colon);
  if (colon == std::string::npos) return;
  hosts.port = positive(flags.endpoint.substr(colon + 1));
  if (hosts.port < 1 || hosts.port > 65535 || hosts.address.empty())
    throw UserError(str("--rdzv-endpoint is \"", shortened(flags.endpoint, 60),
                        "\"; give HOST:PORT, with a port of 1 to 65535 (default 29500)"));
}

// The same command on each host.
void place_by_agents(LaunchOptions& launch, const HostFlags& flags, NodeCount count, int64_t each) {
  LaunchHosts& hosts = launch.hosts;
  if (count.least != count.most)
    throw UserError(
        str("--nnodes ", flags.nnodes,
            ": a run whose hosts each have this command needs all of them; give --nnodes ", count.most,
            ", or name the hosts with --hosts or --hostfile, of which those that are lost are left out"));
  if (flags.node_rank < 0 || hosts.address.empty())
    throw UserError(str("--nnodes ", count.most, " with ",
                        flags.node_rank < 0 ? "--master-addr or --rdzv-endpoint, and without --node-rank"
                                            : "--node-rank, and without --master-addr or --rdzv-endpoint",
                        ": on each host the same command is given, with --node-rank 0 to ", count.most - 1,
                        " and --master-addr HOST, which is node 0"));
  if (flags.node_rank >= count.most)
    throw UserError(str("--node-rank ", flags.node_rank, " is not below --nnodes ", count.most));
  hosts.reach = Reach::agents;
  hosts.node = flags.node_rank;
  hosts.list.assign(hosts.node == 0 ? count.most : 1, HostRanks{this_host(), each});
  launch.nproc = count.most * each;
}

bool is_this_host(const std::string& name) { return name == "localhost" || name == this_host(); }

// Hosts named by a flag or by Slurm.
void place_on_list(LaunchOptions& launch, std::vector<HostRanks> list, const NodeCount& count, Reach reach,
                   const std::string& source) {
  const auto there = static_cast<int64_t>(list.size());
  if (count.least > there)
    throw UserError(str("--nnodes ", count.least, ", and ", source, " has ", there,
                        there == 1 ? " host" : " hosts", "; ask for as many, or add hosts"));
  LaunchHosts& hosts = launch.hosts;
  if (count.most && count.most < there) {
    hosts.spare.assign(list.begin() + count.most, list.end());
    list.resize(count.most);
  }
  hosts.list = list;
  launch.nproc = hosts.ranks();
  if (list.size() == 1 && (reach == Reach::slurm || is_this_host(list[0].name))) {
    hosts.list.clear();
    return;
  }
  hosts.reach = reach;
  if (count.least && count.least < static_cast<int64_t>(list.size()) && launch.min_nproc == 0) {
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
    for (int64_t i = 0; i < count.least; ++i) launch.min_nproc += list[i].ranks;
  }
}
}  // namespace

void add_host_flags(CLI::App& app, HostFlags& flags) {
  app.add_option("--nnodes", flags.nnodes,
                 "number of hosts, each with --nproc ranks; further named hosts are spare; MIN:MAX: a "
                 "restart continues without lost hosts, down to MIN")
      ->type_name("N|MIN:MAX");
  app.add_option("--hosts,--host", flags.hosts,
                 "the names of the hosts, as in a:4,b:4; trainrun reaches them by ssh")
      ->type_name("NAME[:N],...");
  app.add_option("--hostfile,--machinefile", flags.hostfile,
                 "file of the hosts, with a line \"NAME slots=N\" for each")
      ->type_name("FILE");
  app.add_option("--node-rank,--node_rank", flags.node_rank,
                 "this host's number, where the same command is given on each host; the others need no ssh")
      ->transform(whole_number_within(0))
      ->type_name("K");
  app.add_option("--master-addr,--master_addr", flags.address, "address of node 0, with --node-rank")
      ->type_name("HOST");
  app.add_option("--master-port,--master_port", flags.port, "its port; default 29500")
      ->transform(whole_number_within(1, 65535))
      ->type_name("PORT");
  app.add_option("--rdzv-endpoint,--rdzv_endpoint", flags.endpoint, "address and port of node 0 together")
      ->type_name("HOST[:PORT]");
  app.add_option("--network", flags.network,
                 "interfaces between hosts, as in eth0 or 10.1.0.0/16; default: MPI and NCCL choose")
      ->type_name("NAME|SUBNET,...");
  app.add_option("--ports", flags.ports,
                 "TCP ports on which MPI listens, for a firewall between the hosts; default: any")
      ->type_name("FIRST-LAST");
}

void place_on_hosts(LaunchOptions& launch, const HostFlags& flags, int64_t each, bool given) {
  launch.nproc = each;
  launch.hosts = {};
  launch.hosts.network = flags.network;
  launch.hosts.ports = flags.ports;
  if (!flags.ports.empty() && !parse_port_range(flags.ports))
    throw UserError(str("--ports is \"", shortened(flags.ports, 60),
                        "\"; give FIRST-LAST, of 1024 to 65535, as in 30000-30999"));
  const NodeCount count = read_nnodes(flags.nnodes);
  read_endpoint(launch.hosts, flags);
  const bool by_agents = flags.node_rank >= 0 || !launch.hosts.address.empty();
  if (!flags.hosts.empty() && !flags.hostfile.empty())
    throw UserError("--hosts and --hostfile are both given; leave one out");
  if (!flags.hosts.empty() || !flags.hostfile.empty()) {
    const std::string flag = flags.hosts.empty() ? "--hostfile " + flags.hostfile : "--hosts";
    if (by_agents)
      throw UserError(str(flag, " names hosts that one command reaches, and --node-rank, --master-addr and ",
                          "--rdzv-endpoint are for a command on each host; leave one of the two out"));
    auto list = flags.hosts.empty() ? read_host_file(flags.hostfile, each)
                                    : read_host_list(flags.hosts, each, "--hosts");
    if (given)
      for (auto& host : list) host.ranks = each;
    const bool job = std::getenv("SLURM_JOB_ID") != nullptr;
    return place_on_list(launch, std::move(list), count, job ? Reach::slurm : Reach::ssh, flag);
  }
  if (by_agents) {
    if (count.most > 1) return place_by_agents(launch, flags, count, each);
    if (flags.node_rank > 0)
      throw UserError(
          str("--node-rank ", flags.node_rank, " is not below --nnodes ", std::max<int64_t>(1, count.most)));
    launch.hosts.address.clear();
    return;
  }
  if (!flags.slurm.empty()) {  // Slurm chooses the hosts later
    launch.nproc = each * std::max<int64_t>(1, count.most);
    launch.hosts.list.assign(std::max<int64_t>(1, count.most), HostRanks{"", each});
    return;
  }
  if (auto list = slurm_hosts(given ? each : 0); !list.empty())
    return place_on_list(launch, std::move(list), count, Reach::slurm, "this Slurm job");
  if (count.most > 1)
    throw UserError(
        str("--nnodes ", flags.nnodes, " does not say where the hosts are; name them with --hosts a,b or ",
            "--hostfile FILE, give the same command on each with --node-rank K --master-addr HOST, or ",
            "start it inside a Slurm job (--slurm submits one)"));
}

}  // namespace lockstep::launcher::cli
