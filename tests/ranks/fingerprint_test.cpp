// The fingerprint over threads: every kind of difference on one rank of 2, 3 and 4, what is said of it, and
// how soon.
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>

#include "core/base/error.h"
#include "core/mesh/fingerprint.h"
#include "core/mesh/together.h"
#include "distributed/local/local_world.h"
#include "tests/ranks/expect_error.h"

using namespace lockstep;

namespace {
using Parts = std::vector<FingerprintPart>;

Parts parts_of_a_run() {
  return {{"config",
           {{"name", "\"run\""}, {"optim.lr", "0.0006"}, {"optim.eps", "1e-08"}, {"train.seed", "1337"}},
           "start every rank with the same config",
           true},
          {"mesh", {{"", "[dp_replicate=2]"}}, "start every rank with the same config", true},
          {"artifact", {{"machine code", "00ff"}}, "start again", false}};
}

// What each rank throws: "kind: message", "" for nothing. Every rank ends within 2 s of the last one's
// arrival.
std::vector<std::string> thrown(int n, const std::function<void(Group&)>& work) {
  std::vector<std::string> out(static_cast<size_t>(n));
  distributed::with_ranks(
      n,
      [&](Group& world) {
        barrier(world);
        auto begin = std::chrono::steady_clock::now();
        try {
          work(world);
        } catch (const Error& error) {
          out[static_cast<size_t>(world.rank())] = str(error.kind(), ": ", error.what());
        }
        EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 2.0);
      },
      {.deadline_s = 30});
  return out;
}

// All ranks say `text`.
void all_say(const std::vector<std::string>& said, const std::string& text) {
  for (size_t r = 0; r < said.size(); ++r) EXPECT_EQ(said[r], text) << "rank " << r << " of " << said.size();
}

std::vector<std::string> with_odd(int n, int odd, const std::function<void(Parts&)>& change) {
  return thrown(n, [&](Group& world) {
    Parts mine = parts_of_a_run();
    if (world.rank() == odd) change(mine);
    compare(world, "before step 1", mine);
  });
}
}  // namespace

TEST(Fingerprint, EqualRanksGoOn) {
  for (int n : {1, 2, 3, 7}) all_say(with_odd(n, -1, nullptr), "");
}

TEST(Fingerprint, OneMessageOfFixedSizeWhereAllIsEqual) {
  distributed::with_ranks(3, [](Group& world) {
    Issued before = world.issued();
    compare(world, "before step 1", parts_of_a_run());
    EXPECT_EQ(world.issued().count - before.count, 1);
  });
}

TEST(Fingerprint, NamesPartKeyBothValuesAndTheRank) {
  for (int n : {2, 3, 4})
    for (int odd = 0; odd < n; ++odd) {
      // Among two nobody is in the majority: rank 0 is taken for right.
      const int named = n == 2 ? 1 : odd, right = n == 2 || odd != 0 ? 0 : 1;
      auto pair = [&](const std::string& key, const std::string& of_odd, const std::string& of_right) {
        return odd == named ? str("rank ", named, " has ", key, of_odd, ", rank ", right, " has ", of_right)
                            : str("rank ", named, " has ", key, of_right, ", rank ", right, " has ", of_odd);
      };
      all_say(with_odd(n, odd, [](Parts& mine) { mine[0].lines[1].second = "0.0003"; }),
              str("UserError: the config differs between ranks, before step 1: ",
                  pair("optim.lr = ", "0.0003", "0.0006"), "; start every rank with the same config"));
      all_say(with_odd(n, odd, [](Parts& mine) { mine[1].lines[0].second = "[dp_shard=2]"; }),
              str("UserError: the mesh differs between ranks, before step 1: ",
                  pair("", "[dp_shard=2]", "[dp_replicate=2]"), "; start every rank with the same config"));
      all_say(with_odd(n, odd, [](Parts& mine) { mine[2].lines[0].second = "00fe"; }),
              str("PeerError: the artifact differs between ranks, before step 1: ",
                  pair("machine code = ", "00fe", "00ff"), "; start again"));
      // The first part that differs, its first line, and what else differs in it.
      auto several = with_odd(n, odd, [](Parts& mine) {
        mine[0].lines[1].second = "0.0003", mine[0].lines[3].second = "7", mine[2].lines[0].second = "0";
      });
      all_say(several, str("UserError: the config differs between ranks, before step 1: ",
                           pair("optim.lr = ", "0.0003", "0.0006"),
                           "; also different: train.seed; start every rank with the same config"));
    }
}

TEST(Fingerprint, LinesThatOneRankLacks) {
  all_say(with_odd(3, 1, [](Parts& mine) { mine[0].lines.erase(mine[0].lines.begin() + 2); }),
          "UserError: the config differs between ranks, before step 1: rank 1 has no optim.eps, rank 0 has "
          "optim.eps = 1e-08; start every "
          "rank with the same config");
  all_say(with_odd(3, 0, [](Parts& mine) { mine[0].lines.push_back({"mesh.zero", "3"}); }),
          "UserError: the config differs between ranks, before step 1: rank 0 has mesh.zero = 3, rank 1 has "
          "no mesh.zero; start every rank "
          "with the same config");
  all_say(with_odd(3, 2, [](Parts& mine) { std::swap(mine[0].lines[0], mine[0].lines[1]); }),
          "UserError: the config differs between ranks, before step 1: rank 2 has its lines in another order "
          "than rank 0; start every rank "
          "with the same config");
  all_say(with_odd(3, 2, [](Parts& mine) { mine.pop_back(); }),
          "PeerError: the artifact differs between ranks, before step 1: rank 2 has no machine code, rank 0 "
          "has machine code = 00ff; start "
          "again");
}

TEST(Fingerprint, AMajorityDecidesElseRankZero) {
  auto with = [&](const std::vector<std::string>& rates) {
    return thrown(static_cast<int>(rates.size()), [&](Group& world) {
      Parts mine = parts_of_a_run();
      mine[0].lines[1].second = rates[static_cast<size_t>(world.rank())];
      compare(world, "before step 1", mine);
    });
  };
  const std::string head = "UserError: the config differs between ranks, before step 1: ",
                    tail = "; start every rank with the same config";
  all_say(with({"1", "2", "2", "2"}), head + "rank 0 has optim.lr = 1, rank 1 has 2" + tail);
  all_say(with({"1", "1", "2", "2"}),
          head + "rank 2 has optim.lr = 2, rank 0 has 1; rank 3 differs from rank 0 too" + tail);
  all_say(with({"1", "2", "3", "4"}),
          head + "rank 1 has optim.lr = 2, rank 0 has 1; ranks 2, 3 differ from rank 0 too" + tail);
  all_say(with({"3", "2", "2", "2", "4", "2", "2"}),
          head + "rank 0 has optim.lr = 3, rank 1 has 2; rank 4 differs from rank 1 too" + tail);
}

TEST(Fingerprint, RanksThatMeetOnDifferentWays) {
  all_say(thrown(3,
                 [](Group& world) {
                   compare(world,
                           world.rank() == 1 ? "before the evaluation step is compiled"
                                             : "before the training step is compiled",
                           parts_of_a_run());
                 }),
          "PeerError: ranks meet at different places of the program: rank 1 before the evaluation step is "
          "compiled, rank 0 before the training "
          "step is compiled; every rank must do the same things in the same order");
}

TEST(Fingerprint, CollectivesThatWereStarted) {
  // A LocalGroup would refuse another label itself; a rank that started more in a group of its own is found
  // by the comparison.
  std::vector<std::string> said(4);
  distributed::local_mesh(
      4, Mesh{{2, 2}, {"dp_replicate", "dp_shard"}},
      [&](LiveMesh& mesh) {
        float value = 1;
        for (int i = 0; i < 2; ++i)
          all_reduce(mesh.group("dp_shard"), {&value, &value, 1, DType::f32}, "sum");
        if (mesh.coordinate()[0] == 1) barrier(mesh.group("dp_shard"), "one more");
        auto begin = std::chrono::steady_clock::now();
        try {
          compare(*mesh.world, "at the checkpoint of step 4", {issued_part(mesh)});
        } catch (const PeerError& error) { said[static_cast<size_t>(mesh.rank)] = error.what(); }
        EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 2.0);
      },
      {.deadline_s = 30});
  for (const auto& text : said) {
    EXPECT_EQ(text, said[0]);
    for (const char* words :
         {"the sequence of started collectives differs between ranks, at the checkpoint of step 4: rank 2 "
          "has group dp_shard = 3, the last "
          "barrier \"one more\" (",
          "rank 0 has 2, the last all_reduce \"sum\" (", "rank 3 differs from rank 0 too"})
      EXPECT_NE(text.find(words), std::string::npos) << words << "\nin: " << text;
  }
}

TEST(Issued, CountsWhatAllRanksShare) {
  distributed::with_ranks(3, [](Group& world) {
    EXPECT_EQ(world.issued().count, 0);
    std::vector<int64_t> counts{3, 2, 1};
    std::vector<float> in(3), out(6);
    all_gather(world, {in.data(), out.data(), counts, DType::f32}, "rows");
    if (world.rank() < 2) {  // pairs are not counted
      if (world.rank() == 0) send(world, {in.data(), 1, DType::f32, 1}, "token");
      if (world.rank() == 1) recv(world, {in.data(), 1, DType::f32, 0}, "token");
    }
    Issued mine = world.issued();
    EXPECT_EQ(mine.count, 1);
    EXPECT_EQ(mine.last, "all_gather \"rows\"");
    int64_t hash = static_cast<int64_t>(mine.hash), low = 0, high = 0;
    all_reduce(world, {&hash, &low, 1, DType::i64, ReduceOp::min});
    all_reduce(world, {&hash, &high, 1, DType::i64, ReduceOp::max});
    EXPECT_EQ(low, high);
    EXPECT_NE(world.issued().hash, mine.hash);
  });
}

TEST(Together, ReturnsWhereAllSucceed) {
  distributed::with_ranks(3, [](Group& world) {
    EXPECT_EQ(together(world, [&] { return world.rank() * 2; }), world.rank() * 2);
    together(world, [] {});
    EXPECT_EQ(*together(world, [&] { return std::make_unique<int>(5); }), 5);
  });
}

TEST(Together, OneFailureIsEveryRanks) {
  for (int n : {2, 3, 4}) {
    auto one = thrown(n, [&](Group& world) {
      together(world, [&] {
        if (world.rank() == n - 1) throw UserError("no such file; name another");
      });
    });
    all_say(one, str("UserError: rank ", n - 1, ": no such file; name another"));
    all_say(
        thrown(n, [](Group& world) { together(world, [&]() -> int { throw UserError("no such key"); }); }),
        "UserError: no such key");
    auto defect = thrown(n, [&](Group& world) {
      together(world, [&] {
        if (world.rank() == 0) throw InternalError("broken");
      });
    });
    for (int r = 0; r < n; ++r)
      EXPECT_EQ(defect[static_cast<size_t>(r)],
                r == 0 ? "InternalError: broken" : "PeerError: rank 0: broken");
  }
}
