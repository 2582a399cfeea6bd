// Arrival times compared across ranks: lateness, not duration, since a collective equalises durations.
#include "distributed/watch/late.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/base/text.h"

namespace lockstep {

std::vector<LateReport> find_late(const std::vector<FlightLog>& logs, double after_s, int64_t now_ns) {
  struct Site {
    LateReport report;
    std::set<int> arrived;
    int64_t first_ns = 0;
    bool in_flight = false;
  };
  std::map<std::pair<uint64_t, int64_t>, Site> sites;
  std::map<std::pair<uint64_t, int>, int64_t> furthest;  // of a group's rank: its last collective there
  for (const FlightLog& log : logs)
    for (const FlightEntry& entry : log.entries) {
      if (entry.group_seq < 0) continue;
      Site& site = sites[{entry.group.key, entry.group_seq}];
      if (site.arrived.empty())
        site.report = {entry.group, entry.group_seq, entry.verb, entry.label, 0, {}, {}}, site.first_ns = entry.start_ns;
      site.first_ns = std::min(site.first_ns, entry.start_ns);
      site.arrived.insert(entry.group.rank);
      auto& last = furthest.try_emplace({entry.group.key, entry.group.rank}, entry.group_seq).first->second;
      last = std::max(last, entry.group_seq);
      site.in_flight |= entry.state == FlightState::started;
    }
  std::vector<LateReport> out;
  for (auto& [key, site] : sites) {
    LateReport& report = site.report;
    report.waited_s = (static_cast<double>(now_ns) - static_cast<double>(site.first_ns)) * 1e-9;
    if (!site.in_flight || report.waited_s < after_s) continue;
    std::vector<bool> there(static_cast<size_t>(report.group.size));
    auto mark = [&](int r) { if (r < report.group.size) there[static_cast<size_t>(r)] = true; };
    for (int r : site.arrived) mark(r);
    // A rank that is further has been there: its line has left the record.
    for (auto last = furthest.lower_bound({key.first, 0}); last != furthest.end() && last->first.first == key.first; ++last)
      if (last->second > key.second) mark(last->first.second);
    for (int r = 0; r < report.group.size; ++r) (there[static_cast<size_t>(r)] ? report.arrived : report.missing).push_back(r);
    out.push_back(std::move(report));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.waited_s > b.waited_s; });
  return out;
}

std::string text(const LateReport& report) {
  std::vector<std::string> ranks;
  for (int r : report.missing) ranks.push_back(str(r));
  std::string waits_for = report.missing.empty()
                              ? "its transfer, all ranks are in"
                              : str(ranks.size() == 1 ? "rank " : "ranks ", join(ranks, ", "), " of ", report.group.size);
  return str("group \"", report.group.name, "\": ", report.verb, " \"", report.label, "\" (#", report.group_seq, ") has waited ",
             number_text(std::trunc(report.waited_s * 10) / 10), " s for ", waits_for);
}

}  // namespace lockstep
