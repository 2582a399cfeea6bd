// LinkWatch on words as kernels would say them: which link, in which direction, whose fault, said once.
#include "launcher/supervise/watch/link.h"

#include <gtest/gtest.h>

namespace lockstep::launcher {
namespace {

using Lines = std::vector<std::string>;

// Ranks one to a host, each with a connection to each other host, which sends 1000 segments a second.
struct Hosts {
  std::vector<Links> words;
  LinkWatch watch;
  double now_s = 1;

  static std::vector<std::string> names(int count) {
    std::vector<std::string> out;
    for (int h = 0; h < count; ++h) out.push_back("h" + std::to_string(h));
    return out;
  }
  static std::string address(int host) { return "10.0.0." + std::to_string(host); }
  explicit Hosts(int count) : words(count), watch(names(count)) {
    for (int h = 0; h < count; ++h) {
      words[h].own = {address(h)};
      for (int other = 0; other < count; ++other)
        if (other != h) words[h].to.push_back({address(other), 300, 100, 1000, 0, 0});
    }
  }
  Link& link(int from, int to) { return words[from].to[to - (to > from)]; }
  // `seconds` in which `change` happens each second.
  template <class Change>
  Lines pass(int seconds, Change change) {
    Lines out;
    for (int i = 0; i < seconds; ++i) {
      for (auto& of : words)
        for (auto& link : of.to) link.sent += 1000;
      change();
      now_s += 1;
      for (auto& line : watch.look(words, static_cast<int64_t>(now_s * 1e9))) out.push_back(line);
    }
    return out;
  }
  Lines pass(int seconds) {
    return pass(seconds, [] {});
  }
};

TEST(LinkWatch, LinksThatAreWellSayNothing) {
  Hosts hosts(3);
  EXPECT_EQ(hosts.pass(30), Lines{});
  EXPECT_EQ(hosts.watch.cut(), "");
}

TEST(LinkWatch, ASlowLinkIsSaidOnceAndThatItIsWell) {
  Hosts hosts(2);
  auto slow = [&](int64_t us) { hosts.link(0, 1).rtt_us = hosts.link(1, 0).rtt_us = us; };
  slow(45'000);  // a kernel that waits before it answers
  EXPECT_EQ(hosts.pass(10), Lines{});
  slow(104'200);
  EXPECT_EQ(hosts.pass(8), (Lines{"the link between h0 and h1 is slow: a round trip takes 104.2 ms"}));
  EXPECT_EQ(hosts.pass(30), Lines{});
  slow(300);
  EXPECT_EQ(hosts.pass(15), (Lines{"the link between h0 and h1 is well again (round trips are short)"}));
}

TEST(LinkWatch, TheHostOfSeveralSlowLinksIsNamed) {
  Hosts hosts(4);
  for (int other : {0, 1, 3})
    hosts.link(2, other).least_rtt_us = hosts.link(other, 2).least_rtt_us = 8'000 + other;
  EXPECT_EQ(hosts.pass(4), (Lines{"the links of h2 (with h0, h1, h3) are slow: a round trip takes 8.0 ms"}));
}

TEST(LinkWatch, ALinkThatLosesPacketsIsNamedWithItsDirection) {
  Hosts hosts(3);
  EXPECT_EQ(hosts.pass(7, [&] { hosts.link(1, 0).again += 3; }), Lines{});  // two windows; 3 of 1000
  EXPECT_EQ(hosts.pass(3, [&] { hosts.link(1, 0).again += 19; }),
            (Lines{"the link from h1 to h0 loses packets: 1.9 % of 3000 are sent again"}));
  EXPECT_EQ(hosts.pass(9).size(), 0u);
  EXPECT_EQ(hosts.pass(3, [&] { hosts.link(0, 2).again += 20, hosts.link(2, 0).again += 30; }),
            (Lines{"the link between h0 and h2 loses packets: 3.0 % of 3000 are sent again",
                   "the link from h1 to h0 is well again (packets arrive)"}));
}

TEST(LinkWatch, DamagedPacketsAreToldOfTheHostThatGetsThem) {
  Hosts hosts(2);
  hosts.words[1].damaged = 70;  // before the run
  EXPECT_EQ(hosts.pass(7), Lines{});
  EXPECT_EQ(
      hosts.pass(3, [&] { hosts.words[1].damaged += 7; }),
      (Lines{"packets come to h1 damaged: 21 with a wrong checksum; they are thrown away and sent again"}));
}

TEST(LinkWatch, ACutLinkNamesTheHostToLeaveOut) {
  Hosts hosts(4);
  hosts.link(1, 2).silent_ms = 1'900;  // one that is late
  EXPECT_EQ(hosts.pass(1), Lines{});
  hosts.link(1, 2).silent_ms = 2'400;
  EXPECT_EQ(hosts.pass(1), (Lines{"the link between h1 and h2 is cut: no answer for 2.4 s"}));
  EXPECT_EQ(hosts.watch.cut(), "the link between h1 and h2 is cut: no answer for 2.4 s");
  EXPECT_EQ(hosts.watch.cut_hosts(), Lines{"h2"});
  hosts.link(3, 1).silent_ms = 5'000;
  EXPECT_EQ(hosts.pass(1), (Lines{"the links of h1 (with h2, h3) are cut: no answer for 5.0 s"}));
  EXPECT_EQ(hosts.watch.cut_hosts(), Lines{"h1"});
  hosts.link(1, 2).silent_ms = hosts.link(3, 1).silent_ms = 0;
  hosts.pass(1);
  EXPECT_EQ(hosts.watch.cut(), "");
  EXPECT_EQ(hosts.watch.cut_hosts(), Lines{});
}

TEST(LinkWatch, ConnectionsThatEndAndRanksWithoutWordsAreNoFault) {
  Hosts hosts(2);
  hosts.pass(5);
  hosts.link(0, 1).sent = hosts.link(0, 1).again = 0;
  EXPECT_EQ(hosts.pass(5), Lines{});
  hosts.words[1] = {};
  EXPECT_EQ(hosts.pass(5), Lines{});
}

TEST(Links, WordsAreReadBackOrNotAtAll) {
  const Links links{
      {"10.0.0.1", "fe80::1"}, {{"10.0.0.2", 104'200, 98, 50'000, 12, 2'500}, {"fe80::2", 1, 2, 3, 4, 5}}, 7};
  const std::string text = links_text(links);
  EXPECT_EQ(parse_links(text), links);
  for (size_t cut = 0; cut + 2 < text.size(); ++cut) EXPECT_FALSE(parse_links(text.substr(0, cut))) << cut;
  EXPECT_FALSE(parse_links("to 10.0.0.2 1 2 3 4\ndamaged 0\n"));
  EXPECT_FALSE(parse_links("about 3\ndamaged 0\n"));
}

TEST(Links, AProcessWithoutConnectionsHasNone) {
  EXPECT_TRUE(read_links().to.empty());
  EXPECT_GE(read_links().damaged, 0);
}

}  // namespace
}  // namespace lockstep::launcher
