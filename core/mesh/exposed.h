// ExposedTime: how long a stream waits for collectives, per group. Communication that overlaps with work does
// not count; waiting for a late peer does.
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
  // Returns the mesh with groups that do the same work on the same ranks and whose waits are measured. Waits
  // along one dim count under its name, over several data dims together under kDataDims, inside and across
  // hosts under those names. Groups of one rank stay unwrapped. `device`: the device whose groups are
  // measured.
  LiveMesh measured(const LiveMesh& mesh, const Device& device);
  // Measures work that is enqueued from now on; earlier measurements are dropped. Captured work is measured
  // at each launch until the next begin().
  void begin();
  // Seconds per name since begin(), or of the last launch for captured work. The stream must be idle. The
  // result has every measured name, with 0 if nothing waited.
  std::map<std::string, double> seconds() const;
  // The same per wait, in the order in which they were enqueued: the collective's label and the seconds.
  std::vector<std::pair<std::string, double>> waits() const;

 private:
  struct Waits;
  std::shared_ptr<Waits> waits_;
};

}  // namespace lockstep
