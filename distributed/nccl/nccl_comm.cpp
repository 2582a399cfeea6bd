// The life of a communicator: creation, polling, abort or destruction.
#include "distributed/nccl/nccl_comm.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <thread>

#include "core/base/error.h"

namespace lockstep::distributed {

namespace {
using Clock = std::chrono::steady_clock;
constexpr double kDestroySeconds = 20;
constexpr std::chrono::seconds kAbortSeconds{2};

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Short pauses at first: a collective is enqueued within tens of microseconds.
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

// The memory into which NCCL writes a communicator. NCCL's thread may write until the call has completed, so
// the memory is leaked if it did not complete.
class Place {
 public:
  ncclComm_t* get() { return place_.get(); }
  ncclComm_t value() { return std::atomic_ref<ncclComm_t>(*place_).load(std::memory_order_acquire); }
  void leave_it() { (void)place_.release(); }

 private:
  std::unique_ptr<ncclComm_t> place_ = std::make_unique<ncclComm_t>(nullptr);
};
constexpr const char* kNoCommunicator = "NCCL gave no communicator";
constexpr const char* kEnded =
    "the communicator, or one that shares its resources, was aborted after an error";
}  // namespace

std::string NcclComm::words(ncclResult_t result) const {
  const char* last = nccl().GetLastError(comm_);
  return str(nccl().GetErrorString(result), last && *last ? str(" (", last, ")") : "");
}

std::string NcclComm::settle(ncclResult_t result, double seconds, double spent) {
  const auto begin = Clock::now(), deadline = after(seconds - spent);
  // Some calls, such as ncclCommSplit of 2.28, return ncclSuccess before their work has started, so poll the
  // communicator.
  if (result == ncclSuccess) result = ncclInProgress;
  while (result == ncclInProgress) {
    if (nccl().CommGetAsyncError(comm_, &result) != ncclSuccess) result = ncclInternalError;
    if (result != ncclInProgress) break;
    if (Clock::now() > deadline) {
      abort();
      return str("NCCL was still at work after ", number_text(seconds),
                 " s; a peer is late, has ended, or is at another collective");
    }
    pause(begin);
  }
  if (result == ncclSuccess) return "";
  std::string text = words(result);
  abort();
  return text;
}

std::string NcclComm::know() {
  ncclResult_t result = nccl().CommUserRank(comm_, &rank_);
  if (result == ncclSuccess) result = nccl().CommCount(comm_, &size_);
  return result == ncclSuccess ? "" : words(result);
}

std::shared_ptr<NcclComm> NcclComm::make(cuda::CudaDevice& device, const ncclUniqueId& id, int rank, int size,
                                         const std::string& site, double seconds) {
  device.enter();
  std::shared_ptr<NcclComm> out(new NcclComm(device));
  ncclConfig_t wanted = config();
  Place place;
  ncclResult_t result = nccl().CommInitRankConfig(place.get(), size, id, rank, &wanted);
  out->comm_ = place.value();  // set when the call returns, ready or not
  std::string error = out->comm_                                          ? out->settle(result, seconds)
                      : result == ncclSuccess || result == ncclInProgress ? kNoCommunicator
                                                                          : out->words(result);
  if (error.empty()) error = out->know();
  if (!error.empty()) {
    place.leave_it();
    throw PeerError(
        str(site, ": no communicator on rank ", rank, " of ", size, " (", device.describe(), "): ", error));
  }
  return out;
}

std::shared_ptr<NcclComm> NcclComm::split(int color, int key, const std::string& site, double seconds) {
  device_.enter();
  if (*ended_)
    throw PeerError(
        str(site, ": no communicator for color ", color, " on rank ", rank_, " of ", size_, ": ", kEnded));
  std::shared_ptr<NcclComm> out(new NcclComm(device_));
  out->ended_ = ended_;
  ncclConfig_t wanted = config();
  // The parent is busy until the child exists (its pointer is null until then), then the child is until it is
  // ready.
  Place place;
  const auto begin = Clock::now();
  std::string error = settle(nccl().CommSplit(comm_, color, key, place.get(), &wanted), seconds);
  if (error.empty()) {
    out->comm_ = place.value();
    std::chrono::duration<double> spent = Clock::now() - begin;
    error = out->comm_ ? out->settle(ncclInProgress, seconds, spent.count()) : kNoCommunicator;
    if (error.empty()) error = out->know();
  } else {
    place.leave_it();
  }
  if (!error.empty())
    throw PeerError(
        str(site, ": no communicator for color ", color, " on rank ", rank_, " of ", size_, ": ", error));
  out->parent_ = shared_from_this();
  return out;
}

std::string NcclComm::run(const std::function<ncclResult_t()>& calls, double seconds) {
  if (*ended_) return kEnded;
  device_.enter();
  ncclResult_t result = nccl().GroupStart();
  ncclResult_t bad = ncclSuccess;
  if (result == ncclSuccess) {
    bad = calls();
    result = nccl().GroupEnd();
  }
  if (bad != ncclSuccess && bad != ncclInProgress && (result == ncclSuccess || result == ncclInProgress))
    result = bad;
  return settle(result, seconds);
}

std::string NcclComm::asynchronous_error() const {
  if (aborted_ || !comm_) return "";
  if (*ended_) return kEnded;
  ncclResult_t state = ncclSuccess;
  ncclResult_t result = nccl().CommGetAsyncError(comm_, &state);
  if (result == ncclSuccess) result = state;
  return result == ncclSuccess || result == ncclInProgress ? "" : words(result);
}

// ncclCommAbort sets the flag that running kernels poll, and then cleans up. The cleanup may wait for peers
// and for kernels of other communicators, so it runs on a separate thread.
void NcclComm::abort() {
  if (aborted_ || !comm_) return;
  aborted_ = true;
  *ended_ = true;
  auto ended = std::make_shared<std::promise<void>>();
  auto future = ended->get_future();
  std::thread([comm = comm_, &device = device_, ended] {
    try {
      device.enter();
      nccl().CommAbort(comm);
    } catch (...) {}  // the device is lost: no kernel is left to end
    ended->set_value();
  }).detach();
  future.wait_for(kAbortSeconds);
}

NcclComm::~NcclComm() {
  if (!comm_ || *ended_ || std::uncaught_exceptions() > 0) return;
  try {
    device_.enter();
    // ncclCommDestroy may return before its work is done, so nothing uses the communicator afterwards.
    if (settle(nccl().CommFinalize(comm_), kDestroySeconds).empty()) nccl().CommDestroy(comm_);
  } catch (...) {}  // a destructor: a communicator that cannot be destroyed is leaked
}

}  // namespace lockstep::distributed
