// Chooses the kind of group for a device.
#include "distributed/device_group.h"

#include "distributed/staged_group.h"

#ifdef LOCKSTEP_CUDA
#include "distributed/nccl/nccl_group.h"
#endif

namespace lockstep::distributed {

std::shared_ptr<Group> device_group(Device& device, const std::shared_ptr<Group>& host) {
  if (device.addressable()) return host;
  if (host->size() == 1) return solo_device_group(device, host->name());
#ifdef LOCKSTEP_CUDA
  if (auto* gpu = dynamic_cast<cuda::CudaDevice*>(&device)) return nccl_group(*gpu, *host, host->name());
#endif
  return staged_group(device, host);
}

std::shared_ptr<Group> split_device_group(Device& device, const std::shared_ptr<Group>& parent,
                                          const std::shared_ptr<Group>& host, int color, int key) {
  if (device.addressable()) return host;
  if (host->size() == 1) return solo_device_group(device, host->name());
  if (host->size() == parent->size()) return parent;
#ifdef LOCKSTEP_CUDA
  if (dynamic_cast<cuda::CudaDevice*>(&device)) return split_nccl_group(*parent, color, key, host->name());
#endif
  (void)color, (void)key;
  return staged_group(device, host);
}

}  // namespace lockstep::distributed
