// Hosts on which trainrun itself was started, as torchrun is: the same command on each, with --node-rank. On
// node 0 it supervises the run; on each other one it is an agent, which starts Open MPI's daemon when node
// 0's mpirun asks for it. They meet in the run's folder, which all hosts see; the daemon then connects to
// mpirun, at node 0's address and port.
#pragma once

#include <string>
#include <vector>

#include "launcher/supervise/console.h"
#include "launcher/supervise/options.h"

namespace lockstep::launcher {

// What mpirun calls instead of ssh: this trainrun, with the attempt's folder.
std::string agent_words(const std::string& log_dir);
// That call: `words` are a host and the command of its daemon, which are written for the host's agent.
int hand_over(const std::string& log_dir, const std::vector<std::string>& words);

// On node 0: waits until every other node has its agent, at most the deadline of the start, and fills in the
// hosts' names and ranks. UserError naming the nodes that are missing, and for two hosts of one name.
void await_agents(LaunchOptions& options, const std::string& run_dir, Console& console);
// On node 0, at the end: tells the agents the exit code.
void dismiss_agents(const LaunchOptions& options, const std::string& run_dir, int exit_code);

// On another node: serves until node 0 has ended, whose exit code it returns. PeerError's code where nothing
// was heard of node 0 for that time.
int serve_as_agent(const LaunchOptions& options, const std::string& run_dir);

}  // namespace lockstep::launcher
