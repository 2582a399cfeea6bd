// LocalHub: the meeting point of ranks that are threads of one process. All groups of a world share one lock,
// since a failure of one rank ends every group.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "core/mesh/group.h"
#include "distributed/local/local_world.h"
#include "distributed/watch/flight_record.h"

namespace lockstep::distributed {

using LocalClock = std::chrono::steady_clock;

// A meeting: one collective of one group, filled as its parties arrive. A collective has one party per rank;
// send and recv are two parties.
struct LocalMeeting {
  enum class State { gathering, full, moving, done };
  struct Party {
    bool present = false;
    bool withdrawn = false;  // its buffers may be freed: its data can no longer be moved
    Collective what;
    std::string label;
  };
  State state = State::gathering;
  std::vector<Party> parties;
  std::vector<int> ranks;  // the group's rank of each party
  int arrived = 0;
  LocalClock::time_point ready_at{};  // the earliest time at which a full meeting may move its data
};

// The part of a group that its ranks share: the numbers of its collectives and its open meetings.
struct LocalChannel {
  std::string name;
  std::vector<int> world_ranks;
  std::vector<int64_t> next;                              // per rank: number of its next collective
  std::map<int64_t, std::shared_ptr<LocalMeeting>> open;  // collectives that not every rank has joined
  using Pair = std::tuple<int, int, int>;                 // from, to, tag
  std::map<Pair, std::pair<int64_t, int64_t>> pair_next;  // number of the next send and recv
  std::map<std::pair<Pair, int64_t>, std::shared_ptr<LocalMeeting>> open_pairs;
  LocalClock::time_point link_free{};
  int size() const { return static_cast<int>(world_ranks.size()); }
};

struct LocalSeat {  // one rank's participation in a meeting
  std::shared_ptr<LocalMeeting> meeting;
  int party = 0;
  int64_t group_seq = -1;
};

class LocalHub {
 public:
  LocalHub(int world_size, const LocalOptions& options) : options_(options), left_(world_size, false) {}

  // Returns the channel of these ranks, the same object for each of them. `key` distinguishes groups from
  // different splits.
  std::shared_ptr<LocalChannel> channel(const std::string& key, const std::string& name,
                                        const std::vector<int>& world_ranks);
  // Joins the next meeting of a rank. The last rank to arrive moves the data, unless there is latency. Throws
  // PeerError if the ranks' collectives differ.
  LocalSeat join(LocalChannel& channel, int rank, const Collective& what, const std::string& label);
  bool done(LocalSeat& seat);  // moves the data if it is time; never blocks
  void wait(LocalChannel& channel, int rank, LocalSeat& seat, double deadline_s);
  void withdraw(LocalChannel& channel, int rank, LocalSeat& seat);
  // Reports that a rank has ended, with an error text or normally ("").
  void leave(int world_rank, const std::string& error);
  int culprit();  // world rank of the first failure, which made all others fail; -1: none

  const LocalOptions& options() const { return options_; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  void hold(LocalMeeting& meeting, Lock& lock);  // moves the data of a full meeting, outside the lock
  bool try_hold(LocalMeeting& meeting, Lock& lock);
  void check_party(const LocalChannel& channel, const LocalMeeting& meeting, int party, int64_t number);
  void close_full(LocalChannel& channel, LocalMeeting& meeting);
  void fail(int world_rank, const std::string& text);  // call with the lock held; the first call counts
  std::string missing_text(const LocalChannel& channel, const LocalMeeting& meeting) const;

  LocalOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> left_;
  std::string failure_;  // why no collective can complete any more; empty: no failure
  int culprit_ = -1;
  std::map<std::string, std::shared_ptr<LocalChannel>> channels_;
};

}  // namespace lockstep::distributed
