// Compares arrival times across ranks. Durations would not show who is late, since a collective makes the
// others wait.
#include "distributed/watch/late.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/base/text.h"

namespace lockstep::distributed {

std::vector<LateReport> find_late(const std::vector<FlightLog>& logs, double after_s, int64_t now_ns) {
  struct Site {
    LateReport report;
    std::set<int> arrived;
    int64_t first_ns = 0;
    bool in_flight = false;
  };
  std::map<std::pair<uint64_t, int64_t>, Site> sites;
  std::map<std::pair<uint64_t, int>, int64_t> furthest;  // per rank of a group: its latest collective
  for (const FlightLog& log : logs)
    for (const FlightEntry& entry : log.entries) {
      if (entry.group_seq < 0) continue;
      Site& site = sites[{entry.group.key, entry.group_seq}];
      if (site.arrived.empty())
        site.report = {entry.group, entry.group_seq, entry.verb, entry.label, 0, {}, {}},
        site.first_ns = entry.start_ns;
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
    std::vector<bool> there(report.group.size);
    auto mark = [&](int r) {
      if (r < report.group.size) there[r] = true;
    };
    for (int r : site.arrived) mark(r);
    // A rank with a later collective has passed this one; its entry is no longer in the record.
    for (auto last = furthest.lower_bound({key.first, 0});
         last != furthest.end() && last->first.first == key.first; ++last)
      if (last->second > key.second) mark(last->first.second);
    for (int r = 0; r < report.group.size; ++r) (there[r] ? report.arrived : report.missing).push_back(r);
    out.push_back(std::move(report));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.waited_s > b.waited_s; });
  return out;
}

std::string text(const LateReport& report) {
  std::vector<std::string> ranks;
  for (int r : report.missing) ranks.push_back(str(r));
  std::string waits_for = report.missing.empty() ? "its transfer: all ranks are at it"
                                                 : str(ranks.size() == 1 ? "rank " : "ranks ",
                                                       join(ranks, ", "), " of ", report.group.size);
  return str("group \"", report.group.name, "\": ", report.verb, " \"", report.label, "\" (#",
             report.group_seq, ") has waited ", number_text(std::trunc(report.waited_s * 10) / 10), " s for ",
             waits_for);
}

std::optional<Mismatch> find_mismatch(const std::vector<FlightLog>& logs) {
  struct Seen {
    const FlightEntry* entry;
    int rank;
  };
  std::map<std::pair<uint64_t, int64_t>, Seen> first;
  std::optional<Mismatch> out;
  auto keep = [&](const Seen& one, const Seen& other, bool before) {
    const bool earlier =
        !out || (out->before && !before) || (out->before == before && one.entry->group_seq < out->group_seq);
    if (!earlier || (out && !out->before && before)) return;
    out = Mismatch{one.entry->group,      one.entry->group_seq,   before, one.rank, other.rank,
                   site_text(*one.entry), site_text(*other.entry)};
  };
  for (const FlightLog& log : logs)
    for (const FlightEntry& entry : log.entries) {
      if (entry.group_seq < 0 || entry.trail == 0) continue;
      const Seen here{&entry, log.progress.rank};
      auto [at, fresh] = first.try_emplace({entry.group.key, entry.group_seq}, here);
      if (fresh || at->second.entry->trail == entry.trail) continue;
      keep(at->second, here, at->second.entry->site == entry.site);
    }
  return out;
}

std::string text(const Mismatch& m) {
  const char* rule = "; all ranks must start the same collectives in the same order";
  if (m.before)
    return str("ranks ", m.rank, " and ", m.other, " started different collectives of group ", m.group.name,
               " before number ", m.group_seq, ", ", m.site, ", which is the oldest that is recorded of both",
               rule, " (LOCKSTEP_VERIFY=1 names the first that differs)");
  const auto ended = [](const std::string& site) { return site.rfind("barrier \"finish\"", 0) == 0; };
  if (ended(m.site) != ended(m.other_site)) {
    const bool first = ended(m.site);
    return str("rank ", first ? m.rank : m.other, " left early: its program came to an end, and rank ",
               first ? m.other : m.rank, " started ", first ? m.other_site : m.site, " (collective ",
               m.group_seq, " of group ", m.group.name, "); all ranks must leave together");
  }
  return str("collective ", m.group_seq, " of group ", m.group.name, " differs: rank ", m.rank, " started ",
             m.site, ", rank ", m.other, " started ", m.other_site, rule);
}

}  // namespace lockstep::distributed
