// Plans one queue forward in time and one backward, with a greedy choice at the fullest call.
#include "compiler/schedule/host_copies.h"

#include <algorithm>
#include <deque>
#include <numeric>

namespace lockstep::compiler {

namespace {
// A copy back is planned with this multiple of its time; if it is late, the calls stall.
constexpr double kLead = 1.25;
// A buffer smaller than this fraction of the fullest call is not worth a copy.
constexpr int64_t kSmall = 2048;

// A copy in one direction of time. Forward: to the host, from its last use on. Backward: to the device,
// ending at its next use; such times count from the end of the calls.
struct Job {
  size_t gap = 0;
  int from = 0, to = 0;  // calls of the gap
  int64_t bytes = 0;
  double seconds = 0, end = 0;
  int done = 0;  // the call before which it is finished; `to`: it does not finish in time
};

// Calls in order with one copy queue. If bytes are needed before copies are finished, the calls stall.
class Queue {
 public:
  Queue(std::vector<Job>& jobs, std::vector<double> seconds, std::vector<int64_t> alive, bool beside)
      : jobs_(jobs),
        seconds_(std::move(seconds)),
        alive_(std::move(alive)),
        ends_(seconds_.size() + 1, 0),
        beside_(beside) {
    std::stable_sort(jobs_.begin(), jobs_.end(), [](const Job& a, const Job& b) { return a.from < b.from; });
  }

  void run(int64_t within) {
    size_t next = 0;
    for (at_ = 0; at_ < static_cast<int>(seconds_.size()); ++at_) {
      freed_ -= ends_[at_];
      for (; next < jobs_.size() && jobs_[next].from <= at_; ++next) start(next);
      while (!open_.empty() && jobs_[open_.front()].end <= now_) settle();
      while (!open_.empty() && alive_[at_] - freed_ > within) {
        now_ = jobs_[open_.front()].end;
        settle();
      }
      now_ += seconds_[at_];
    }
  }

 private:
  void start(size_t j) {
    Job& job = jobs_[j];
    job.done = job.to;
    job.end = std::max(now_, free_) + job.seconds;
    free_ = job.end;
    if (!beside_) now_ = job.end;
    open_.push_back(j);
  }
  void settle() {
    Job& job = jobs_[open_.front()];
    open_.pop_front();
    if (at_ >= job.to) return;  // its reader comes first
    job.done = at_;
    freed_ += job.bytes;
    ends_[job.to] += job.bytes;
  }

  std::vector<Job>& jobs_;
  const std::vector<double> seconds_;
  const std::vector<int64_t> alive_;
  std::vector<int64_t> ends_;  // per call: bytes that become available again
  const bool beside_;
  std::deque<size_t> open_;
  int at_ = 0;
  int64_t freed_ = 0;
  double now_ = 0, free_ = 0;
};

// Simulates the calls with both queues and the chosen copies: the time for which calls stall.
class Clocks {
 public:
  Clocks(const std::vector<HostCopy>& copies, const std::vector<double>& copy_seconds, bool beside)
      : copy_seconds_(copy_seconds), beside_(beside), out_(copies.size(), 0), in_(copies.size(), 0) {
    for (size_t k = 0; k < copies.size(); ++k)
      for (const auto& [call, what] : {std::pair(copies[k].leaves, What::leaves),
                                       {copies[k].gone, What::gone},
                                       {copies[k].comes, What::comes},
                                       {copies[k].back, What::back}})
        events_.push_back({call, what, k});
    std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      return a.call != b.call ? a.call < b.call : a.what < b.what;
    });
  }
  double stall(const std::vector<double>& seconds) {
    size_t next = 0;
    for (size_t c = 0; c < seconds.size(); ++c) {
      for (; next < events_.size() && events_[next].call == static_cast<int>(c); ++next) pass(events_[next]);
      now_ += seconds[c];
    }
    return stall_;
  }

 private:
  enum class What { leaves, gone, comes, back };
  struct Event {
    int call;
    What what;
    size_t copy;
  };
  void pass(const Event& event) {
    const bool out = event.what == What::leaves || event.what == What::gone;
    double& end = (out ? out_ : in_)[event.copy];
    if (event.what == What::gone || event.what == What::back) return arrive(end);
    double& free = out ? out_free_ : in_free_;
    free = end = std::max(now_, free) + copy_seconds_[event.copy];
    if (!beside_) arrive(end);
  }
  void arrive(double end) {
    if (end > now_) stall_ += end - now_, now_ = end;
  }

  const std::vector<double>& copy_seconds_;
  const bool beside_;
  std::vector<Event> events_;
  std::vector<double> out_, in_;  // per copy: its arrival
  double out_free_ = 0, in_free_ = 0, now_ = 0, stall_ = 0;
};

class Chooser {
 public:
  Chooser(const std::vector<Lifetime>& lives, const std::vector<Gap>& gaps,
          const std::vector<double>& seconds, const TravelRates& rates, int64_t within)
      : lives_(lives), gaps_(gaps), seconds_(seconds), rates_(rates), within_(within) {
    std::vector<int64_t> change(seconds.size() + 1, 0);
    for (const Lifetime& life : lives) {
      change[std::min<size_t>(life.first, seconds.size())] += aligned_bytes(life.bytes);
      change[std::min<size_t>(life.last + 1, seconds.size())] -= aligned_bytes(life.bytes);
    }
    for (size_t c = 0; c < seconds.size(); ++c) alive_.push_back((c ? alive_[c - 1] : 0) + change[c]);
    until_.push_back(0);
    for (double each : seconds) until_.push_back(until_.back() + each);
    order_.resize(gaps.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return time_of(gaps_[a]) > time_of(gaps_[b]); });
    taken_.assign(gaps.size(), false), late_ = taken_;
  }

  HostCopies run() {
    HostCopies out = scheduled();
    while (out.peak > within_) {
      const auto next = std::find_if(order_.begin(), order_.end(), [&](size_t g) { return helps(g); });
      if (next == order_.end()) break;
      taken_[*next] = true;
      out = scheduled();
      if (waits(out, *next)) continue;
      taken_[*next] = false, late_[*next] = true;
      out = scheduled();
    }
    return out;
  }

 private:
  double time_of(const Gap& gap) const { return until_[gap.to] - until_[gap.from]; }
  int64_t bytes_of(size_t g) const { return aligned_bytes(lives_[gaps_[g].life].bytes); }
  bool helps(size_t g) const {
    return !taken_[g] && !late_[g] && gaps_[g].from <= fullest_ && fullest_ < gaps_[g].to &&
           bytes_of(g) * kSmall >= alive_[fullest_];
  }
  bool waits(const HostCopies& made, size_t g) const {
    return std::any_of(made.copies.begin(), made.copies.end(),
                       [&](const HostCopy& copy) { return copy.life == gaps_[g].life; });
  }
  double seconds_of(int64_t bytes) const {
    return rates_.host > 0 ? rates_.host_latency + static_cast<double>(bytes) / rates_.host
                           : 2 * static_cast<double>(bytes) / rates_.memory + rates_.launch;
  }

  HostCopies scheduled() {
    const auto calls = static_cast<int>(seconds_.size());
    std::vector<Job> out, in;
    for (size_t g = 0; g < gaps_.size(); ++g) {
      if (!taken_[g]) continue;
      const auto& [life, from, to] = gaps_[g];
      const double seconds = seconds_of(lives_[life].bytes);
      out.push_back({g, from, to, bytes_of(g), seconds});
      in.push_back({g, calls - to, calls - from, bytes_of(g), seconds * (rates_.host > 0 ? kLead : 1)});
    }
    HostCopies made;
    const bool beside = rates_.host > 0;
    Queue(out, seconds_, alive_, beside).run(within_);
    Queue(in, {seconds_.rbegin(), seconds_.rend()}, {alive_.rbegin(), alive_.rend()}, beside).run(within_);
    std::vector<int> comes(gaps_.size(), 0);
    for (const Job& job : in) comes[job.gap] = calls - job.done;
    std::vector<int64_t> change(seconds_.size() + 1, 0);
    std::vector<double> copy_seconds;
    for (const Job& job : out) {
      const Gap& gap = gaps_[job.gap];
      if (job.done >= comes[job.gap]) continue;  // it would return before it has left
      made.copies.push_back({gap.life, gap.from, job.done, comes[job.gap], gap.to});
      copy_seconds.push_back(job.seconds);
      change[job.done] -= job.bytes, change[comes[job.gap]] += job.bytes;
    }
    int64_t away = 0;
    fullest_ = 0;
    for (size_t c = 0; c < seconds_.size(); ++c)
      if (const int64_t here = alive_[c] + (away += change[c]); here > made.peak)
        made.peak = here, fullest_ = static_cast<int>(c);
    made.stall = Clocks(made.copies, copy_seconds, beside).stall(seconds_);
    return made;
  }

  const std::vector<Lifetime>& lives_;
  const std::vector<Gap>& gaps_;
  const std::vector<double>& seconds_;
  const TravelRates& rates_;
  const int64_t within_;
  std::vector<int64_t> alive_;  // per call, if nothing waits
  std::vector<double> until_;   // seconds of the calls before each
  std::vector<size_t> order_;   // gaps, the longest first
  std::vector<bool> taken_;     // per gap
  std::vector<bool> late_;      // per gap: whether its copies take longer than the gap
  int fullest_ = 0;
};
}  // namespace

HostCopies plan_host_copies(const std::vector<Lifetime>& lives, const std::vector<Gap>& gaps,
                            const std::vector<double>& seconds, const TravelRates& rates, int64_t within) {
  return Chooser(lives, gaps, seconds, rates, within).run();
}

namespace {
std::vector<Lifetime> with_copies(std::vector<Lifetime> lives, const std::vector<HostCopy>& copies) {
  for (const HostCopy& copy : copies) {
    lives.push_back({copy.comes, lives[copy.life].last, lives[copy.life].bytes});
    lives[copy.life].last = copy.gone - 1;
  }
  return lives;
}
}  // namespace

ArenaWithin plan_arena_within(const std::vector<Lifetime>& lives, const std::vector<Gap>& gaps,
                              const std::vector<double>& seconds, const TravelRates& rates, int64_t within) {
  constexpr int kTries = 12;
  ArenaWithin out{.copies = {}, .arena = plan_arena(lives), .host = {}};
  int64_t target = std::max<int64_t>(1, within);
  for (int i = 0; i < kTries && out.arena.bytes > within; ++i) {
    if (i + 1 == kTries) target = 1;  // everything that can wait
    HostCopies made = plan_host_copies(lives, gaps, seconds, rates, target);
    ArenaPlan arena = plan_arena(with_copies(lives, made.copies));
    const int64_t over = arena.bytes - within;
    if (arena.bytes < out.arena.bytes)
      out.copies = std::move(made.copies), out.arena = std::move(arena), out.stall = made.stall;
    target = std::max<int64_t>(1, target - std::max(over, within / 64 * (i + 1)));
  }
  std::vector<Lifetime> waiting;
  for (const HostCopy& copy : out.copies) waiting.push_back({copy.leaves, copy.back, lives[copy.life].bytes});
  out.host = plan_arena(waiting);
  return out;
}

}  // namespace lockstep::compiler
