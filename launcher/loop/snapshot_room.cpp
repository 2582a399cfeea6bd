// Determines the free memory for snapshots, on the host and on the device.
#include "launcher/loop/snapshot_room.h"

#include "launcher/memory/host.h"

namespace lockstep::launcher {

using namespace checkpoint;

std::shared_ptr<SnapshotRoom> room_for_snapshots(Workload& work, const WorkerPlace& at) {
  Device& device = work.target().device();
  auto out = std::make_shared<SnapshotRoom>();
  out->has_room = [ranks = at.local_world_size](int64_t bytes) { return room_for_more(bytes, ranks); };
  if (device.addressable()) return out;
  // Host arrays are copied on the host: a copy on the device would stay there.
  out->snapshot =
      Snapshot({&device, [&](const Array& of) {
                  Array& array = work.state().array(of.fqn);
                  return array.lives_on_host() ? array.data.data() : array.on(work.target().device());
                }});
  out->has_room = [&device](int64_t bytes) {  // a tenth stays free
    return static_cast<double>(bytes) <= 0.9 * static_cast<double>(device.memory_info().free);
  };
  return out;
}

}  // namespace lockstep::launcher
