// Meetings of threads: arrival, comparison, data movement, deadline, and failure of a rank.
#include "distributed/local/hub.h"

#include <algorithm>

#include "core/base/error.h"
#include "distributed/local/move.h"
#include "distributed/watch/site.h"

namespace lockstep::distributed {

std::shared_ptr<LocalChannel> LocalHub::channel(const std::string& key, const std::string& name,
                                                const std::vector<int>& world_ranks) {
  std::lock_guard lock(mutex_);
  auto& channel = channels_[key];
  if (!channel) {
    channel = std::make_shared<LocalChannel>();
    channel->name = name;
    channel->world_ranks = world_ranks;
    channel->next.assign(world_ranks.size(), 0);
  }
  return channel;
}

void LocalHub::fail(int world_rank, const std::string& text) {
  if (failure_.empty()) failure_ = text, culprit_ = world_rank;
  changed_.notify_all();
}

int LocalHub::culprit() {
  std::lock_guard lock(mutex_);
  return culprit_;
}

void LocalHub::leave(int world_rank, const std::string& error) {
  std::lock_guard lock(mutex_);
  left_[world_rank] = true;
  if (!error.empty()) fail(world_rank, str("rank ", world_rank, " failed: ", error));
  changed_.notify_all();
}

std::string LocalHub::missing_text(const LocalChannel& channel, const LocalMeeting& meeting) const {
  std::string missing, gone;
  for (size_t p = 0; p < meeting.parties.size(); ++p) {
    if (meeting.parties[p].present) continue;
    missing += str(missing.empty() ? "" : ", ", meeting.ranks[p]);
    if (left_[channel.world_ranks[meeting.ranks[p]]]) gone += str(gone.empty() ? "" : ", ", meeting.ranks[p]);
  }
  if (!gone.empty()) return str("not started by rank ", gone, ", which has ended");
  return missing.empty() ? "all ranks have started it" : str("not started by rank ", missing);
}

void LocalHub::check_party(const LocalChannel& channel, const LocalMeeting& meeting, int party,
                           int64_t number) {
  const auto& mine = meeting.parties[party];
  for (size_t p = 0; p < meeting.parties.size(); ++p) {
    const auto& other = meeting.parties[p];
    if (static_cast<int>(p) == party || !other.present) continue;
    bool mine_first = party < static_cast<int>(p);
    const auto& a = mine_first ? mine : other;
    const auto& b = mine_first ? other : mine;
    int rank_a = meeting.ranks[std::min<int>(party, p)], rank_b = meeting.ranks[std::max<int>(party, p)];
    std::string what = difference(a.what, rank_a, b.what, rank_b);
    bool pair = std::holds_alternative<Send>(a.what);
    if (what.empty() && !pair && a.label != b.label) what = "label";
    if (what.empty()) continue;
    std::string text =
        str("group \"", channel.name, "\": ", pair ? "message " : "collective ", number, " differs in its ",
            what, ": rank ", rank_a, " started ", site_text(a.what, a.label), ", rank ", rank_b, " started ",
            site_text(b.what, b.label), "; all ranks must start the same collectives in the same order");
    fail(channel.world_ranks[meeting.ranks[party]], text);
    throw PeerError(text);
  }
}

void LocalHub::close_full(LocalChannel& channel, LocalMeeting& meeting) {
  meeting.state = LocalMeeting::State::full;
  int64_t bytes = 0;
  for (const auto& party : meeting.parties) bytes = std::max(bytes, sent_bytes(party.what));
  double seconds =
      options_.latency_s + (options_.bytes_per_s > 0 ? static_cast<double>(bytes) / options_.bytes_per_s : 0);
  auto now = LocalClock::now();
  if (seconds <= 0) {
    meeting.ready_at = now;
    return;
  }
  meeting.ready_at = std::max(now, channel.link_free) +
                     std::chrono::duration_cast<LocalClock::duration>(std::chrono::duration<double>(seconds));
  channel.link_free = meeting.ready_at;
}

LocalSeat LocalHub::join(LocalChannel& channel, int rank, const Collective& what, const std::string& label) {
  Lock lock(mutex_);
  if (!failure_.empty())
    throw PeerError(
        str("group \"", channel.name, "\": ", site_text(what, label), " cannot start: ", failure_));
  LocalSeat seat;
  int64_t number = 0;
  auto open = [&](auto& meetings, const auto& key, std::vector<int> ranks) {
    auto& meeting = meetings[key];
    if (!meeting) {
      meeting = std::make_shared<LocalMeeting>();
      meeting->parties.resize(ranks.size());
      meeting->ranks = std::move(ranks);
    }
    seat.meeting = meeting;
    if (++meeting->arrived == static_cast<int>(meeting->parties.size())) meetings.erase(key);
  };
  auto* send = std::get_if<Send>(&what);
  auto* recv = std::get_if<Recv>(&what);
  if (send || recv) {
    LocalChannel::Pair pair = send ? LocalChannel::Pair{rank, send->to, send->tag}
                                   : LocalChannel::Pair{recv->from, rank, recv->tag};
    auto& next = channel.pair_next[pair];
    number = send ? next.first++ : next.second++;
    seat.party = send ? 0 : 1;
    open(channel.open_pairs, std::pair(pair, number), {std::get<0>(pair), std::get<1>(pair)});
  } else {
    number = seat.group_seq = channel.next[rank]++;
    seat.party = rank;
    std::vector<int> ranks(channel.world_ranks.size());
    for (size_t r = 0; r < ranks.size(); ++r) ranks[r] = static_cast<int>(r);
    open(channel.open, number, std::move(ranks));
  }
  LocalMeeting& meeting = *seat.meeting;
  meeting.parties[seat.party] = {true, false, what, label};
  check_party(channel, meeting, seat.party, number);
  if (meeting.arrived == static_cast<int>(meeting.parties.size())) {
    close_full(channel, meeting);
    try_hold(meeting, lock);
    changed_.notify_all();
  }
  return seat;
}

// In state `moving` no other thread touches the parties' buffers or withdraws them.
void LocalHub::hold(LocalMeeting& meeting, Lock& lock) {
  meeting.state = LocalMeeting::State::moving;
  std::vector<const Collective*> by_rank;
  for (const auto& party : meeting.parties) by_rank.push_back(&party.what);
  lock.unlock();
  move_data(by_rank);
  lock.lock();
  meeting.state = LocalMeeting::State::done;
  changed_.notify_all();
}

bool LocalHub::try_hold(LocalMeeting& meeting, Lock& lock) {
  if (meeting.state == LocalMeeting::State::full && LocalClock::now() >= meeting.ready_at &&
      std::none_of(meeting.parties.begin(), meeting.parties.end(),
                   [](const auto& party) { return party.withdrawn; }))
    hold(meeting, lock);
  return meeting.state == LocalMeeting::State::done;
}

bool LocalHub::done(LocalSeat& seat) {
  Lock lock(mutex_);
  return try_hold(*seat.meeting, lock);
}

void LocalHub::wait(LocalChannel& channel, int rank, LocalSeat& seat, double deadline_s) {
  Lock lock(mutex_);
  LocalMeeting& meeting = *seat.meeting;
  auto deadline = LocalClock::now() +
                  std::chrono::duration_cast<LocalClock::duration>(std::chrono::duration<double>(deadline_s));
  while (!try_hold(meeting, lock)) {
    auto& mine = meeting.parties[seat.party];
    std::string site = site_text(mine.what, mine.label);
    auto give_up = [&](const std::string& text) {
      mine.withdrawn = true;
      fail(channel.world_ranks[rank], text);
      throw PeerError(text);
    };
    if (meeting.state != LocalMeeting::State::moving) {
      if (!failure_.empty()) {
        mine.withdrawn = true;
        throw PeerError(
            str("group \"", channel.name, "\": ", site, " cannot complete on rank ", rank, ": ", failure_));
      }
      for (size_t p = 0; p < meeting.parties.size(); ++p)
        if (!meeting.parties[p].present && left_[channel.world_ranks[meeting.ranks[p]]])
          give_up(str("group \"", channel.name, "\": ", site, " cannot complete on rank ", rank, ": ",
                      missing_text(channel, meeting)));
      if (LocalClock::now() >= deadline)
        give_up(deadline_text(channel.name, rank, channel.size(), mine.what, mine.label, deadline_s,
                              missing_text(channel, meeting)));
    }
    if (meeting.state == LocalMeeting::State::full)
      changed_.wait_until(lock, std::min(deadline, meeting.ready_at));
    else if (meeting.state == LocalMeeting::State::moving)
      changed_.wait(lock);  // another thread is copying, which is bounded
    else
      changed_.wait_until(lock, deadline);
  }
}

void LocalHub::withdraw(LocalChannel& channel, int rank, LocalSeat& seat) {
  Lock lock(mutex_);
  LocalMeeting& meeting = *seat.meeting;
  changed_.wait(lock, [&] { return meeting.state != LocalMeeting::State::moving; });
  if (meeting.state == LocalMeeting::State::done) return;
  auto& mine = meeting.parties[seat.party];
  if (mine.withdrawn) return;
  mine.withdrawn = true;
  fail(channel.world_ranks[rank], str("group \"", channel.name, "\": ", site_text(mine.what, mine.label),
                                      " was dropped on rank ", rank, " before its wait"));
}

}  // namespace lockstep::distributed
