// What a rank sends in a step: every collective of a typed program with its mesh dims, its bytes and its
// place in the step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/reduce/lanes.h"
#include "compiler/schedule/gathers.h"
#include "compiler/schedule/phases.h"
#include "launcher/machine/roofline.h"

namespace lockstep {

// The ranks that a collective joins, as a link sees them: how many, and how many of them are on one node with
// the first of them.
struct GroupShape {
  int64_t ranks = 1, per_node = 1;
  bool operator==(const GroupShape&) const = default;
};
// The group of rank 0 along `dims` (indices) of a mesh whose ranks fill nodes of `ranks_per_node` in order.
GroupShape group_shape(const Mesh& mesh, const std::vector<int>& dims, int64_t ranks_per_node);
// Seconds of a collective in which a rank sends `bytes`, as many to each other rank of its group. What stays
// on the node and what leaves it travel side by side; a group of one rank sends nothing.
double travel_seconds(int64_t bytes, const GroupShape& group, const Roofline& roofline);
// The same of an exchange that goes inside hosts first, then `across` of its bytes across.
double staged_seconds(int64_t bytes, int64_t across, const Roofline& roofline);

struct Transfer {
  enum class Moment { count, head, body, exchange, tail };
  std::string op;         // "all_gather", "all_reduce", "lane_exchange", ...
  std::vector<int> dims;  // of the mesh, those of more than one rank
  Moment moment = Moment::tail;
  int64_t times = 1;  // per step, on the rank with the most micro-batches
  int64_t bytes = 0;  // that the fullest rank sends each time
  int64_t across =
      -1;  // of these, to other hosts, after what goes inside the host; -1: as many to each other rank
};

// The collectives of a planned step in program order; none along dims of one rank. An exchange of gradients
// acts on all data dims, the other ops on the dim that their node names, or on all data dims where it names
// none of the mesh. `exchange_bytes`: what one rank sends per exchange, in the order of phases.exchanges.
std::vector<Transfer> transfers(const Phases& phases, const Mesh& mesh,
                                const std::vector<int64_t>& exchange_bytes, int64_t micro_batches);
// The gathers of weights that every body makes for itself, in the order of its plan. A rank sends its rows to
// each other one.
std::vector<Transfer> weight_gathers(const Phases& phases, const GatherPlan& plan, const Mesh& mesh,
                                     int64_t micro_batches);
// Seconds that the calls of one body wait for its gathers, which travel one after another, each from where
// the plan starts it. `calls`: seconds of each call; `travel`: of each bucket.
double exposed_gathers(const GatherPlan& plan, const std::vector<double>& calls,
                       const std::vector<double>& travel);
std::string dims_text(const Mesh& mesh,
                      const std::vector<int>& dims);  // "dp_replicate", "dp_replicate x dp_shard"

}  // namespace lockstep
