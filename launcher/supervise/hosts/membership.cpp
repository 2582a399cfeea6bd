// Membership: works only on numbers and names; it never contacts a host.
#include "launcher/supervise/hosts/membership.h"

#include <algorithm>

namespace lockstep::launcher {

int64_t next_nproc(const LaunchOptions& options, int64_t nproc, int64_t dead) {
  if (options.min_nproc <= 0) return nproc;
  return std::max(std::min(options.min_nproc, nproc), nproc - dead);
}

bool Membership::ranks_away() const {
  if (!hosts_.several()) return !whole();
  for (const auto& host : hosts_.list)
    for (const auto& asked : asked_.hosts.list)
      if (asked.name == host.name && host.ranks < asked.ranks) return true;
  return false;
}

bool Membership::enough(const LaunchHosts& hosts) const {
  return hosts.ranks() >= (asked_.min_nproc > 0 ? asked_.min_nproc : asked_.nproc);
}

void Membership::move_to(LaunchHosts hosts, std::vector<HostRanks> away) {
  hosts_ = std::move(hosts);
  nproc_ = hosts_.ranks();
  away_.insert(away_.end(), away.begin(), away.end());
}

// A spare host takes as many ranks as the lost one had, limited by its slots.
LaunchHosts Membership::without(const std::vector<std::string>& hosts, const std::vector<int64_t>& ranks,
                                std::vector<HostRanks>& away) const {
  LaunchHosts out = hosts_.without(hosts, ranks);
  for (const auto& host : hosts_.list) {
    if (std::find(hosts.begin(), hosts.end(), host.name) == hosts.end()) continue;
    away.push_back(host);
    if (out.spare.empty()) continue;
    HostRanks spare = out.spare.front();
    out.spare.erase(out.spare.begin());
    spare.ranks = std::min(spare.ranks, host.ranks);
    out.list.push_back(spare);
  }
  return out;
}

void Membership::lose(const std::vector<std::string>& hosts, const std::vector<int64_t>& ranks) {
  if (!hosts_.several()) {
    nproc_ = next_nproc(asked_, nproc_, static_cast<int64_t>(ranks.size()));
    return;
  }
  std::vector<HostRanks> away;
  // First choice: leave out lost hosts and dead ranks. If too few remain, restart the dead ranks on present
  // hosts; if that is also too few, change nothing.
  if (LaunchHosts fewer = without(hosts, ranks, away); enough(fewer)) return move_to(std::move(fewer), away);
  away.clear();  // ranks that died may return on present hosts
  if (LaunchHosts same = without(hosts, {}, away); enough(same)) move_to(std::move(same), away);
}

bool Membership::leave_out(const std::string& host) {
  std::vector<HostRanks> away;
  LaunchHosts rest = without({host}, {}, away);
  if (away.empty() || !enough(rest)) return false;
  move_to(std::move(rest), away);
  return true;
}

bool Membership::exclude(const std::vector<int64_t>& ranks, int64_t devices) {
  if (!hosts_.several()) {
    const int64_t fewer = nproc_ - static_cast<int64_t>(ranks.size());
    const int64_t rest = devices > 0 ? std::min(nproc_, devices) : fewer;
    if (rest < 1 || rest < (asked_.min_nproc > 0 ? asked_.min_nproc : asked_.nproc)) return false;
    nproc_ = rest;
    asked_.nproc = std::min(asked_.nproc, rest);  // the run is complete without them
    return true;
  }
  std::vector<std::string> names;
  for (int64_t rank : ranks) names.push_back(hosts_.of(rank));
  std::vector<HostRanks> away;
  LaunchHosts rest = without(names, {}, away);
  if (away.empty() || !enough(rest)) return false;
  const int64_t before = nproc_;
  move_to(std::move(rest), {});
  asked_.nproc -= before - nproc_;
  return true;
}

void Membership::take_back(const std::vector<std::string>& back) {
  if (!hosts_.several()) {
    nproc_ = asked_.nproc;
    return;
  }
  for (auto& host : hosts_.list)  // ranks that died on a present host
    for (const auto& asked : asked_.hosts.list)
      if (asked.name == host.name) host.ranks = asked.ranks;
  int64_t room = asked_.nproc - hosts_.ranks();
  std::erase_if(away_, [&](const HostRanks& host) {
    if (std::find(back.begin(), back.end(), host.name) == back.end()) return false;
    if (host.ranks <= room) {
      hosts_.list.push_back(host), room -= host.ranks;
    } else {
      hosts_.spare.push_back(host);  // another host has taken its place
    }
    return true;
  });
  nproc_ = hosts_.ranks();
}

}  // namespace lockstep::launcher
