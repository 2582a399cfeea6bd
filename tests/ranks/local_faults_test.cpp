// Ranks as threads when something is wrong: late, missing, failed and disagreeing ranks. Nobody hangs, and
// the words name who and what.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "core/base/error.h"
#include "distributed/local/local_world.h"
#include "tests/ranks/expect_error.h"

using namespace lockstep;

namespace {
double seconds_of(const std::function<void()>& fn) {
  auto begin = std::chrono::steady_clock::now();
  fn();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
void sum_one(Group& group, const std::string& label) {
  float value = 1;
  all_reduce(group, {&value, &value, 1, DType::f32}, label);
}
}  // namespace

TEST(LocalDeadline, NamesGroupLabelSecondsAndTheLateRank) {
  double seconds = seconds_of([] {
    std::atomic<int> over{0};
    expect_error<PeerError>(
        [&] {
          distributed::with_ranks(4,
                                  [&](Group& group) {
                                    if (group.rank() == 2) {  // alive, but never there
                                      while (over < 3)
                                        std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                      return;
                                    }
                                    try {
                                      sum_one(group, "loss");
                                    } catch (...) {
                                      ++over;
                                      throw;
                                    }
                                    ADD_FAILURE() << "the collective completed without rank 2";
                                  },
                                  {.deadline_s = 0.3});
        },
        {"group \"world\"", "all_reduce \"loss\"", "f32, 1 elements, sum", "0.3 s", "not started by rank 2",
         "LOCKSTEP_DEADLINE"});
  });
  EXPECT_GE(seconds, 0.3);
  EXPECT_LT(seconds, 10);
}

TEST(LocalDeadline, OfSendWithoutRecv) {
  expect_error<PeerError>(
      [] {
        distributed::with_ranks(2,
                                [](Group& group) {
                                  int64_t word = 0;
                                  if (group.rank() == 0)
                                    send(group, {&word, 1, DType::i64, 1, 3}, "token");
                                  else
                                    std::this_thread::sleep_for(std::chrono::milliseconds(600));
                                },
                                {.deadline_s = 0.2});
      },
      {"send \"token\"", "to rank 1, tag 3", "0.2 s", "not started by rank 1"});
}

TEST(LocalDeadline, ComesFromTheEnvironment) {
  setenv("LOCKSTEP_DEADLINE", "12.5", 1);
  distributed::with_ranks(2, [](Group& group) { EXPECT_EQ(group.deadline(), 12.5); });
  setenv("LOCKSTEP_DEADLINE", "soon", 1);
  expect_error<UserError>([] { distributed::with_ranks(2, [](Group&) {}); },
                          {"LOCKSTEP_DEADLINE", "\"soon\"", "positive number", "60,600"});
  setenv("LOCKSTEP_DEADLINE", "0", 1);
  expect_error<UserError>([] { distributed::with_ranks(1, [](Group&) {}); }, {"\"0\""});
  unsetenv("LOCKSTEP_DEADLINE");
  distributed::with_ranks(1, [](Group& group) {
    EXPECT_EQ(group.deadline(), 600);  // no step has ended yet
    group.set_deadline(3);
    EXPECT_EQ(group.deadline(), 3);
  });
}

TEST(LocalFailure, TheFirstExceptionComesBackAndPeersDoNotHang) {
  for (int n : {1, 2, 3, 7}) {
    std::atomic<int> peers{0};
    expect_error<std::out_of_range>(
        [&] {
          distributed::with_ranks(
              n,
              [&](Group& group) {
                barrier(group);
                if (group.rank() == n - 1) throw std::out_of_range("row 12 of 10");
                try {
                  sum_one(group, "after the fault");
                } catch (const PeerError& error) {
                  ++peers;
                  EXPECT_NE(std::string(error.what()).find(str("rank ", n - 1, " failed: row 12 of 10")),
                            std::string::npos)
                      << error.what();
                  throw;
                }
              },
              {.deadline_s = 60});
        },
        {"row 12 of 10"});
    EXPECT_EQ(peers, n - 1);
  }
}

TEST(LocalFailure, AFailureWithWorkInFlightIsStillTheFirst) {
  // Rank 1's flight is dropped while its exception unwinds; its peers hear of that, the caller of the
  // exception.
  expect_error<std::out_of_range>(
      [&] {
        distributed::with_ranks(3,
                                [&](Group& group) {
                                  auto stream = inline_stream();
                                  std::vector<float> data(100, 1);
                                  auto work =
                                      group.start(AllReduce{data.data(), data.data(), 100, DType::f32},
                                                  "bucket", *stream);
                                  if (group.rank() == 1) throw std::out_of_range("rank 1's own fault");
                                  work->wait(*stream);
                                },
                                {.latency_s = 0.05, .deadline_s = 60});
      },
      {"rank 1's own fault"});
}

TEST(LocalFailure, ReachesTheGroupsOfAllMeshDims) {
  double seconds = seconds_of([] {
    expect_error<UserError>(
        [] {
          distributed::local_mesh(4, Mesh{{2, 2}, {"dp_shard", "tp"}},
                                  [](LiveMesh& mesh) {
                                    if (mesh.rank == 3) throw UserError("bad input on rank 3");
                                    sum_one(mesh.group("tp"),
                                            "tp sum");  // ranks 0 and 1 pass this, rank 2 waits for 3
                                    sum_one(mesh.group("dp_shard"), "dp sum");
                                  },
                                  {.deadline_s = 60});
        },
        {"bad input on rank 3"});
  });
  EXPECT_LT(seconds, 30);
}

TEST(LocalFailure, ARankThatEndsEarlyIsNamed) {
  double seconds = seconds_of([] {
    expect_error<PeerError>(
        [] {
          distributed::with_ranks(3,
                                  [](Group& group) {
                                    if (group.rank() != 1) sum_one(group, "step 9");
                                  },
                                  {.deadline_s = 60});
        },
        {"all_reduce \"step 9\"", "not started by rank 1, which has ended"});
  });
  EXPECT_LT(seconds, 30);
}

TEST(LocalFailure, ADroppedWorkIsNamed) {
  expect_error<PeerError>(
      [] {
        distributed::with_ranks(2,
                                [](Group& group) {
                                  auto stream = inline_stream();
                                  float value = 1;
                                  auto work = group.start(AllReduce{&value, &value, 1, DType::f32},
                                                          "forgotten", *stream);
                                  if (group.rank() == 0)
                                    work.reset();
                                  else
                                    work->wait(*stream);
                                },
                                {.latency_s = 0.2, .deadline_s = 60});
      },
      {"all_reduce \"forgotten\"", "was dropped on rank 0 before its wait"});
}

TEST(LocalFailure, OnAQueueStreamComesBackAtSynchronize) {
  std::atomic<int> failures{0};
  expect_error<std::runtime_error>(
      [&] {
        distributed::with_ranks(2,
                                [&](Group& group) {
                                  if (group.rank() == 1) throw std::runtime_error("rank 1 is out");
                                  auto stream = queue_stream();
                                  float value = 1;
                                  auto work = group.start(AllReduce{&value, &value, 1, DType::f32}, "queued",
                                                          *stream);
                                  work->wait(*stream);
                                  try {
                                    stream->synchronize();
                                  } catch (const PeerError&) { ++failures; }
                                },
                                {.deadline_s = 60});
      },
      {"rank 1 is out"});
  EXPECT_EQ(failures, 1);
}

namespace {
// Runs `fn` on 3 ranks and expects the words of a difference; both sites and both ranks are in them.
void expect_mismatch(const std::function<void(Group&)>& fn, const std::vector<std::string>& words) {
  double seconds = seconds_of([&] {
    auto all = words;
    all.push_back("all ranks must start the same collectives in the same order");
    expect_error<PeerError>([&] { distributed::with_ranks(3, fn, {.deadline_s = 60}); }, all);
  });
  EXPECT_LT(seconds, 30);
}
}  // namespace

TEST(LocalMismatch, IsAnErrorThatNamesBothSites) {
  auto buffers = [&](Group& group) {
    return std::pair(std::vector<float>(8), std::vector<float>(24 + group.rank()));
  };
  expect_mismatch(
      [&](Group& group) {
        auto [a, b] = buffers(group);
        if (group.rank() == 1)
          all_gather(group, {a.data(), b.data(), {1, 2, 3}, DType::f32}, "weights");
        else
          all_reduce(group, {a.data(), b.data(), 4, DType::f32}, "loss");
      },
      {"differs in its verb", "all_gather \"weights\" (f32, counts [1,2,3])",
       "all_reduce \"loss\" (f32, 4 elements, sum)", "rank 1", "collective 0"});
  expect_mismatch(
      [&](Group& group) {
        auto [a, b] = buffers(group);
        all_reduce(group, {a.data(), b.data(), group.rank() == 2 ? 5 : 4, DType::f32}, "loss");
      },
      {"differs in its counts", "4 elements", "5 elements", "rank 2"});
  expect_mismatch(
      [&](Group& group) {
        auto [a, b] = buffers(group);
        all_reduce(group, {a.data(), b.data(), 2, group.rank() == 2 ? DType::i32 : DType::f32}, "loss");
      },
      {"differs in its dtype", "i32", "f32"});
  expect_mismatch(
      [&](Group& group) {
        auto [a, b] = buffers(group);
        reduce_scatter(
            group, {a.data(), b.data(), {1, 1, 1}, DType::f32, group.rank() ? ReduceOp::max : ReduceOp::sum},
            "grads");
      },
      {"differs in its op", "sum", "max", "reduce_scatter \"grads\""});
  expect_mismatch(
      [&](Group& group) {
        auto [a, b] = buffers(group);
        broadcast(group, {a.data(), 3, DType::f32, group.rank() == 0 ? 0 : 1}, "plan");
      },
      {"differs in its root", "root 0", "root 1"});
  expect_mismatch(
      [&](Group& group) {
        auto [a, b] = buffers(group);
        std::vector<int64_t> send_counts(3, 1), recv_counts(3, 1);
        if (group.rank() == 0) send_counts[1] = 2;
        all_to_all(group, {a.data(), b.data(), send_counts, recv_counts, DType::f32}, "exchange");
      },
      {"differs in its counts", "sends [1,2,1]", "receives [1,1,1]"});
}

TEST(LocalMismatch, LabelsInAnotherOrder) {
  expect_mismatch(
      [&](Group& group) {
        auto stream = inline_stream();
        std::vector<float> a(4), b(4);
        bool turned = group.rank() == 2;
        barrier(group);
        auto first = group.start(AllReduce{a.data(), a.data(), 4, DType::f32},
                                 turned ? "bucket 1" : "bucket 0", *stream);
        auto second = group.start(AllReduce{b.data(), b.data(), 4, DType::f32},
                                  turned ? "bucket 0" : "bucket 1", *stream);
        first->wait(*stream);
        second->wait(*stream);
      },
      {"differs in its label", "\"bucket 0\"", "\"bucket 1\"", "rank 2", "collective 1"});
}

TEST(LocalMismatch, OfAMessage) {
  expect_error<PeerError>(
      [] {
        distributed::with_ranks(2,
                                [](Group& group) {
                                  std::vector<float> data(8);
                                  if (group.rank() == 0)
                                    send(group, {data.data(), 4, DType::f32, 1}, "activations");
                                  else
                                    recv(group, {data.data(), 5, DType::f32, 0}, "activations");
                                },
                                {.deadline_s = 60});
      },
      {"message 0 differs in its counts", "send \"activations\" (f32, 4 elements, to rank 1",
       "recv \"activations\" (f32, 5 elements, from rank 0"});
}

TEST(LocalGroup, RefusesCountsThatDoNotFitTheGroup) {
  float data[4] = {};
  expect_error<InternalError>(
      [&] {
        distributed::with_ranks(
            2, [&](Group& group) { all_gather(group, {data, data, {1, 1, 1}, DType::f32}); });
      },
      {"3 counts for 2 ranks"});
  expect_error<InternalError>(
      [&] { distributed::with_ranks(2, [&](Group& group) { broadcast(group, {data, 1, DType::f32, 2}); }); },
      {"root 2 of 2 ranks"});
}

TEST(LocalLatency, IsHiddenByWhatRunsBetweenStartAndWait) {
  double seconds = seconds_of([] {
    distributed::with_ranks(2,
                            [](Group& group) {
                              auto stream = inline_stream();
                              float value = 1;
                              auto work = group.start(AllReduce{&value, &value, 1, DType::f32}, "overlapped",
                                                      *stream);
                              EXPECT_FALSE(work->done());
                              std::this_thread::sleep_for(std::chrono::milliseconds(400));  // the computation
                              work->wait(*stream);
                              EXPECT_EQ(value, 2);
                            },
                            {.latency_s = 0.4, .deadline_s = 60});
  });
  EXPECT_GE(seconds, 0.4);
  EXPECT_LT(seconds, 0.75);  // 0.8 one after the other
}

TEST(LocalLatency, CountsBytesAndCollectivesOneAfterAnother) {
  double seconds = seconds_of([] {
    distributed::with_ranks(
        2,
        [](Group& group) {
          auto stream = inline_stream();
          std::vector<float> a(2500, 1), b(2500, 1);  // 10,000 bytes each: 0.1 s each at 100 kB/s
          auto first = group.start(AllReduce{a.data(), a.data(), 2500, DType::f32}, "a", *stream);
          auto second = group.start(AllReduce{b.data(), b.data(), 2500, DType::f32}, "b", *stream);
          second->wait(*stream);
          first->wait(*stream);
          EXPECT_EQ(a[2499] + b[0], 4);
        },
        {.bytes_per_s = 1e5, .deadline_s = 60});
  });
  EXPECT_GE(seconds, 0.2);
}

TEST(LocalLatency, BeyondTheDeadlineSaysThatAllHaveStarted) {
  expect_error<PeerError>(
      [] {
        distributed::with_ranks(2, [](Group& group) { sum_one(group, "slow link"); },
                                {.latency_s = 30, .deadline_s = 0.2});
      },
      {"all_reduce \"slow link\"", "0.2 s", "all ranks have started it"});
}

TEST(WithRanks, OrderOfReductionIsTheOrderOfRanks) {
  // 2^24 + 1 + 1 in f32 is 2^24 from the left and 2^24 + 2 from the right: only rank order gives the first,
  // every time.
  for (int round = 0; round < 20; ++round)
    distributed::with_ranks(3, [](Group& group) {
      float value = group.rank() == 0 ? 16777216.0f : 1.0f;
      if (group.rank() == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      all_reduce(group, {&value, &value, 1, DType::f32});
      EXPECT_EQ(value, 16777216.0f);
    });
}
