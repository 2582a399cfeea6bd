// A group on a device's memory, seen as one on the host's: so that the one suite runs over it. Buffers go
// there before, and back at the wait.
#pragma once

#include <memory>

#include "core/device/device.h"
#include "core/mesh/group.h"

namespace lockstep::conformance {

// Each collective gets buffers of its own in the device's memory, with a poisoned output, and is started on
// one stream of the device.
std::shared_ptr<Group> over_device(Device& device, std::shared_ptr<Group> inner);

}  // namespace lockstep::conformance
