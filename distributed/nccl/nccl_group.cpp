// NcclGroup: fork, calls and join of a collective; the list of collectives in flight, and their deadline.
#include "distributed/nccl/nccl_group.h"

#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/mesh/timed_work.h"
#include "distributed/nccl/nccl_calls.h"
#include "distributed/nccl/nccl_comm.h"
#include "distributed/nccl/nccl_flight.h"
#include "distributed/regions.h"
#include "distributed/staged_group.h"
#include "distributed/watch/site.h"

namespace lockstep::distributed {

namespace {

using Clock = std::chrono::steady_clock;
using FlightPointer = std::shared_ptr<NcclFlight>;

bool is_capturing(Stream& stream) {
  if (!stream.native()) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuda::check(cuda::driver().StreamIsCapturing(cuda::stream_of(stream), &status), "cuStreamIsCapturing");
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

class NcclGroup : public Group, public std::enable_shared_from_this<NcclGroup> {
 public:
  NcclGroup(cuda::CudaDevice& device, std::shared_ptr<NcclComm> comm, const std::string& name, uint64_t key,
            double deadline_s)
      : device_(device),
        comm_(std::move(comm)),
        identity_{name, key, comm_->rank(), comm_->size()},
        scratch_(256, device.memory()) {
    deadline_s_ = deadline_s;
    stream_ = device.make_first_stream();
  }
  ~NcclGroup() override {
    try {
      device_.enter();
      if (!flying_.empty() && std::uncaught_exceptions() > 0)
        comm_->abort();  // no thread waits any more, and a peer may have ended
      Group* self = this;
      if (!flying_.empty())
        wait_on_host(*flying_.back()->end,
                     // Or abort at the deadline: the destruction of the stream waits for it
                     std::span(&self, 1));
    } catch (...) {}  // a destructor: the failure is not reported
    for (auto& flight : flying_) flight->record.end(FlightState::done);
    for (auto& flight : waiting_) flight->record.end(FlightState::failed);  // never launched
  }
  int rank() const override { return identity_.rank; }
  int size() const override { return identity_.size; }
  const std::string& name() const override { return identity_.name; }
  bool capturable() const override { return true; }

  std::shared_ptr<Work> start(const Collective& what, const std::string& label, Stream& stream) override;
  void check() override {
    std::lock_guard lock(mutex_);
    throw_failed();
    device_.enter();
    std::string error = comm_->asynchronous_error();
    if (!error.empty())
      fail(str(site(flying_.empty() ? nullptr : flying_.front()), " failed on rank ", rank(), " of ", size(),
               ": ", error));
    land();
    // A waiting thread checks every few milliseconds. A second without a check means that this process was
    // stopped, and does not count.
    const auto now = Clock::now(), before = std::exchange(checked_, now);
    if (!flying_.empty() && now - before > std::chrono::seconds(1) && flying_.front()->since < before)
      flying_.front()->since += now - before;
    if (flying_.empty() || Clock::now() - flying_.front()->since < std::chrono::duration<double>(deadline()))
      return;
    const NcclFlight& oldest = *flying_.front();
    constexpr const char* kWhy = "a peer is late, has ended, or is at another collective";
    fail(oldest.launch ? str(site(flying_.front()), " did not complete within ", number_text(deadline()),
                             " s on rank ", rank(), " of ", size(), "; ", kWhy,
                             "; if the step is this slow, raise LOCKSTEP_DEADLINE or watch.deadline")
                       : deadline_text(name(), rank(), size(), oldest.what, oldest.label, deadline(), kWhy));
  }
  void note_launch(const std::string& label, Stream& stream) override {
    std::lock_guard lock(mutex_);
    throw_failed();
    device_.enter();
    auto flight = std::make_shared<NcclFlight>();
    flight->what = Barrier{}, flight->label = label, flight->launch = true;
    note_issued("graph", label);
    flight->record = Flight(identity_, next_++, "graph", label, 0);
    flight->end = stream.record();
    fly(flight);
  }

  void wait(const FlightPointer& flight, Stream& stream) {
    if (!stream.native())
      return stream.run([self = shared_from_this(), flight] { self->wait_here(*flight); });
    bool block = false;
    {
      std::lock_guard lock(mutex_);
      throw_failed();
      device_.enter();
      enqueue_waiting();
      LS_CHECK(
          flight->end, site(flight),
          " is waited for on a device's stream before the host's stream it was started on has come to it");
      stream.wait(flight->end);
      block = std::holds_alternative<Barrier>(flight->what) && !flight->captured;
    }
    if (block) wait_here(*flight);
  }
  bool done(NcclFlight& flight) {
    std::lock_guard lock(mutex_);
    if (!failed_.empty()) return true;
    if (flight.captured) return false;
    device_.enter();
    if (!flight.end) enqueue_waiting();
    return flight.end && flight.end->done();
  }
  // Marks the end of a flight on the communication stream; deferred flights are not on it yet.
  std::shared_ptr<Mark> mark_end(const NcclFlight& flight) {
    std::lock_guard lock(mutex_);
    if (!flight.end || flight.captured || !failed_.empty()) return nullptr;
    device_.enter();
    return stream_->mark();
  }
  std::shared_ptr<Group> split(int color, int key, const std::string& name) {
    std::lock_guard lock(mutex_);
    throw_failed();
    device_.enter();
    int64_t before = device_.memory_info().free;
    std::shared_ptr<NcclComm> child;
    try {
      child = comm_->split(color, key, str("group \"", name, "\""), deadline());
    } catch (const PeerError& error) { fail(error.what()); }
    uint64_t numbers[] = {identity_.key, static_cast<uint64_t>(color), static_cast<uint64_t>(splits_++)};
    auto group = std::make_shared<NcclGroup>(device_, std::move(child), name, hash64(numbers, sizeof numbers),
                                             own_deadline());
    group->connect(before);
    return group;
  }
  // The first exchanges connect the ranks, so that failures appear here and not in the first step.
  void connect(int64_t free_before) {
    auto here = inline_stream();
    start(Barrier{}, "connect", *here)->wait(*here);
    std::vector<int64_t> ones(size(), 1);
    Buffer in(size(), device_.memory()), out(size(), device_.memory());
    start(AllToAll{in.data(), out.data(), ones, ones, DType::u8}, "connect", *here)->wait(*here);
    bytes_ = free_before - device_.memory_info().free;
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::string site(const FlightPointer& flight) const {
    std::string group = str("group \"", name(), "\"");
    if (!flight) return group;
    return str(
        group, ": ",
        flight->launch ? str("graph \"", flight->label, "\"") : site_text(flight->what, flight->label));
  }
  void throw_failed() const {
    if (!failed_.empty()) throw PeerError(failed_);
  }
  [[noreturn]] void fail(const std::string& text) {
    failed_ = text;
    for (auto& flight : flying_) flight->record.end(FlightState::failed);
    for (auto& flight : waiting_) flight->record.end(FlightState::failed);
    flying_.clear(), waiting_.clear();
    comm_->abort();
    throw PeerError(text);
  }
  void fly(const FlightPointer& flight) {
    flight->since = Clock::now();
    flying_.push_back(flight);
    constexpr size_t kMany = 128;  // no thread has checked for a long time
    if (flying_.size() > kMany) land();
  }
  // Removes completed flights from the list. A device failure ends the group.
  void land() {
    try {
      while (!flying_.empty() && flying_.front()->end->done()) {
        flying_.front()->record.end(FlightState::done);
        flying_.pop_front();
        if (!flying_.empty()) flying_.front()->since = Clock::now();
      }
    } catch (const std::exception& error) {
      fail(str(site(flying_.front()), " failed on rank ", rank(), " of ", size(), ": ", error.what()));
    }
  }
  // Enqueues the NCCL calls of these flights as one group on the communication stream, then their common end.
  void enqueue(const std::vector<FlightPointer>& flights, bool captured) {
    bool any = false;
    for (auto& flight : flights) any |= !is_empty(flight->what);
    if (any) {
      std::string error = comm_->run(
          [&] {
            ncclResult_t first = ncclSuccess;
            for (auto& flight : flights) {
              if (is_empty(flight->what)) continue;
              auto result = nccl_calls(flight->what, rank(), size(), comm_->get(), cuda::stream_of(*stream_),
                                       scratch_.data());
              if (first == ncclSuccess) first = result;
            }
            return first;
          },
          deadline());
      if (!error.empty()) {
        for (auto& flight : flights) flight->record.end(FlightState::failed);
        fail(str(site(flights.front()), " cannot be enqueued on rank ", rank(), " of ", size(),
                 " after at most ", number_text(deadline()), " s: ", error));
      }
    }
    auto end = stream_->record();
    for (auto& flight : flights) {
      flight->end = end;
      if (!captured) fly(flight);
    }
    if (captured) kept_.push_back(end);
  }
  void enqueue_waiting() {
    if (waiting_.empty()) return;
    auto flights = std::move(waiting_);
    waiting_.clear();
    enqueue(flights, flights.front()->captured);
  }
  // Sends and receives are deferred to share a launch; so are gathers with `more`.
  bool joins_waiting(const NcclFlight& flight) const {
    if (waiting_.empty()) return false;
    const NcclFlight& last = *waiting_.back();
    if (last.captured != flight.captured) return false;
    return flight.pair ? last.pair : last.more && std::holds_alternative<AllGather>(flight.what);
  }
  void begin(const FlightPointer& flight, Stream* stream) {
    throw_failed();
    device_.enter();
    if (stream) {
      flight->captured = is_capturing(*stream);
      flight->begin = stream->record();
    }
    if (!flight->captured)
      flight->record = Flight(identity_, SitePlace{flight->pair ? -1 : next_++}, flight->what, flight->label);
    const bool joins = joins_waiting(*flight);
    if (!joins) enqueue_waiting();
    if (flight->begin) {
      stream_->wait(flight->begin);
      if (flight->captured) kept_.push_back(flight->begin);
    }
    if (joins || flight->pair || flight->more) {
      waiting_.push_back(flight);
      if (!flight->pair && !flight->more) enqueue_waiting();
      return;
    }
    if (auto* exchange = std::get_if<AllToAll>(&flight->what)) copy_own_part(*exchange, flight->label);
    enqueue({flight}, flight->captured);
  }
  void copy_own_part(const AllToAll& c, const std::string& label) {
    int64_t from = 0, to = 0, count = c.send_counts[rank()];
    LS_CHECK(count == c.recv_counts[rank()], "all_to_all \"", label, "\": rank ", rank(), " sends ", count,
             " to itself and receives ", c.recv_counts[rank()]);
    for (int r = 0; r < rank(); ++r) from += c.send_counts[r], to += c.recv_counts[r];
    int64_t width = static_cast<int64_t>(size_of(c.dtype));
    if (count > 0)
      device_.copy(static_cast<std::byte*>(c.out) + to * width,
                   static_cast<const std::byte*>(c.in) + from * width, count * width, *stream_);
  }
  // Blocks the host thread until the flight has completed, the group has failed, or the deadline has passed.
  void wait_here(NcclFlight& flight) {
    std::shared_ptr<Event> end;
    {
      std::lock_guard lock(mutex_);
      throw_failed();
      device_.enter();
      enqueue_waiting();
      end = flight.end;
    }
    LS_CHECK(end, "\"", flight.label, "\" is waited for before it was started");
    Group* self = this;
    wait_on_host(*end, std::span(&self, 1));
  }

  cuda::CudaDevice& device_;
  std::shared_ptr<NcclComm> comm_;
  GroupIdentity identity_;
  Buffer scratch_;
  std::unique_ptr<Stream> stream_;  // the communication stream
  std::mutex mutex_;
  std::deque<FlightPointer> flying_;          // in the order of their ends
  std::vector<FlightPointer> waiting_;        // deferred: one launch takes them all
  std::vector<std::shared_ptr<Event>> kept_;  // events of captured work
  std::string failed_;                        // why the group is unusable; empty: it is not
  int64_t next_ = 0, splits_ = 0, bytes_ = 0;
  Clock::time_point checked_ = Clock::now();
};

class NcclWork : public TimedWork {
 public:
  NcclWork(std::shared_ptr<NcclGroup> group, FlightPointer flight)
      : group_(std::move(group)), flight_(std::move(flight)) {}
  bool done() override { return group_->done(*flight_); }
  void wait(Stream& stream) override { group_->wait(flight_, stream); }
  std::shared_ptr<Mark> mark_end() override { return group_->mark_end(*flight_); }

 private:
  std::shared_ptr<NcclGroup> group_;
  FlightPointer flight_;
};

std::shared_ptr<Work> NcclGroup::start(const Collective& what, const std::string& label, Stream& stream) {
  check_collective(what, rank(), size());
  check_nccl_dtype(what, label);
  note_issued(what, label);
  if (logs::enabled("collectives"))
    logs::topic("collectives", str("group \"", name(), "\": ", site_text(what, label), " over NCCL"));
  auto flight = std::make_shared<NcclFlight>();
  flight->what = what, flight->label = label;
  flight->pair = std::holds_alternative<Send>(what) || std::holds_alternative<Recv>(what);
  if (const auto* gather = std::get_if<AllGather>(&what)) flight->more = gather->more;
  if (stream.native()) {
    std::lock_guard lock(mutex_);
    begin(flight, &stream);
  } else {
    stream.run([self = shared_from_this(), flight] {
      std::lock_guard lock(self->mutex_);
      self->begin(flight, nullptr);
    });
  }
  return std::make_shared<NcclWork>(shared_from_this(), flight);
}
}  // namespace

std::shared_ptr<Group> nccl_group(cuda::CudaDevice& device, Group& bootstrap, const std::string& name,
                                  bool even_alone) {
  if (bootstrap.size() == 1 && !even_alone) return solo_device_group(device, name);
  ncclUniqueId id{};
  std::string error;
  if (nccl_available(&error) && bootstrap.rank() == 0) {
    device.enter();
    if (nccl().GetUniqueId(&id) != ncclSuccess)
      error = str("NCCL gives no unique id: ", nccl().GetLastError(nullptr));
  }
  agree(bootstrap, error);
  std::string text = broadcast_text(bootstrap, std::string(id.internal, sizeof id.internal));
  std::memcpy(id.internal, text.data(), sizeof id.internal);
  device.enter();
  int64_t before = device.memory_info().free;
  auto comm = NcclComm::make(device, id, bootstrap.rank(), bootstrap.size(), str("group \"", name, "\""),
                             bootstrap.deadline());
  auto group = std::make_shared<NcclGroup>(device, std::move(comm), name,
                                           hash64(id.internal, sizeof id.internal), bootstrap.own_deadline());
  group->connect(before);
  return group;
}

std::shared_ptr<Group> split_nccl_group(Group& parent, int color, int key, const std::string& name) {
  auto* group = dynamic_cast<NcclGroup*>(&parent);
  LS_CHECK(group, "group \"", parent.name(), "\" is not NCCL's and cannot be split as one");
  return group->split(color, key, name);
}

int64_t communicator_bytes(const Group& group) {
  auto* own = dynamic_cast<const NcclGroup*>(&group);
  return own ? own->bytes() : 0;
}

}  // namespace lockstep::distributed
