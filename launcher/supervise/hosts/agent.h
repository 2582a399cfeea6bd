// Host agents: for a trainrun started on every host, like torchrun, with the same command and --node-rank.
// Node 0 supervises the run; every other node runs an agent, which starts Open MPI's daemon when node 0's
// mpirun requests it. They communicate through the run's folder, which all hosts see. The daemon then
// connects to mpirun at node 0's address and port.
#pragma once

#include <string>
#include <vector>

#include "launcher/supervise/launch/console.h"
#include "launcher/supervise/launch/options.h"

namespace lockstep::launcher {

// Handles mpirun's call of agent_words (launch/command.h): `words` are a host and its daemon's command, which
// are written for the host's agent.
int hand_over(const std::string& log_dir, const std::vector<std::string>& words);

// On node 0: waits, at most for the start deadline, until every other node has an agent, and fills in the
// hosts' names and ranks. UserError naming the nodes that are missing, and for two hosts with the same name.
void await_agents(LaunchOptions& options, const std::string& run_dir, Console& console);
// On node 0, at the end: tells the agents the exit code.
void dismiss_agents(const LaunchOptions& options, const std::string& run_dir, int exit_code);

// On another node: serves until node 0 ends, and returns node 0's exit code. Returns PeerError's code when
// node 0 was silent for the deadline.
int serve_as_agent(const LaunchOptions& options, const std::string& run_dir);

}  // namespace lockstep::launcher
