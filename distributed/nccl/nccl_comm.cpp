// The life of a communicator: made, polled, aborted or destroyed.
#include "distributed/nccl/nccl_comm.h"

#include <chrono>
#include <exception>
#include <future>
#include <thread>

#include "core/base/error.h"

namespace lockstep {

namespace {
using Clock = std::chrono::steady_clock;
constexpr double kDestroySeconds = 20;
constexpr std::chrono::seconds kAbortSeconds{2};

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Short at first: a collective is enqueued within tens of microseconds.
void pause(Clock::time_point begin) {
  if (Clock::now() - begin < std::chrono::microseconds(500))
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(100));
}

ncclConfig_t config() {
  ncclConfig_t out = NCCL_CONFIG_INITIALIZER;
  out.blocking = 0;
  out.splitShare = 1;
  return out;
}
}  // namespace

std::string NcclComm::words(ncclResult_t result) const {
  const char* last = nccl().GetLastError(comm_);
  return str(nccl().GetErrorString(result), last && *last ? str(" (", last, ")") : "");
}

std::string NcclComm::settle(ncclResult_t result, double seconds) {
  const auto begin = Clock::now(), deadline = after(seconds);
  while (result == ncclInProgress) {
    if (comm_ && nccl().CommGetAsyncError(comm_, &result) != ncclSuccess) result = ncclInternalError;
    if (result != ncclInProgress) break;
    if (Clock::now() > deadline) {
      abort();
      return str("NCCL was still at work after ", number_text(seconds), " s; a peer is late, has ended, or is at another collective");
    }
    pause(begin);
  }
  if (result == ncclSuccess) return "";
  std::string text = words(result);
  abort();
  return text;
}

void NcclComm::know() {
  nccl().CommUserRank(comm_, &rank_);
  nccl().CommCount(comm_, &size_);
}

std::shared_ptr<NcclComm> NcclComm::make(cuda::CudaDevice& device, const ncclUniqueId& id, int rank, int size, const std::string& site,
                                         double seconds) {
  device.enter();
  std::shared_ptr<NcclComm> out(new NcclComm(device));
  ncclConfig_t wanted = config();
  std::string error = out->settle(nccl().CommInitRankConfig(&out->comm_, size, id, rank, &wanted), seconds);
  if (!error.empty()) throw PeerError(str(site, ": no communicator on rank ", rank, " of ", size, " (", device.describe(), "): ", error));
  out->know();
  return out;
}

std::shared_ptr<NcclComm> NcclComm::split(int color, int key, const std::string& site, double seconds) {
  device_.enter();
  std::shared_ptr<NcclComm> out(new NcclComm(device_));
  ncclConfig_t wanted = config();
  // The parent is at work until the child exists; then the child is until it is ready.
  std::string error = settle(nccl().CommSplit(comm_, color, key, &out->comm_, &wanted), seconds);
  if (error.empty()) error = out->comm_ ? out->settle(ncclInProgress, seconds) : "NCCL gave no communicator";
  if (!error.empty()) throw PeerError(str(site, ": no communicator for color ", color, " on rank ", rank_, " of ", size_, ": ", error));
  out->know();
  out->parent_ = shared_from_this();
  return out;
}

std::string NcclComm::run(const std::function<ncclResult_t()>& calls, double seconds) {
  if (aborted_) return "the communicator was aborted";
  device_.enter();
  ncclResult_t result = nccl().GroupStart();
  ncclResult_t bad = ncclSuccess;
  if (result == ncclSuccess) {
    bad = calls();
    result = nccl().GroupEnd();
  }
  if (bad != ncclSuccess && bad != ncclInProgress && result == ncclSuccess) result = bad;
  return settle(result, seconds);
}

std::string NcclComm::asynchronous_error() const {
  if (aborted_ || !comm_) return "";
  ncclResult_t state = ncclSuccess;
  ncclResult_t result = nccl().CommGetAsyncError(comm_, &state);
  if (result == ncclSuccess) result = state;
  return result == ncclSuccess || result == ncclInProgress ? "" : words(result);
}

// ncclCommAbort raises the flag that running kernels look at, and then cleans up, which has been seen to wait for peers and for kernels of
// other communicators: so it has a thread of its own.
void NcclComm::abort() {
  if (aborted_ || !comm_) return;
  aborted_ = true;
  auto ended = std::make_shared<std::promise<void>>();
  auto future = ended->get_future();
  std::thread([comm = comm_, &device = device_, ended] {
    try {
      device.enter();
      nccl().CommAbort(comm);
    } catch (...) {}  // the device is lost: there is nothing left to end
    ended->set_value();
  }).detach();
  future.wait_for(kAbortSeconds);
}

NcclComm::~NcclComm() {
  if (!comm_ || aborted_ || std::uncaught_exceptions() > 0) return;
  try {
    device_.enter();
    if (settle(nccl().CommFinalize(comm_), kDestroySeconds).empty()) nccl().CommDestroy(comm_);
  } catch (...) {}  // a destructor: what cannot be destroyed is left to the end of the process
}

}  // namespace lockstep
