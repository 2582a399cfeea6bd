// The MPI calls of each verb, in parts if counts exceed MPI's int; completion and its checks.
#include "distributed/mpi/mpi_flight.h"

#include <chrono>
#include <cstring>
#include <numeric>

#include "core/base/error.h"
#include "distributed/mpi/mpi_types.h"
#include "distributed/watch/site.h"

namespace lockstep::distributed {

namespace {
// Messages between two ranks keep their order, so successive all_to_alls can share a tag.
constexpr int kAllToAllTag = 0;
int user_tag(int tag) { return tag + 1; }

std::byte* offset(void* data, int64_t elements, DType dtype) {
  return static_cast<std::byte*>(data) + elements * static_cast<int64_t>(size_of(dtype));
}
const std::byte* offset(const void* data, int64_t elements, DType dtype) {
  return static_cast<const std::byte*>(data) + elements * static_cast<int64_t>(size_of(dtype));
}
void copy(void* out, const void* in, int64_t count, DType dtype) {
  if (count > 0 && out != in) std::memcpy(out, in, count * size_of(dtype));
}
int64_t sum(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}
int64_t before(const std::vector<int64_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}
}  // namespace

std::string MpiFlight::site() const { return str("group \"", group_.name, "\": ", site_text(what_, label_)); }

void MpiFlight::check(int code) const {
  if (code != MPI_SUCCESS)
    throw PeerError(
        str(site(), " failed on rank ", group_.rank, " of ", group_.size, ": ", mpi_error_text(code)));
}

MPI_Request* MpiFlight::request() {
  requests_.push_back(MPI_REQUEST_NULL);
  return &requests_.back();
}

template <class Part>
void MpiFlight::for_parts(int64_t count, Part part) {
  int64_t at = 0;
  do {
    int64_t n = std::min(count - at, max_count_);
    part(at, static_cast<int>(n));
    at += n;
  } while (at < count);
}

void MpiFlight::issue() {
  if (checked_) return checked_->begin(comm_, group_.rank, group_.size);
  std::visit([&](const auto& c) { issue(c); }, what_);
}

void MpiFlight::issue(const AllReduce& c) {
  for_parts(c.count, [&](int64_t at, int n) {
    const void* in = c.in == c.out ? MPI_IN_PLACE : offset(c.in, at, c.dtype);
    check(MPI_Iallreduce(in, offset(c.out, at, c.dtype), n, mpi_type(c.dtype), mpi_op(c.dtype, c.op), comm_,
                         request()));
  });
}

void MpiFlight::issue(const AllGather& c) {
  std::byte* mine = offset(c.out, before(c.counts, group_.rank), c.dtype);
  if (sum(c.counts) <= max_count_) {
    counts_.assign(c.counts.begin(), c.counts.end());
    offsets_.resize(counts_.size());
    std::exclusive_scan(counts_.begin(), counts_.end(), offsets_.begin(), 0);
    const void* in = c.in == mine ? MPI_IN_PLACE : c.in;
    check(MPI_Iallgatherv(in, counts_[group_.rank], mpi_type(c.dtype), c.out, counts_.data(), offsets_.data(),
                          mpi_type(c.dtype), comm_, request()));
    return;
  }
  copy(mine, c.in, c.counts[group_.rank], c.dtype);
  for (int r = 0; r < group_.size; ++r)
    broadcast_parts(offset(c.out, before(c.counts, r), c.dtype), c.counts[r], c.dtype, r);
}

void MpiFlight::issue(const ReduceScatter& c) {
  if (sum(c.counts) <= max_count_) {
    counts_.assign(c.counts.begin(), c.counts.end());
    check(MPI_Ireduce_scatter(c.in, c.out, counts_.data(), mpi_type(c.dtype), mpi_op(c.dtype, c.op), comm_,
                              request()));
    return;
  }
  for (int r = 0; r < group_.size; ++r)
    for_parts(c.counts[r], [&](int64_t at, int n) {
      const void* in = offset(c.in, before(c.counts, r) + at, c.dtype);
      void* out = r == group_.rank ? offset(c.out, at, c.dtype) : nullptr;
      check(MPI_Ireduce(in, out, n, mpi_type(c.dtype), mpi_op(c.dtype, c.op), r, comm_, request()));
    });
}

// Uses pairs of messages instead of MPI_Ialltoallv: only the two ranks of a pair know its count, so only they
// can agree on its parts. Receives are posted first. Each rank sends to the next ranks first, so that no rank
// is the first target of all.
void MpiFlight::issue(const AllToAll& c) {
  int n = group_.size, me = group_.rank;
  for (int step = 1; step < n; ++step) {
    int from = (me - step + n) % n;
    recv_parts(offset(c.out, before(c.recv_counts, from), c.dtype), c.recv_counts[from], c.dtype, from,
               kAllToAllTag);
  }
  for (int step = 1; step < n; ++step) {
    int to = (me + step) % n;
    send_parts(offset(c.in, before(c.send_counts, to), c.dtype), c.send_counts[to], c.dtype, to,
               kAllToAllTag);
  }
  LS_CHECK(c.send_counts[me] == c.recv_counts[me], site(), ": rank ", me, " sends ", c.send_counts[me],
           " to itself and receives ", c.recv_counts[me]);
  copy(offset(c.out, before(c.recv_counts, me), c.dtype), offset(c.in, before(c.send_counts, me), c.dtype),
       c.send_counts[me], c.dtype);
}

void MpiFlight::issue(const Broadcast& c) { broadcast_parts(c.data, c.count, c.dtype, c.root); }
void MpiFlight::issue(const Send& c) { send_parts(c.data, c.count, c.dtype, c.to, user_tag(c.tag)); }
void MpiFlight::issue(const Recv& c) { recv_parts(c.data, c.count, c.dtype, c.from, user_tag(c.tag)); }
void MpiFlight::issue(const Barrier&) { check(MPI_Ibarrier(comm_, request())); }

void MpiFlight::broadcast_parts(void* data, int64_t count, DType dtype, int root) {
  for_parts(count, [&](int64_t at, int n) {
    check(MPI_Ibcast(offset(data, at, dtype), n, mpi_type(dtype), root, comm_, request()));
  });
}

void MpiFlight::send_parts(const void* data, int64_t count, DType dtype, int to, int tag) {
  for_parts(count, [&](int64_t at, int n) {
    check(MPI_Isend(offset(data, at, dtype), n, mpi_type(dtype), to, tag, comm_, request()));
  });
}

void MpiFlight::recv_parts(void* data, int64_t count, DType dtype, int from, int tag) {
  for_parts(count, [&](int64_t at, int n) {
    expected_.push_back({requests_.size(), n, from, mpi_type(dtype)});
    check(MPI_Irecv(offset(data, at, dtype), n, mpi_type(dtype), from, tag, comm_, request()));
  });
}

bool MpiFlight::test() {
  if (checked_) {
    if (!checked_->may_issue(group_.name, group_.rank, group_.size)) return false;
    checked_.reset();
    issue();
  }
  statuses_.resize(requests_.size());
  int flag = 0;
  int code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &flag, statuses_.data());
  if (code == MPI_ERR_IN_STATUS)
    for (const auto& status : statuses_)
      if (status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) check(status.MPI_ERROR);
  check(code);
  if (!flag) return false;
  for (const auto& expected : expected_) {
    int got = 0;
    MPI_Get_count(&statuses_[expected.request], expected.type, &got);
    if (got != expected.count)
      throw PeerError(str(site(), ": rank ", group_.rank, " expected ", expected.count,
                          " elements from rank ", expected.from, " and got ",
                          got == MPI_UNDEFINED ? "a part of one" : str(got),
                          "; all ranks must start the same collectives in the same order"));
  }
  return true;
}

void MpiFlight::finish(std::exception_ptr failure) {
  std::lock_guard lock(mutex_);
  if (finished_) return;
  finished_ = true;
  failure_ = failure;
  record_.end(failure ? FlightState::failed : FlightState::done);
  changed_.notify_all();
}

void MpiFlight::mark_started(const SitePlace& place, const std::shared_ptr<MpiOrder>& order) {
  if (order && place.number >= 0) checked_ = std::make_unique<MpiSite>(order, what_, label_, place.number);
  std::lock_guard lock(mutex_);
  record_ = Flight(group_, place, what_, label_);
}

bool MpiFlight::finished() {
  std::lock_guard lock(mutex_);
  return finished_;
}

bool MpiFlight::wait_for(double seconds) {
  using Clock = std::chrono::steady_clock;
  // A slice of waiting that took at least twice as long was not waiting: the process did not run.
  constexpr double kSlice = 0.5;
  std::unique_lock lock(mutex_);
  for (double left = seconds; !finished_;) {
    const double slice = std::min(left, kSlice);
    const auto begin = Clock::now();
    if (changed_.wait_for(lock, std::chrono::duration<double>(slice), [&] { return finished_; })) break;
    left -= std::min(std::chrono::duration<double>(Clock::now() - begin).count(), 2 * kSlice);
    if (left <= 0) return false;
  }
  if (failure_) std::rethrow_exception(failure_);
  return true;
}

}  // namespace lockstep::distributed
