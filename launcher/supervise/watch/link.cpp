// LinkWatch: evaluates windows of a few seconds, finds pairs of hosts that stand out, and the host they
// share.
#include "launcher/supervise/watch/link.h"

#include <algorithm>
#include <cstdio>

#include "core/base/text.h"

namespace lockstep::launcher {

namespace {
constexpr double kLinkWindow = 3;  // seconds at least
constexpr int64_t kSent = 200;     // minimum number of segments to judge retransmissions
constexpr int64_t kSentAgain = 4;  // minimum number of retransmissions
constexpr double kShare = 0.005;   // and their minimum share
// Limits of the round trip time: the minimum over minutes measures the link itself; the smoothed one includes
// delayed answers of the peer's kernel, at most 40 ms.
constexpr int64_t kLeastSlow = 5'000, kSmoothedSlow = 60'000;  // microseconds
constexpr int64_t kCut = 2'000;                                // milliseconds without an answer
constexpr double kRepeat = 60,
                 // seconds before a report is repeated; seconds without a bad window before a link is well
    // again
    kWell = 10;

std::string tenths(double value) {
  char out[32];
  std::snprintf(out, sizeof out, "%.1f", value);
  return out;
}

// "the link between h0 and h1", "the link from h1 to h0", "the links of h1 (with h0, h2)"; each with its
// finding.
template <class Found>
struct Subject {
  std::string name;
  bool many = false;
  Found worst;
};

template <class Pairs, class Worse>
auto subjects(const Pairs& bad, bool directed, Worse worse) {
  using Found = typename Pairs::mapped_type;
  std::map<std::string, std::set<std::string>> with;
  for (const auto& [pair, found] : bad)
    with[pair.first].insert(pair.second), with[pair.second].insert(pair.first);
  std::vector<Subject<Found>> out;
  auto worst = [&](auto counts) {
    Found most{};
    for (const auto& [pair, found] : bad)
      if (counts(pair) && worse(most, found)) most = found;
    return most;
  };
  // One host that all bad links have in common.
  for (const auto& [host, others] : with)
    if (others.size() > 1 && std::all_of(bad.begin(), bad.end(), [&](const auto& one) {
          return one.first.first == host || one.first.second == host;
        })) {
      out.push_back({str("the links of ", host, " (with ", join({others.begin(), others.end()}, ", "), ")"),
                     true, worst([](const auto&) { return true; })});
      return out;
    }
  std::set<std::pair<std::string, std::string>> done;
  for (const auto& [pair, found] : bad) {
    const auto back = std::make_pair(pair.second, pair.first);
    if (done.count(pair)) continue;
    const bool both = bad.count(back) != 0;
    done.insert({pair, back});
    const bool between = !directed || both;
    out.push_back({between ? str("the link between ", std::min(pair.first, pair.second), " and ",
                                 std::max(pair.first, pair.second))
                           : str("the link from ", pair.first, " to ", pair.second),
                   false, worst([&](const auto& one) { return one == pair || one == back; })});
  }
  return out;
}
}  // namespace

std::vector<std::string> hosts_to_leave_out(const std::set<std::pair<std::string, std::string>>& links,
                                            const std::vector<std::string>& order) {
  std::map<std::string, std::set<std::string>> with;
  for (const auto& [a, b] : links) with[a].insert(b), with[b].insert(a);
  auto place = [&](const std::string& host) {
    return std::find(order.begin(), order.end(), host) - order.begin();
  };
  std::vector<std::string> out;
  while (!with.empty()) {
    auto most = std::max_element(with.begin(), with.end(), [&](const auto& a, const auto& b) {
      return std::make_pair(a.second.size(), place(a.first)) <
             std::make_pair(b.second.size(), place(b.first));
    });
    if (most->second.empty()) break;
    const std::string host = most->first;
    out.push_back(host);
    with.erase(most);
    for (auto& [other, others] : with) others.erase(host);
  }
  std::sort(out.begin(), out.end());
  return out;
}

const std::string& LinkWatch::host_of(const std::string& address) const {
  const auto found = host_of_address_.find(address);
  return found == host_of_address_.end() ? address : found->second;
}

void LinkWatch::judge(const std::string& kind, const std::map<Pair, Found>& bad, int64_t now_ns,
                      std::vector<std::string>& out) {
  auto worse = [&](const Found& a, const Found& b) {
    return kind == "slow"  ? a.rtt_us < b.rtt_us
           : kind == "cut" ? a.silent_ms < b.silent_ms
                           : a.again * std::max<int64_t>(1, b.sent) < b.again * std::max<int64_t>(1, a.sent);
  };
  if (kind == "cut") cut_.clear();
  for (const auto& subject : subjects(bad, kind == "lossy", worse)) {
    const Found& at = subject.worst;
    const std::string is = subject.many ? " are " : " is ";
    const std::string text =
        kind == "slow"
            ? str(is, "slow: a round trip takes ", tenths(static_cast<double>(at.rtt_us) * 1e-3), " ms")
        : kind == "cut"
            ? str(is, "cut: no answer for ", tenths(static_cast<double>(at.silent_ms) * 1e-3), " s")
            : str(subject.many ? " lose" : " loses",
                  " packets: ", tenths(100 * static_cast<double>(at.again) / static_cast<double>(at.sent)),
                  " % of ", at.sent, " are sent again");
    if (kind == "cut") cut_ += str(cut_.empty() ? "" : "; ", subject.name, text);
    auto [told, news] = told_.try_emplace({kind, subject.name});
    told->second.bad_ns = now_ns;
    if (!news && static_cast<double>(now_ns - told->second.last_ns) * 1e-9 < kRepeat) continue;
    told->second.last_ns = now_ns;
    out.push_back(subject.name + text);
  }
  for (auto told = told_.begin(); told != told_.end();) {
    const bool well =
        told->first.first == kind && static_cast<double>(now_ns - told->second.bad_ns) * 1e-9 > kWell;
    if (!well) {
      ++told;
      continue;
    }
    const std::string& name = told->first.second;
    out.push_back(str(name, name.rfind("the links", 0) == 0 ? " are" : " is", " well again (",
                      kind == "lossy"  ? "packets arrive"
                      : kind == "slow" ? "round trips are short"
                                       : "answers come",
                      ")"));
    told = told_.erase(told);
  }
}

void LinkWatch::find_cuts(const std::vector<Links>& words, int64_t now_ns, std::vector<std::string>& out) {
  std::map<Pair, Found> cut;
  std::set<Pair> links;
  cut_s_ = 0;
  for (size_t r = 0; r < words.size(); ++r)
    for (const Link& link : words[r].to) {
      if (link.silent_ms < kCut) continue;
      const std::string &a = hosts_[r], &b = host_of(link.peer);
      Found& found = cut[{a, b}];
      found.silent_ms = std::max(found.silent_ms, link.silent_ms);
      links.insert({a, b});
      cut_s_ = std::max(cut_s_, static_cast<double>(link.silent_ms) * 1e-3);
    }
  judge("cut", cut, now_ns, out);
  cut_hosts_ = hosts_to_leave_out(links, hosts_);
}

std::vector<std::string> LinkWatch::look(const std::vector<Links>& words, int64_t now_ns) {
  std::vector<std::string> out;
  for (size_t r = 0; r < words.size(); ++r)
    for (const auto& address : words[r].own) host_of_address_[address] = hosts_[r];
  find_cuts(words, now_ns, out);
  for (size_t r = 0; r < words.size(); ++r)
    for (const Link& link : words[r].to) {
      auto [window, news] = windows_.try_emplace({r, link.peer});
      if (news || link.sent < window->second.sent) window->second = {link.sent, link.again};
      int64_t& least = window->second.least_rtt_us;
      if (link.rtt_us > 0) least = least < 0 ? link.rtt_us : std::min(least, link.rtt_us);
    }
  if (began_ns_ == 0) began_ns_ = now_ns;
  if (static_cast<double>(now_ns - began_ns_) * 1e-9 < kLinkWindow) return out;
  began_ns_ = now_ns;

  std::map<Pair, Found> sums, slow, lossy;
  for (size_t r = 0; r < words.size(); ++r)
    for (const Link& link : words[r].to) {
      Window& window = windows_[{r, link.peer}];
      const Pair pair{hosts_[r], host_of(link.peer)};
      Found& sum = sums[pair];
      sum.sent += link.sent - window.sent, sum.again += link.again - window.again;
      const bool is_slow = link.least_rtt_us >= kLeastSlow || window.least_rtt_us >= kSmoothedSlow;
      if (is_slow && link.silent_ms < kCut)
        slow[pair].rtt_us =
            std::max({slow[pair].rtt_us, link.least_rtt_us, std::max<int64_t>(0, window.least_rtt_us)});
      window = {link.sent, link.again};
    }
  for (const auto& [pair, sum] : sums)
    if (sum.sent >= kSent && sum.again >= kSentAgain &&
        static_cast<double>(sum.again) >= kShare * static_cast<double>(sum.sent))
      lossy[pair] = sum;
  judge("slow", slow, now_ns, out);
  judge("lossy", lossy, now_ns, out);
  for (size_t r = 0; r < words.size(); ++r) {
    if (words[r].own.empty()) continue;
    const auto [before, news] = damaged_.try_emplace(hosts_[r], words[r].damaged);
    const int64_t more = words[r].damaged - before->second;
    before->second = std::max(before->second, words[r].damaged);
    if (news || more < kSentAgain) continue;
    auto [told, first] = told_.try_emplace({"damaged", hosts_[r]});
    const bool say = first || static_cast<double>(now_ns - told->second.last_ns) * 1e-9 >= kRepeat;
    told->second = {say ? now_ns : told->second.last_ns, now_ns};
    if (say)
      out.push_back(str("packets come to ", hosts_[r], " damaged: ", more,
                        " with a wrong checksum; they are thrown away and sent again"));
  }
  return out;
}

}  // namespace lockstep::launcher
