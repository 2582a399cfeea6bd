// Checksums of collectives over ranks that are threads, with a layer between that changes what arrives: every
// verb, both ranks named.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "core/base/error.h"
#include "distributed/checksummed_group.h"
#include "distributed/local/local_world.h"
#include "tests/ranks/expect_error.h"

using namespace lockstep;

namespace {
// Where a collective's result lies on this rank.
std::pair<void*, int64_t> result_of(const Collective& what, int rank) {
  auto bytes = [](int64_t count, DType dtype) { return count * static_cast<int64_t>(size_of(dtype)); };
  auto sum = [](const std::vector<int64_t>& counts) {
    int64_t out = 0;
    for (int64_t count : counts) out += count;
    return out;
  };
  if (auto* c = std::get_if<AllReduce>(&what)) return {c->out, bytes(c->count, c->dtype)};
  if (auto* c = std::get_if<AllGather>(&what)) return {c->out, bytes(sum(c->counts), c->dtype)};
  if (auto* c = std::get_if<ReduceScatter>(&what)) return {c->out, bytes(c->counts[rank], c->dtype)};
  if (auto* c = std::get_if<AllToAll>(&what)) return {c->out, bytes(sum(c->recv_counts), c->dtype)};
  if (auto* c = std::get_if<Broadcast>(&what)) return {c->data, bytes(c->count, c->dtype)};
  if (auto* c = std::get_if<Recv>(&what)) return {c->data, bytes(c->count, c->dtype)};
  return {nullptr, 0};
}

// A group that hands what arrived to `change`, with its label.
class FaultyGroup : public Group {
 public:
  using Change = std::function<void(const std::string& label, std::byte* data, int64_t bytes)>;
  FaultyGroup(Group& group, Change change) : group_(group), change_(std::move(change)) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  const std::string& name() const override { return group_.name(); }
  double deadline() const override { return group_.deadline(); }
  std::shared_ptr<Work> start(const Collective& what, const std::string& label, Stream& stream) override {
    struct Changed : Work {
      std::shared_ptr<Work> work;
      std::function<void()> change;
      bool done() override { return work->done(); }
      void wait(Stream& stream) override {
        work->wait(stream);
        stream.run(change);
      }
    };
    auto out = std::make_shared<Changed>();
    out->work = group_.start(what, label, stream);
    auto [data, bytes] = result_of(what, rank());
    out->change = [this, label, data = static_cast<std::byte*>(data), bytes] {
      if (bytes) change_(label, data, bytes);
    };
    return out;
  }

 private:
  Group& group_;
  Change change_;
};

// All verbs once, on 3 ranks.
void talk(Group& group) {
  const int n = group.size(), me = group.rank();
  std::vector<int64_t> small(4, me), big(20'000, me), out(60'000);
  const std::vector<int64_t> ones(n, 1), many(n, 5'000);
  all_gather(group, {small.data(), out.data(), std::vector<int64_t>(n, 4), DType::i64}, "gather");
  for (int r = 0; r < n; ++r) EXPECT_EQ(out[4 * r], r);
  all_to_all(group, {big.data(), out.data(), ones, ones, DType::i64}, "exchange");
  for (int r = 0; r < n; ++r) EXPECT_EQ(out[r], r);
  small = {7 + me, 1, 2, 3};
  broadcast(group, {small.data(), 4, DType::i64, 1}, "spread");
  EXPECT_EQ(small[0], 8);
  small = {me, -me, 1, 2};
  all_reduce(group, {small.data(), small.data(), 4, DType::i64}, "little sum");
  EXPECT_EQ(small, (std::vector<int64_t>{n * (n - 1) / 2, -n * (n - 1) / 2, n, 2 * n}));
  std::vector<float> largest = {static_cast<float>(me), -static_cast<float>(me)};
  all_reduce(group, {largest.data(), largest.data(), 2, DType::f32, ReduceOp::max}, "largest");
  EXPECT_EQ(largest, (std::vector<float>{static_cast<float>(n - 1), 0.0f}));
  all_reduce(group, {big.data(), out.data(), 20'000, DType::i64}, "big sum");
  EXPECT_EQ(out[19'999], n * (n - 1) / 2);
  reduce_scatter(group, {big.data(), out.data(), many, DType::i64}, "scattered sum");
  EXPECT_EQ(out[4'999], n * (n - 1) / 2);
  barrier(group, "stop");
  if (me == 2) send(group, {big.data(), 100, DType::i64, 0}, "note");
  if (me == 0) {
    recv(group, {out.data(), 100, DType::i64, 2}, "note");
    EXPECT_EQ(out[99], 2);
  }
}

void with_fault(
    int ranks,
    const std::function<void(int rank, const std::string& label, std::byte* data, int64_t bytes)>& change,
    const std::function<void(Group&)>& body = talk) {
  distributed::with_ranks(ranks,
                          [&](Group& group) {
                            auto faulty = std::make_shared<FaultyGroup>(
                                group, [&, rank = group.rank()](const auto& label, auto* data, auto bytes) {
                                  change(rank, label, data, bytes);
                                });
                            body(*distributed::checksummed(faulty));
                          },
                          {.deadline_s = 30});
}
}  // namespace

TEST(Checksums, WhatArrivesAsItWasSentPasses) {
  with_fault(3, [](int, const std::string&, std::byte*, int64_t) {});
}

// One bit of what arrives on rank 0, whose first part is its own: the last byte is of rank 2, or of the sum.
TEST(Checksums, AFlippedBitOfAnyVerbNamesBothRanks) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"gather",
       {"all_gather \"gather\"",
        "what rank 0 received from rank 2 is not what was sent: 32 bytes with checksum ",
        "32 bytes with checksum "}},
      {"exchange",
       {"all_to_all \"exchange\"", "what rank 0 received from rank 2 is not what was sent: 8 bytes"}},
      {"spread", {"broadcast \"spread\"", "what rank 0 received from rank 1 is not what was sent"}},
      {"little sum", {"all_reduce \"little sum\"", "what rank 0 received from rank 2 is not what was sent"}},
      {"largest", {"all_reduce \"largest\"", "what rank 0 received from rank 2 is not what was sent"}},
      {"big sum",
       {"all_reduce \"big sum\"", "the sum that arrived on rank 0 is not that of what the 3 ranks sent"}},
      {"scattered sum",
       {"reduce_scatter \"scattered sum\"",
        "the sum that arrived on rank 0 is not that of what the 3 ranks sent"}},
      {"note", {"recv \"note\"", "what rank 0 received from rank 2 is not what was sent: 800 bytes"}},
      {"checksum of gather", {"all_gather \"gather\"", "what rank 0 received from rank 2"}},
  };
  for (const auto& [at, words] : cases)
    for (int bit : {0, 7}) {
      auto flip = [&](int rank, const std::string& label, std::byte* data, int64_t bytes) {
        if (rank == 0 && label == at) data[bytes - 1] ^= static_cast<std::byte>(1 << bit);
      };
      std::vector<std::string> all = words;
      all.push_back("the same command continues from the last checkpoint");
      expect_error<PeerError>([&] { with_fault(3, flip); }, all);
    }
}

// A message that comes twice, in place of the next: equal bytes, another number.
TEST(Checksums, ADoubledMessageIsFoundByItsNumber) {
  std::vector<std::byte> before;
  auto again = [&](int rank, const std::string& label, std::byte* data, int64_t bytes) {
    if (rank != 0) return;
    if (label == "checksum of first") before.assign(data, data + bytes);
    if (label == "checksum of second") std::memcpy(data, before.data(), before.size());
  };
  expect_error<PeerError>(
      [&] {
        with_fault(2, again, [](Group& group) {
          std::vector<int64_t> in(4, 1), out(8);
          for (const char* label : {"first", "second"})
            all_gather(group, {in.data(), out.data(), {4, 4}, DType::i64}, label);
        });
      },
      {"all_gather \"second\"", "number 1 was expected, and the checksum is that of number 0"});
}

// A cut message: its end is what lay there before.
TEST(Checksums, ACutMessageIsFound) {
  auto cut = [&](int rank, const std::string& label, std::byte* data, int64_t bytes) {
    if (rank == 1 && label == "cut") std::memset(data + bytes / 2, 0, static_cast<size_t>(bytes / 2));
  };
  expect_error<PeerError>(
      [&] {
        with_fault(2, cut, [](Group& group) {
          std::vector<int64_t> data(100, 3);
          broadcast(group, {data.data(), 100, DType::i64, 0}, "cut");
        });
      },
      {"what rank 1 received from rank 0 is not what was sent: 800 bytes"});
}

TEST(Checksums, TheVariableHasThreeWords) {
  setenv("LOCKSTEP_VERIFY_COLLECTIVES", "on", 1);
  EXPECT_TRUE(distributed::wants_checksums(false));
  setenv("LOCKSTEP_VERIFY_COLLECTIVES", "off", 1);
  EXPECT_FALSE(distributed::wants_checksums(true));
  setenv("LOCKSTEP_VERIFY_COLLECTIVES", "perhaps", 1);
  expect_error<UserError>([] { distributed::wants_checksums(true); },
                          {"LOCKSTEP_VERIFY_COLLECTIVES is \"perhaps\"; use auto, on or off"});
  unsetenv("LOCKSTEP_VERIFY_COLLECTIVES");
  EXPECT_TRUE(distributed::wants_checksums(true));
  EXPECT_FALSE(distributed::wants_checksums(false));
}
