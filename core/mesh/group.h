// Group: a set of ranks that communicate. It is an interface with rank, size and a few verbs, which the
// distributed wing implements by MPI, NCCL and threads. A collective is an options struct and one call; start
// returns at once, wait makes the result readable. Every wait has a deadline.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/device/stream.h"
#include "core/mesh/deadline.h"
#include "core/mesh/placement.h"
#include "core/types/dtype.h"

namespace lockstep {

// Counts are elements of `dtype`. Buffers belong to the caller and stay untouched until the wait. In-place
// (in == out) is allowed where noted.
struct AllReduce {  // out[i] = op over ranks of in[i]; in place allowed
  const void* in;
  void* out;
  int64_t count;
  DType dtype;
  ReduceOp op = ReduceOp::sum;
};
// out = in of rank 0, then of rank 1, ...; counts[r] elements from rank r. In place: in == out + own offset.
struct AllGather {
  const void* in;
  void* out;
  std::vector<int64_t> counts;
  DType dtype;
  // True, on all ranks, if the group's next collective is also a gather and starts before anyone waits for
  // this one or polls it. NCCL launches both together; other groups may ignore it.
  bool more = false;
};
struct ReduceScatter {  // rank r gets the op over ranks of part r of `in`; counts[r] elements per part
  const void* in;
  void* out;
  std::vector<int64_t> counts;
  DType dtype;
  ReduceOp op = ReduceOp::sum;
};
// in: the part for rank 0, then rank 1, ... (send_counts). out: the part from rank 0, then rank 1, ...
// (recv_counts).
struct AllToAll {
  const void* in;
  void* out;
  std::vector<int64_t> send_counts, recv_counts;
  DType dtype;
};
struct Broadcast {
  void* data;
  int64_t count;
  DType dtype;
  int root = 0;
};
struct Send {
  const void* data;
  int64_t count;
  DType dtype;
  int to;
  int tag = 0;
};
struct Recv {
  void* data;
  int64_t count;
  DType dtype;
  int from;
  int tag = 0;
};
struct Barrier {};

using Collective =
    std::variant<AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Send, Recv, Barrier>;
std::string_view name(const Collective& what);  // "all_reduce", ...
int64_t sent_bytes(const Collective& what);     // bytes that this rank sends (its `in`)

// A collective in flight.
class Work {
 public:
  virtual ~Work() = default;
  virtual bool done() = 0;  // never blocks
  // Work that is enqueued on `stream` afterwards sees the result. Throws PeerError, naming group, label and
  // seconds, when the deadline passes.
  virtual void wait(Stream& stream) = 0;
};

// The collectives that this rank has started on a group so far. Sends and receives do not count: they differ
// between ranks.
struct Issued {
  int64_t count = 0;
  // Hash of verbs, dtypes, reductions, roots and labels, in order; without counts, since shards may be
  // uneven.
  uint64_t hash = 0;
  std::string last;  // "all_reduce "count""; "" when count is 0
};

class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;  // "world", "dp_replicate", ...
  // Starts a collective after everything already enqueued on `stream`. `label` names it in errors and in the
  // flight record. All ranks of the group start the same collectives in the same order. Throws InternalError
  // for counts that do not fit the group.
  virtual std::shared_ptr<Work> start(const Collective& what, const std::string& label, Stream& stream) = 0;
  virtual bool capturable() const { return false; }  // may be part of a captured device graph
  // A host thread that waits for work with collectives of this group calls check() every few milliseconds.
  // Throws PeerError, naming group, label and seconds, if a peer is lost or a started collective has passed
  // its deadline. The group has then been torn down, so that its device work ends. Groups whose waits enforce
  // the deadline themselves do nothing here.
  virtual void check() {}
  // Reports that captured work with collectives of this group was just launched on `stream`. check() enforces
  // its deadline, and the flight record shows the launch as one line. All ranks launch the same captured work
  // in the same order.
  virtual void note_launch(const std::string& label, Stream& stream) { (void)label, (void)stream; }
  // The seconds that a wait starting now may last: the group's own deadline, or the current one of the
  // process (core/mesh/deadline.h).
  virtual double deadline() const { return deadline_s_ > 0 ? deadline_s_ : current_deadline(); }
  void set_deadline(double seconds) { deadline_s_ = seconds; }
  // The group's own deadline; 0: none.
  virtual double own_deadline() const { return deadline_s_; }
  // Equal on all ranks of the group between two collectives. Zero for groups of one rank and for groups that
  // only forward to another.
  Issued issued() const;

 protected:
  // For implementations, in start and note_launch, in the order of the calls.
  void note_issued(const Collective& what, const std::string& label);
  void note_issued(std::string_view verb, const std::string& label);
  double deadline_s_ = 0;

 private:
  mutable std::mutex issued_mutex_;
  Issued issued_;  // `last` has only the label here
  std::string last_verb_;
};

// start + wait on an inline stream.
void all_reduce(Group& group, const AllReduce& what, const std::string& label = "all_reduce");
void all_gather(Group& group, const AllGather& what, const std::string& label = "all_gather");
void reduce_scatter(Group& group, const ReduceScatter& what, const std::string& label = "reduce_scatter");
void all_to_all(Group& group, const AllToAll& what, const std::string& label = "all_to_all");
void broadcast(Group& group, const Broadcast& what, const std::string& label = "broadcast");
void send(Group& group, const Send& what, const std::string& label = "send");
void recv(Group& group, const Recv& what, const std::string& label = "recv");
void barrier(Group& group, const std::string& label = "barrier");

// Helpers built on the verbs. All ranks must call them.
std::vector<std::string> all_gather_text(Group& group, const std::string& mine);  // one text per rank
std::string broadcast_text(Group& group, const std::string& text, int root = 0);
// Ranks agree on whether to continue. If any rank passes a non-empty error text, every rank throws: UserError
// if `user`, else PeerError. The message names the first rank with an error, unless all texts are equal.
void agree(Group& group, const std::string& error, bool user = true);

// Blocks the calling thread until `event` is done, and checks the groups meanwhile. Rethrows what the event
// and the groups throw.
void wait_on_host(Event& event, std::span<Group* const> groups);

// The group of one rank: every collective is a copy.
std::shared_ptr<Group> solo_group(const std::string& name = "world");
// Checks counts and roots against the group's size: InternalError. For implementations.
void check_collective(const Collective& what, int rank, int size);
// Performs a collective of a group of one on the calling thread. For implementations.
void run_solo(const Collective& what);

}  // namespace lockstep
