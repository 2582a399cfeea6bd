// Reads the records for LateWatch: those of this host's ranks, or the copies that ranks of several hosts
// write.
#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "launcher/supervise/watch/late.h"
#include "launcher/supervise/worker/contract.h"

namespace lockstep::launcher {

using namespace distributed;

namespace {
constexpr double kCopyRead = 0.5;  // seconds between two reads of the copies
}

bool LateWatch::all_open() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.record.has_value(); });
}

void LateWatch::open_records(int64_t now_ns) {
  for (size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].record) continue;
    try {
      FlightReader record(progress_file(log_dir_, static_cast<int64_t>(r)));
      ranks_[r].at = record.progress();
      ranks_[r].moved_ns = now_ns;
      ranks_[r].record.emplace(std::move(record));
    } catch (const UserError&) {}  // not started yet, or already ended: neither is late
  }
}

// Every copy is a new file. The offset between the hosts' clocks is estimated as the smallest difference
// seen, which has the least delay.
void LateWatch::read_copy(size_t r, int64_t now_ns) {
  Rank& rank = ranks_[r];
  try {
    FlightReader copy(progress_file(log_dir_, static_cast<int64_t>(r)));
    rank.record.emplace(std::move(copy));
  } catch (const UserError&) { return; }  // the last good copy is kept
  const int64_t beat = rank.record->progress().beat_ns;
  if (beat == 0) return;
  rank.apart_ns = rank.clock_known ? std::min(rank.apart_ns, now_ns - beat) : now_ns - beat;
  rank.clock_known = true;
}

void LateWatch::read_progress_words(int64_t now_ns) {
  if (!hosts_.empty() && static_cast<double>(now_ns - copies_ns_) * 1e-9 >= kCopyRead) {
    copies_ns_ = now_ns;
    for (size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].record) read_copy(r, now_ns);
  }
  for (Rank& rank : ranks_) {
    if (!rank.record) continue;
    WorkerProgress at = moved({rank.record->progress(), {}}, rank.apart_ns).progress;
    if (at.events != rank.at.events) rank.moved_ns = now_ns;
    rank.at = std::move(at);
    const double span = static_cast<double>(rank.at.beat_ns - rank.cpu_from_beat_ns) * 1e-9;
    if (span < 0.5) continue;
    if (rank.cpu_from_beat_ns)
      rank.cores = static_cast<double>(rank.at.cpu_ns - rank.cpu_from_ns) * 1e-9 / span;
    rank.cpu_from_ns = rank.at.cpu_ns;
    rank.cpu_from_beat_ns = rank.at.beat_ns;
  }
}

LateWatch::Logs LateWatch::read_logs() const {
  Logs logs;
  for (const Rank& rank : ranks_)
    if (rank.record) logs.push_back(moved(rank.record->log(), rank.apart_ns));
  return logs;
}

std::string LateWatch::disagreement() const {
  try {
    if (auto mismatch = find_mismatch(read_logs())) return text(*mismatch);
  } catch (const UserError&) {}  // an unreadable record is skipped
  return "";
}

std::vector<std::string> LateWatch::silent_hosts() const {
  std::set<std::string> silent(hosts_.begin(), hosts_.end());
  for (size_t r = 0; r < hosts_.size(); ++r)
    if (ranks_[r].stopped_ns == 0) silent.erase(hosts_[r]);
  return {silent.begin(), silent.end()};
}

std::string LateWatch::place(int64_t rank) const {
  if (rank < 0 || rank >= static_cast<int64_t>(ranks_.size())) return "";
  try {
    const auto& record = ranks_[rank].record;
    return place_text(record ? record->log() : read_flight_log(progress_file(log_dir_, rank)));
  } catch (const UserError&) {
    return "";  // no readable record: the cause is reported without a position
  }
}

void LateWatch::keep() const {
  for (const Rank& rank : ranks_)
    if (rank.record) rank.record->keep();
}

}  // namespace lockstep::launcher
