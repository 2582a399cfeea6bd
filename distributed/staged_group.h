// Groups for device memory that need no device communicator.
#pragma once

#include <memory>
#include <string>

#include "core/device/device.h"
#include "core/mesh/group.h"

namespace lockstep::distributed {

// A group that copies to the host, runs the collective on `host`, and copies back. It works for any device,
// at the speed of its copies. The host part runs as host work of the stream that the collective was started
// on, and of the stream that waits for it. Not capturable.
std::shared_ptr<Group> staged_group(Device& device, std::shared_ptr<Group> host);
// The group of one rank on a device: a collective is a copy on the stream it was started on. Capturable if
// the device can capture.
std::shared_ptr<Group> solo_device_group(Device& device, const std::string& name = "world");

}  // namespace lockstep::distributed
