// Group: the blocking helpers, agreement on errors, and the group of one rank.
#include "core/mesh/group.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep {

namespace {
void blocking(Group& group, const Collective& what, const std::string& label) {
  auto stream = inline_stream();
  group.start(what, label, *stream)->wait(*stream);
}

class DoneWork : public Work {
 public:
  bool done() override { return true; }
  void wait(Stream&) override {}
};

class SoloGroup : public Group {
 public:
  explicit SoloGroup(std::string name) : name_(std::move(name)) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const std::string& name() const override { return name_; }
  std::shared_ptr<Work> start(const Collective& what, const std::string&, Stream& stream) override {
    check_collective(what, 0, 1);
    stream.run([what] { run_solo(what); });
    return std::make_shared<DoneWork>();
  }
  bool capturable() const override { return true; }

 private:
  std::string name_;
};

int64_t sum(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}
void copy(void* out, const void* in, int64_t count, DType dtype) {
  if (out != in && count > 0) std::memcpy(out, in, count * size_of(dtype));
}
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;
}  // namespace

std::string_view name(const Collective& what) {
  static constexpr std::string_view names[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                               "broadcast",  "send",       "recv",           "barrier"};
  return names[what.index()];
}

int64_t sent_bytes(const Collective& what) {
  return std::visit(
      Overloaded{
          [](const AllReduce& c) { return c.count * static_cast<int64_t>(size_of(c.dtype)); },
          [](const AllGather& c) {
            return c.counts.empty() ? 0
                                    : sum(c.counts) / static_cast<int64_t>(c.counts.size()) *
                                          static_cast<int64_t>(size_of(c.dtype));
          },
          [](const ReduceScatter& c) { return sum(c.counts) * static_cast<int64_t>(size_of(c.dtype)); },
          [](const AllToAll& c) { return sum(c.send_counts) * static_cast<int64_t>(size_of(c.dtype)); },
          [](const Broadcast& c) { return c.count * static_cast<int64_t>(size_of(c.dtype)); },
          [](const Send& c) { return c.count * static_cast<int64_t>(size_of(c.dtype)); },
          [](const Recv&) { return int64_t{0}; }, [](const Barrier&) { return int64_t{0}; }},
      what);
}

void all_reduce(Group& group, const AllReduce& what, const std::string& label) {
  blocking(group, what, label);
}
void all_gather(Group& group, const AllGather& what, const std::string& label) {
  blocking(group, what, label);
}
void reduce_scatter(Group& group, const ReduceScatter& what, const std::string& label) {
  blocking(group, what, label);
}
void all_to_all(Group& group, const AllToAll& what, const std::string& label) {
  blocking(group, what, label);
}
void broadcast(Group& group, const Broadcast& what, const std::string& label) {
  blocking(group, what, label);
}
void send(Group& group, const Send& what, const std::string& label) { blocking(group, what, label); }
void recv(Group& group, const Recv& what, const std::string& label) { blocking(group, what, label); }
void barrier(Group& group, const std::string& label) { blocking(group, Barrier{}, label); }

std::vector<std::string> all_gather_text(Group& group, const std::string& mine) {
  std::vector<int64_t> lengths(group.size()), ones(group.size(), 1);
  int64_t length = static_cast<int64_t>(mine.size());
  all_gather(group, {&length, lengths.data(), ones, DType::i64}, "all_gather_text");
  std::string all(sum(lengths), '\0');
  all_gather(group, {mine.data(), all.data(), lengths, DType::u8}, "all_gather_text");
  std::vector<std::string> out;
  size_t at = 0;
  for (int64_t n : lengths) out.push_back(all.substr(at, n)), at += n;
  return out;
}

std::string broadcast_text(Group& group, const std::string& text, int root) {
  int64_t length = static_cast<int64_t>(text.size());
  broadcast(group, {&length, 1, DType::i64, root}, "broadcast_text");
  std::string out = group.rank() == root ? text : std::string(length, '\0');
  broadcast(group, {out.data(), length, DType::u8, root}, "broadcast_text");
  return out;
}

Issued Group::issued() const {
  std::lock_guard lock(issued_mutex_);
  Issued out = issued_;
  if (out.count) out.last = str(last_verb_, " \"", out.last, "\"");
  return out;
}

void Group::note_issued(std::string_view verb, const std::string& label) {
  std::lock_guard lock(issued_mutex_);
  ++issued_.count;
  issued_.hash = hash64(label, hash64(verb, issued_.hash));
  issued_.last = label;
  last_verb_ = verb;
}

void Group::note_issued(const Collective& what, const std::string& label) {
  if (std::holds_alternative<Send>(what) || std::holds_alternative<Recv>(what)) return;
  auto kind = std::visit(
      Overloaded{
          [](const AllReduce& c) { return std::pair(static_cast<int>(c.dtype), static_cast<int>(c.op)); },
          [](const AllGather& c) { return std::pair(static_cast<int>(c.dtype), 0); },
          [](const ReduceScatter& c) { return std::pair(static_cast<int>(c.dtype), static_cast<int>(c.op)); },
          [](const AllToAll& c) { return std::pair(static_cast<int>(c.dtype), 0); },
          [](const Broadcast& c) { return std::pair(static_cast<int>(c.dtype), c.root); },
          [](const auto&) { return std::pair(0, 0); }},
      what);
  {
    std::lock_guard lock(issued_mutex_);
    issued_.hash = hash64(&kind, sizeof kind, issued_.hash);
  }
  note_issued(lockstep::name(what), label);
}

void agree(Group& group, const std::string& error, bool user) {
  int64_t bad = error.empty() ? 0 : 1;
  all_reduce(group, {&bad, &bad, 1, DType::i64, ReduceOp::max}, "agree");
  if (!bad) return;
  auto texts = all_gather_text(group, error);
  const bool same =
      std::all_of(texts.begin(), texts.end(), [&](const std::string& text) { return text == texts[0]; });
  for (int r = 0; r < group.size(); ++r)
    if (!texts[r].empty()) {
      std::string message = group.size() > 1 && !same ? str("rank ", r, ": ", texts[r]) : texts[r];
      if (user) throw UserError(message);
      throw PeerError(message);
    }
}

void wait_on_host(Event& event, std::span<Group* const> groups) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  auto checked = begin;
  while (!event.done()) {
    auto now = Clock::now();
    if (now - checked > std::chrono::milliseconds(5)) {
      for (Group* group : groups) group->check();
      checked = now;
    }
    // A step takes at least milliseconds, so a long wait may react later and leave the core to others.
    if (now - begin < std::chrono::microseconds(200))
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(
          std::chrono::microseconds(now - begin < std::chrono::milliseconds(50) ? 20 : 200));
  }
  for (Group* group : groups) group->check();
}

std::shared_ptr<Group> solo_group(const std::string& name) { return std::make_shared<SoloGroup>(name); }

void check_collective(const Collective& what, int rank, int size) {
  (void)rank;
  size_t n = size;
  std::visit(
      Overloaded{[&](const AllReduce& c) { LS_CHECK(c.count >= 0); },
                 [&](const AllGather& c) {
                   LS_CHECK(c.counts.size() == n, "all_gather: ", c.counts.size(), " counts for ", size,
                            " ranks");
                 },
                 [&](const ReduceScatter& c) {
                   LS_CHECK(c.counts.size() == n, "reduce_scatter: ", c.counts.size(), " counts for ", size,
                            " ranks");
                 },
                 [&](const AllToAll& c) {
                   LS_CHECK(c.send_counts.size() == n && c.recv_counts.size() == n,
                            "all_to_all: ", c.send_counts.size(), " and ", c.recv_counts.size(),
                            " counts for ", size, " ranks");
                 },
                 [&](const Broadcast& c) {
                   LS_CHECK(c.root >= 0 && c.root < size, "broadcast: root ", c.root, " of ", size, " ranks");
                 },
                 [&](const Send& c) {
                   LS_CHECK(c.to >= 0 && c.to < size, "send: to ", c.to, " of ", size, " ranks");
                 },
                 [&](const Recv& c) {
                   LS_CHECK(c.from >= 0 && c.from < size, "recv: from ", c.from, " of ", size, " ranks");
                 },
                 [&](const Barrier&) {}},
      what);
}

void run_solo(const Collective& what) {
  std::visit(Overloaded{[](const AllReduce& c) { copy(c.out, c.in, c.count, c.dtype); },
                        [](const AllGather& c) { copy(c.out, c.in, c.counts[0], c.dtype); },
                        [](const ReduceScatter& c) { copy(c.out, c.in, c.counts[0], c.dtype); },
                        [](const AllToAll& c) {
                          LS_CHECK(c.send_counts[0] == c.recv_counts[0], "all_to_all: sends ",
                                   c.send_counts[0], " to itself and receives ", c.recv_counts[0]);
                          copy(c.out, c.in, c.send_counts[0], c.dtype);
                        },
                        [](const Broadcast&) {},
                        [](const Send&) { throw InternalError("send in a group of one rank"); },
                        [](const Recv&) { throw InternalError("recv in a group of one rank"); },
                        [](const Barrier&) {}},
             what);
}

}  // namespace lockstep
