// LocalGroup and LocalWorld: a rank's view of the hub, and the threads that run the ranks.
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "core/base/error.h"
#include "distributed/local/hub.h"
#include "distributed/local/local_world.h"
#include "distributed/mesh/device_mesh.h"
#include "distributed/watch/site.h"

namespace lockstep::distributed {

namespace {

// The state of a started collective, shared by its Work and its items on streams.
class LocalFlight {
 public:
  // Constructed on the rank's own thread, whose flight recorder it takes: stream items may run on another
  // thread.
  LocalFlight(std::shared_ptr<LocalHub> hub, std::shared_ptr<LocalChannel> channel, GroupIdentity identity,
              Collective what, std::string label)
      : hub_(std::move(hub)),
        channel_(std::move(channel)),
        identity_(std::move(identity)),
        what_(std::move(what)),
        label_(std::move(label)),
        recorder_(flight_recorder()) {}

  // Runs on the stream; a failure also ends a wait on another stream.
  void join() {
    LocalSeat seat;
    try {
      seat = hub_->join(*channel_, identity_.rank, what_, label_);
    } catch (...) {
      std::lock_guard lock(mutex_);
      Flight(identity_, SitePlace{seat.group_seq}, what_, label_, recorder_).end(FlightState::failed);
      failure_ = std::current_exception();
      joined_.notify_all();
      throw;
    }
    std::lock_guard lock(mutex_);
    seat_ = seat;
    flight_ = Flight(identity_, SitePlace{seat.group_seq}, what_, label_, recorder_);
    joined_.notify_all();
  }
  bool done() {
    std::lock_guard lock(mutex_);
    if (failure_) return true;
    if (!seat_.meeting || !hub_->done(seat_)) return false;
    flight_.end(FlightState::done);
    return true;
  }
  void wait(double deadline_s) {
    {
      std::unique_lock lock(mutex_);
      if (!joined_.wait_for(lock, std::chrono::duration<double>(deadline_s),
                            [&] { return seat_.meeting || failure_; }))
        throw PeerError(deadline_text(identity_.name, identity_.rank, identity_.size, what_, label_,
                                      deadline_s, "its own stream has not reached it"));
      if (failure_) std::rethrow_exception(failure_);
    }
    try {
      hub_->wait(*channel_, identity_.rank, seat_, deadline_s);
    } catch (...) {
      end(FlightState::failed);
      throw;
    }
    end(FlightState::done);
  }
  void drop() {
    std::unique_lock lock(mutex_);
    if (!seat_.meeting || failure_) return;
    lock.unlock();
    hub_->withdraw(*channel_, identity_.rank, seat_);
  }

 private:
  void end(FlightState state) {
    std::lock_guard lock(mutex_);
    flight_.end(state);
  }
  std::shared_ptr<LocalHub> hub_;
  std::shared_ptr<LocalChannel> channel_;
  GroupIdentity identity_;
  Collective what_;
  std::string label_;
  std::shared_ptr<FlightRecorder> recorder_;
  std::mutex mutex_;
  std::condition_variable joined_;
  LocalSeat seat_;
  Flight flight_;
  std::exception_ptr failure_;
};

class LocalWork : public Work {
 public:
  LocalWork(std::shared_ptr<LocalFlight> flight, double deadline_s)
      : flight_(std::move(flight)), deadline_s_(deadline_s) {}
  ~LocalWork() override {
    if (!waited_) flight_->drop();
  }
  bool done() override { return flight_->done(); }
  void wait(Stream& stream) override {
    waited_ = true;
    stream.run([flight = flight_, seconds = deadline_s_] { flight->wait(seconds); });
  }

 private:
  std::shared_ptr<LocalFlight> flight_;
  double deadline_s_;
  bool waited_ = false;
};

class LocalGroup : public Group {
 public:
  LocalGroup(std::shared_ptr<LocalHub> hub, std::shared_ptr<LocalChannel> channel, int rank)
      : hub_(std::move(hub)),
        channel_(std::move(channel)),
        identity_(identify_group(channel_->name, channel_->world_ranks, rank)) {
    deadline_s_ = hub_->options().deadline_s;
    if (deadline_s_ <= 0) take_deadlines();
  }
  int rank() const override { return identity_.rank; }
  int size() const override { return identity_.size; }
  const std::string& name() const override { return identity_.name; }
  std::shared_ptr<Work> start(const Collective& what, const std::string& label, Stream& stream) override {
    check_collective(what, rank(), size());
    note_issued(what, label);
    auto flight = std::make_shared<LocalFlight>(hub_, channel_, identity_, what, label);
    stream.run([flight] { flight->join(); });
    return std::make_shared<LocalWork>(flight, deadline());
  }

 private:
  std::shared_ptr<LocalHub> hub_;
  std::shared_ptr<LocalChannel> channel_;
  GroupIdentity identity_;
};

class LocalWorld : public World {
 public:
  LocalWorld(std::shared_ptr<LocalHub> hub, int rank, int size)
      : hub_(std::move(hub)), rank_(rank), size_(size) {
    std::vector<int> all(size);
    for (int r = 0; r < size; ++r) all[r] = r;
    group_ = std::make_shared<LocalGroup>(hub_, hub_->channel("world", "world", all), rank);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::shared_ptr<Group> group() override { return group_; }
  std::shared_ptr<Group> split(int color, int key, const std::string& name) override {
    struct Wish {
      int64_t color, key, rank;
    } mine{color, key, rank_};
    std::vector<Wish> all(size_);
    all_gather(*group_, {&mine, all.data(), std::vector<int64_t>(size_, 3), DType::i64}, str("split ", name));
    std::erase_if(all, [&](const Wish& wish) { return wish.color != color; });
    std::sort(all.begin(), all.end(),
              [](const Wish& a, const Wish& b) { return std::tie(a.key, a.rank) < std::tie(b.key, b.rank); });
    std::vector<int> members;
    for (const Wish& wish : all) members.push_back(static_cast<int>(wish.rank));
    int index = static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
    return std::make_shared<LocalGroup>(
        hub_, hub_->channel(str("split ", splits_++, " color ", color), name, members), index);
  }
  void finish() override { barrier(*group_, "finish"); }

 private:
  std::shared_ptr<LocalHub> hub_;
  int rank_, size_;
  std::shared_ptr<Group> group_;
  int splits_ = 0;
};
}  // namespace

void with_world(int n, const std::function<void(std::shared_ptr<World>)>& fn, const LocalOptions& options) {
  LS_CHECK(n >= 1, "a world of ", n, " ranks");
  auto hub = std::make_shared<LocalHub>(n, options);
  std::vector<std::exception_ptr> errors(n);
  auto body = [&](int rank) {
    std::string error;
    try {
      fn(std::make_shared<LocalWorld>(hub, rank, n));
    } catch (const std::exception& failed) {
      error = failed.what();
      errors[rank] = std::current_exception();
    } catch (...) {
      error = "an exception that is no std::exception";
      errors[rank] = std::current_exception();
    }
    hub->leave(rank, error);
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) threads.emplace_back(body, rank);
  for (auto& thread : threads) thread.join();
  // A rank that throws drops its collectives in flight before its exception arrives here. So the hub, not the
  // time of arrival, tells which rank failed first.
  if (int culprit = hub->culprit(); culprit >= 0 && errors[culprit]) std::rethrow_exception(errors[culprit]);
  for (auto& error : errors)
    if (error) std::rethrow_exception(error);
}

void with_ranks(int n, const std::function<void(Group&)>& fn, const LocalOptions& options) {
  with_world(n, [&](std::shared_ptr<World> world) { fn(*world->group()); }, options);
}

void local_mesh(int n, const Mesh& words, const std::function<void(LiveMesh&)>& fn,
                const LocalOptions& options) {
  LS_CHECK(words.size() == n, "mesh ", text(words), " on ", n, " ranks");
  with_world(
      n,
      [&](std::shared_ptr<World> world) {
        LiveMesh mesh = live_mesh(world, words);
        fn(mesh);
      },
      options);
}

void with_ranks(int n, const std::function<void(LiveMesh&)>& fn, const LocalOptions& options) {
  local_mesh(n, Mesh{{n}, {"dp_replicate"}}, fn, options);
}

}  // namespace lockstep::distributed
