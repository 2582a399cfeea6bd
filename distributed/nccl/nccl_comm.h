// NcclComm: a non-blocking NCCL communicator. Every call is polled until the deadline; a failure aborts the
// communicator.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "core/device/cuda/cuda_device.h"
#include "distributed/nccl/nccl_library.h"

namespace lockstep::distributed {

class NcclComm : public std::enable_shared_from_this<NcclComm> {
 public:
  // Collective over the ranks that share `id`. `site` names the group in errors. Throws PeerError if the
  // communicator is not made within `seconds`.
  static std::shared_ptr<NcclComm> make(cuda::CudaDevice& device, const ncclUniqueId& id, int rank, int size,
                                        const std::string& site, double seconds);
  // Collective over this communicator. The child shares the parent's resources and keeps it alive. Both share
  // the flag that ends their kernels: when one is aborted, the others become unusable and report it.
  std::shared_ptr<NcclComm> split(int color, int key, const std::string& site, double seconds);
  // Flushes and destroys the communicator, unless it was aborted, an exception is propagating, or NCCL does
  // not finish within seconds; then it is leaked until the process ends. Destroy captured work with its
  // collectives before.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  ncclComm_t get() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  // Makes the calls of one NCCL group and returns when they are enqueued on their streams. NCCL may enqueue
  // them from another thread, so enqueue nothing after them before this returns. `calls` returns the first
  // error result. Returns "" or the error, after which the communicator is aborted.
  std::string run(const std::function<ncclResult_t()>& calls, double seconds);
  std::string asynchronous_error() const;  // "" if there is none
  // Ends the device work of this communicator. Returns within two seconds, even if NCCL has not finished by
  // then.
  void abort();

 private:
  NcclComm(cuda::CudaDevice& device) : device_(device) {}
  // Polls until NCCL has finished a call that returned `result`; returns "" or the error. comm_ must not be
  // null. `spent` seconds have already passed.
  std::string settle(ncclResult_t result, double seconds, double spent = 0);
  std::string words(ncclResult_t result) const;
  std::string know();  // asks for rank and size; returns "" or the error

  cuda::CudaDevice& device_;
  std::shared_ptr<NcclComm> parent_;
  ncclComm_t comm_ = nullptr;
  int rank_ = 0, size_ = 1;
  bool aborted_ = false;
  // A communicator that shares the resources was aborted.
  std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace lockstep::distributed
