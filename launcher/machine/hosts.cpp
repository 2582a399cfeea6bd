// Derives the hosts of an exchange from a config, a mesh and a launch.
#include "launcher/machine/hosts.h"

#include "compiler/reduce/lanes.h"
#include "core/base/error.h"

namespace lockstep::launcher {

using namespace compiler;

Hosts hosts_of(const RunConfig& config, const Mesh& mesh, int64_t launched) {
  Hosts out;
  out.ranks_per_node = config.mesh.ranks_per_node ? config.mesh.ranks_per_node : launched;
  if (out.ranks_per_node < 1 || out.ranks_per_node >= mesh.size() || mesh.data_size() < 2) return out;
  const int seats = data_ranks_per_node(mesh, out.ranks_per_node);
  const int64_t all = micro_batches(config);
  const bool invariant = config.train.numerics == "invariant";
  const LanePlan plan{all, config.batch.lanes ? config.batch.lanes : default_lanes(all),
                      static_cast<int>(mesh.data_size()), 0,
                      lane_order(mesh, static_cast<int>(config.mesh.zero), all, invariant)};
  if (exchanges_by_host(plan, invariant, seats)) {
    out.seats = seats;
    out.words = str("inside ", mesh.size() / out.ranks_per_node, " hosts first, then across, by ", seats,
                    " data ranks of each");
  } else if (!invariant) {
    out.words = "flat: the library's own reductions";
  } else if (!seats) {
    out.words = str("flat: hosts of ", out.ranks_per_node,
                    " ranks do not have several neighbouring data ranks each, of ", mesh.data_size());
  } else {
    out.words = str("flat: ", plan.per_lane(), " micro-batches of a lane are not on one host of ", seats,
                    " data ranks");
  }
  return out;
}

int64_t launched_per_node(Group& world, const WorkerPlace& at) {
  const auto places = all_gather_text(world, str(at.local_rank, " of ", at.local_world_size));
  for (size_t rank = 0; rank < places.size(); ++rank)
    if (places[rank] != str(static_cast<int64_t>(rank) % at.local_world_size, " of ", at.local_world_size))
      return 0;
  return at.local_world_size;
}

}  // namespace lockstep::launcher
