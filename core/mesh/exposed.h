// ExposedTime: how long a stream's own work stands still for collectives, group by group. Communication that
// is hidden behind work costs nothing here; a peer that comes late counts, since the stream waits for it too.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/mesh/array.h"

namespace lockstep {

class ExposedTime {
 public:
  ExposedTime();
  ~ExposedTime();
  // The mesh with groups that do the same work on the same ranks, and whose waits are measured: along one dim
  // under its name, over all data dims together under kDataDims where there are several, inside and across
  // hosts as such. Groups of one rank are left as they are. `device`: whose groups are meant.
  LiveMesh measured(const LiveMesh& mesh, const Device& device);
  // Work that is enqueued from now on is measured; what was enqueued before is forgotten. Captured work is
  // measured at each of its launches until the next begin().
  void begin();
  // Seconds per name, of what the stream has passed since begin() or, of captured work, in its last launch;
  // the stream is idle now. Every measured name is there, with 0 where nothing was waited for.
  std::map<std::string, double> seconds() const;
  // The same wait by wait, in the order in which they were enqueued: what it waited for (the collective's
  // label), and its seconds.
  std::vector<std::pair<std::string, double>> waits() const;

 private:
  struct Waits;
  std::shared_ptr<Waits> waits_;
};

}  // namespace lockstep
