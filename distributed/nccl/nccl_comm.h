// A communicator of NCCL that never blocks: every call is polled until the deadline, and one that fails is
// torn down.
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
  // Collective over the ranks that share `id`. `site` names the group in errors. PeerError when it is not
  // made within `seconds`.
  static std::shared_ptr<NcclComm> make(cuda::CudaDevice& device, const ncclUniqueId& id, int rank, int size,
                                        const std::string& site, double seconds);
  // Collective over this communicator. The child shares its resources and keeps the parent. They share the
  // flag that ends their kernels too: when one of them is aborted, the others are of no use and say so.
  std::shared_ptr<NcclComm> split(int color, int key, const std::string& site, double seconds);
  // Flushed and destroyed, unless it was aborted, an exception is on its way, or NCCL does not come to an end
  // within seconds: then it is left to the end of the process. Captured work that holds its collectives must
  // be gone.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  ncclComm_t get() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  // Makes the calls of one NCCL group; returns when they are enqueued on their streams. They may be enqueued
  // from another thread, so nothing may be enqueued behind them before this returns. `calls` gives the first
  // result that is no success. Returns "" or what went wrong; the communicator is then aborted.
  std::string run(const std::function<ncclResult_t()>& calls, double seconds);
  std::string asynchronous_error() const;  // "" when all is well
  // Ends what the device runs for this communicator. Returns within two seconds whether NCCL has come to an
  // end or not.
  void abort();

 private:
  NcclComm(cuda::CudaDevice& device) : device_(device) {}
  // Polls until NCCL has come to the end of what a call began, which gave `result`; "" or what went wrong.
  // comm_ is not null. `spent` of the seconds are over.
  std::string settle(ncclResult_t result, double seconds, double spent = 0);
  std::string words(ncclResult_t result) const;
  std::string know();  // rank and size; "" or what went wrong

  cuda::CudaDevice& device_;
  std::shared_ptr<NcclComm> parent_;
  ncclComm_t comm_ = nullptr;
  int rank_ = 0, size_ = 1;
  bool aborted_ = false;
  std::shared_ptr<std::atomic<bool>> ended_ =
      std::make_shared<std::atomic<bool>>(false);  // one of those that share was aborted
};

}  // namespace lockstep::distributed
