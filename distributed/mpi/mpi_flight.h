// MpiFlight: a collective in flight (started, not yet complete) over MPI. The starter, the progress thread
// and the waiter share its requests and state.
#pragma once

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/mesh/group.h"
#include "distributed/mpi/mpi_site.h"
#include "distributed/watch/flight_record.h"

namespace lockstep::distributed {

class MpiFlight {
 public:
  MpiFlight(MPI_Comm comm, GroupIdentity group, Collective what, std::string label, int64_t max_count)
      : comm_(comm),
        group_(std::move(group)),
        what_(std::move(what)),
        label_(std::move(label)),
        max_count_(max_count) {}

  // For the progress thread. issue() makes the MPI calls; test() advances them and returns true when all have
  // completed. Throws PeerError for an MPI error, and for a message that is shorter than its receiver
  // expects.
  void issue();
  bool test();
  // Ends the flight: wakes the waiter and closes the line in the flight record. The first call counts.
  void finish(std::exception_ptr failure);

  // Opens the line in the flight record. With `order` the collective is compared with the neighbour's before
  // it is issued (mpi_site.h).
  void mark_started(const SitePlace& place, const std::shared_ptr<MpiOrder>& order = nullptr);
  bool finished();
  // Returns false if the flight has not finished within `seconds`; rethrows its failure. Time in which this
  // process was stopped does not count.
  bool wait_for(double seconds);
  std::string site() const;
  const GroupIdentity& group() const { return group_; }
  const Collective& what() const { return what_; }
  const std::string& label() const { return label_; }

 private:
  struct Expected {  // a receive: which request, how many elements
    size_t request;
    int count, from;
    MPI_Datatype type;
  };
  void issue(const AllReduce& c);
  void issue(const AllGather& c);
  void issue(const ReduceScatter& c);
  void issue(const AllToAll& c);
  void issue(const Broadcast& c);
  void issue(const Send& c);
  void issue(const Recv& c);
  void issue(const Barrier& c);
  void send_parts(const void* data, int64_t count, DType dtype, int to, int tag);
  void recv_parts(void* data, int64_t count, DType dtype, int from, int tag);
  void broadcast_parts(void* data, int64_t count, DType dtype, int root);
  // Calls part(offset, count) for parts of at most max_count_ elements; once with (0, 0) if count is 0.
  template <class Part>
  void for_parts(int64_t count, Part part);
  MPI_Request* request();
  void check(int code) const;

  MPI_Comm comm_;
  GroupIdentity group_;
  Collective what_;
  std::string label_;
  int64_t max_count_;
  std::unique_ptr<MpiSite> checked_;  // until the check has passed
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
  std::vector<Expected> expected_;
  std::vector<int> counts_, offsets_;  // MPI reads them until completion, so they are members

  std::mutex mutex_;
  std::condition_variable changed_;
  bool finished_ = false;
  std::exception_ptr failure_;
  Flight record_;
};

}  // namespace lockstep::distributed
