// NCCL over the fake driver: ranks are threads of one process. As the real one, it gives ncclInProgress or
// ncclSuccess while a call is still under way, fills in a split's communicator only while the parent is
// polled, and refuses one at work: whoever does not poll is found.
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "distributed/local/move.h"
#include "tests/conformance/fake/fake_stream.h"

namespace {
using lockstep::Collective;
using lockstep::DType;
using lockstep::ReduceOp;

struct Meeting {
  std::vector<Collective> by_rank;
  int arrived = 0, left = 0;
};
struct Room {  // the ranks of one communicator
  int size = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int64_t, Meeting> meetings;
  std::map<std::pair<int, int>, std::deque<std::pair<const void*, size_t>>>
      messages;                                                  // sent and not yet received
  std::map<int64_t, std::map<int, std::pair<int, int>>> wishes;  // split number: rank -> color, key
  bool aborted = false;
};
std::mutex rooms_mutex;
std::map<std::string, std::shared_ptr<Room>> rooms;
std::shared_ptr<Room> room(const std::string& key, int size) {
  std::lock_guard lock(rooms_mutex);
  auto& out = rooms[key];
  if (!out) out = std::make_shared<Room>(), out->size = size;
  return out;
}
}  // namespace

struct Split {  // under way
  int64_t number;
  int color, key;
  ncclComm_t* out;
};
struct ncclComm {
  std::string key;
  std::shared_ptr<Room> room;
  int rank = 0, at_work = 0;  // polls until it is ready
  int64_t next = 0, splits = 0;
  std::optional<Split> split = std::nullopt;
  bool busy() const { return at_work > 0 || split; }
};

namespace {
struct Op {
  ncclComm* comm;
  cudaStream_t stream;
  Collective what;
  std::vector<int64_t> counts;
};
thread_local std::vector<Op> group;
thread_local int depth = 0;
std::atomic<int> launches{0};

DType dtype(ncclDataType_t type) {
  static const DType all[] = {DType::u8,  DType::u8,  DType::i32, DType::u32, DType::i64,
                              DType::u64, DType::f16, DType::f32, DType::f64, DType::bf16};
  return all[type];
}
ReduceOp op(ncclRedOp_t op) {
  return op == ncclSum ? ReduceOp::sum : op == ncclMax ? ReduceOp::max : ReduceOp::min;
}

void meet(Room& room, int rank, int64_t number, const Collective& what) {
  std::unique_lock lock(room.mutex);
  Meeting& meeting = room.meetings[number];
  meeting.by_rank.resize(room.size, lockstep::Barrier{});
  meeting.by_rank[rank] = what;
  if (++meeting.arrived == room.size) {
    std::vector<const Collective*> all;
    for (auto& one : meeting.by_rank) all.push_back(&one);
    lockstep::distributed::move_data(all);
    room.changed.notify_all();
  }
  room.changed.wait(lock, [&] { return meeting.arrived == room.size || room.aborted; });
  if (++meeting.left == room.size) room.meetings.erase(number);
}
void send(Room& room, int rank, const lockstep::Send& c) {
  std::lock_guard lock(room.mutex);
  room.messages[{rank, c.to}].push_back({c.data, static_cast<size_t>(c.count) * size_of(c.dtype)});
  room.changed.notify_all();
}
void receive(Room& room, int rank, const lockstep::Recv& c) {
  std::unique_lock lock(room.mutex);
  auto& queue = room.messages[{c.from, rank}];
  room.changed.wait(lock, [&] { return !queue.empty() || room.aborted; });
  if (room.aborted) return;
  std::memcpy(c.data, queue.front().first, queue.front().second);
  queue.pop_front();
  room.changed.notify_all();
}
void received(Room& room, int rank) {  // a send is done when it has been received
  std::unique_lock lock(room.mutex);
  room.changed.wait(lock, [&] {
    for (auto& [pair, queue] : room.messages)
      if (pair.first == rank && !queue.empty()) return room.aborted;
    return true;
  });
}

void run(const std::vector<std::pair<Op, int64_t>>& ops) {
  Room& room = *ops[0].first.comm->room;
  const int rank = ops[0].first.comm->rank;
  bool sent = false;
  for (auto& [one, number] : ops)
    if (auto* c = std::get_if<lockstep::Send>(&one.what)) send(room, rank, *c), sent = true;
  for (auto& [one, number] : ops)
    if (auto* c = std::get_if<lockstep::Recv>(&one.what)) receive(room, rank, *c);
  if (sent) received(room, rank);
  for (auto& [one, number] : ops)
    if (number >= 0) meet(room, rank, number, one.what);
}

ncclResult_t submit() {
  auto ops = std::move(group);
  group.clear();
  if (ops.empty()) return ncclSuccess;
  std::vector<std::pair<Op, int64_t>> numbered;
  for (auto& one : ops) {
    bool pair =
        std::holds_alternative<lockstep::Send>(one.what) || std::holds_alternative<lockstep::Recv>(one.what);
    numbered.push_back({one, pair ? -1 : one.comm->next++});
  }
  fake::of(ops[0].stream).push([numbered] { run(numbered); });
  ++launches;
  ops[0].comm->at_work = 2;
  return ncclInProgress;
}
ncclResult_t add(ncclComm_t comm, cudaStream_t stream, Collective what) {
  if (comm->busy()) return ncclInvalidUsage;
  group.push_back({comm, stream, std::move(what), {}});
  return depth ? ncclSuccess : submit();
}
int64_t n(size_t count) { return static_cast<int64_t>(count); }
ncclComm_t child_of(const ncclComm& parent) {  // its room is locked, and all ranks have said what they want
  const Split& split = *parent.split;
  std::vector<std::pair<int, int>> members;
  for (auto& [rank, wish] : parent.room->wishes[split.number])
    if (wish.first == split.color) members.push_back({wish.second, rank});
  std::sort(members.begin(), members.end());
  auto rank = std::find(members.begin(), members.end(), std::pair(split.key, parent.rank)) - members.begin();
  std::string name = lockstep::str(parent.key, " split ", split.number, " color ", split.color);
  return new ncclComm{name, room(name, static_cast<int>(members.size())), static_cast<int>(rank), 3};
}
}  // namespace

extern "C" {
int fake_nccl_launches() { return launches; }  // of all ranks, so far
ncclResult_t ncclGetVersion(int* version) { return *version = 22809, ncclSuccess; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> next{0};
  std::memset(id->internal, 0, sizeof id->internal);
  std::strcpy(id->internal, lockstep::str("fake ", next++).c_str());
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess       ? "no error"
         : result == ncclRemoteError ? "remote process exited or there was a network error"
                                     : "fake error";
}
const char* ncclGetLastError(ncclComm_t) { return "the fake's last words"; }
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  *comm = new ncclComm{id.internal, room(id.internal, size), rank, 3};
  return ncclInProgress;
}
// Version 2.28 sets *out to null and returns ncclSuccess with everything still to do.
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t*) {
  if (comm->busy()) return ncclInvalidArgument;
  *out = nullptr;
  std::lock_guard lock(comm->room->mutex);
  comm->split = Split{comm->splits++, color, key, out};
  comm->room->wishes[comm->split->number][comm->rank] = {color, key};
  comm->at_work = 2;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (!comm) return ncclInvalidArgument;
  std::lock_guard lock(comm->room->mutex);
  if (comm->room->aborted) return *state = ncclRemoteError, ncclSuccess;
  *state = comm->busy() ? ncclInProgress : ncclSuccess;
  if (comm->at_work > 0) return --comm->at_work, ncclSuccess;
  if (comm->split && static_cast<int>(comm->room->wishes[comm->split->number].size()) == comm->room->size) {
    *comm->split->out = child_of(*comm);
    comm->split.reset();
    *state = ncclSuccess;
  }
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return comm->busy() ? ncclInvalidArgument : (comm->at_work = 2, ncclSuccess);
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return comm->busy() ? ncclInvalidArgument : (delete comm, ncclSuccess);
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  std::lock_guard lock(comm->room->mutex);
  comm->room->aborted = true;
  comm->room->changed.notify_all();
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return comm->busy() ? ncclInvalidArgument : (*count = comm->room->size, ncclSuccess);
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return comm->busy() ? ncclInvalidArgument : (*rank = comm->rank, ncclSuccess);
}
ncclResult_t ncclGroupStart() { return ++depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() { return --depth ? ncclSuccess : submit(); }
ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t t, ncclRedOp_t o,
                           ncclComm_t comm, cudaStream_t s) {
  return add(comm, s, lockstep::AllReduce{in, out, n(count), dtype(t), op(o)});
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t t, int root,
                           ncclComm_t comm, cudaStream_t s) {
  std::vector<int64_t> counts(comm->room->size);
  counts[root] = n(count);
  return add(comm, s, lockstep::AllGather{in, out, counts, dtype(t)});
}
ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t t, ncclRedOp_t o, int root,
                        ncclComm_t comm, cudaStream_t s) {
  std::vector<int64_t> counts(comm->room->size);
  counts[root] = n(count);
  return add(comm, s, lockstep::ReduceScatter{in, out, counts, dtype(t), op(o)});
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t t, ncclComm_t comm,
                           cudaStream_t s) {
  return add(comm, s,
             lockstep::AllGather{in, out, std::vector<int64_t>(comm->room->size, n(count)), dtype(t)});
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t t, ncclRedOp_t o,
                               ncclComm_t comm, cudaStream_t s) {
  return add(
      comm, s,
      lockstep::ReduceScatter{in, out, std::vector<int64_t>(comm->room->size, n(count)), dtype(t), op(o)});
}
ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t t, int to, ncclComm_t comm,
                      cudaStream_t s) {
  return add(comm, s, lockstep::Send{data, n(count), dtype(t), to});
}
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t t, int from, ncclComm_t comm, cudaStream_t s) {
  return add(comm, s, lockstep::Recv{data, n(count), dtype(t), from});
}
}
