// Hosts: which ranks run on which host, and whether gradients are exchanged inside hosts first.
#pragma once

#include <cstdint>
#include <string>

#include "core/mesh/array.h"
#include "launcher/config/config.h"
#include "launcher/supervise/contract.h"

namespace lockstep::launcher {

struct Hosts {
  int64_t ranks_per_node = 0;  // of the world, neighbours; 0: one host, or not known
  int seats = 0;  // data ranks of a host, where the exchange is inside hosts first, then across; 0: all ranks
                  // exchange with all
  std::string words{};  // the exchange in words, and why it is flat on several hosts; "" on one host
};
// `launched`: ranks per host where mesh.ranks_per_node leaves it open.
Hosts hosts_of(const RunConfig& config, const Mesh& mesh, int64_t launched);

// Ranks of a host, where all hosts have as many and count theirs in order; else 0. Collective.
int64_t launched_per_node(Group& world, const WorkerPlace& at);

}  // namespace lockstep::launcher
