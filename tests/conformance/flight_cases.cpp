// Cases of start and wait: several in flight, asynchrony, streams, the words over the verbs, and a long mixed
// sequence.
#include <chrono>
#include <random>
#include <thread>

#include "core/base/error.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/values.h"

namespace lockstep::conformance {

namespace {
void in_flight_case(Group& group) {
  int n = group.size();
  auto stream = inline_stream();
  constexpr int kFlights = 24;
  std::vector<Values> data;
  std::vector<std::shared_ptr<Work>> works;
  for (int k = 0; k < kFlights; ++k)
    data.push_back(Values(k % 2 ? DType::f32 : DType::i64, (k * 37) % 301, group.rank() + k));
  for (int k = 0; k < kFlights; ++k)
    works.push_back(group.start(AllReduce{data[k].data(), data[k].data(), data[k].count(), data[k].dtype()},
                                str("flight ", k), *stream));
  for (int k = kFlights; k-- > 0;) works[k]->wait(*stream);  // the last one first
  for (int k = 0; k < kFlights; ++k) {
    expect(works[k]->done(), "a collective that was waited for is done");
    expect_values(data[k], [&](int64_t) { return int64_t{n} * k + n * (n - 1) / 2; }, str("flight ", k));
  }
}

// Gathers of one launch, of several dtypes and counts, and what comes behind them.
void joined_gathers_case(Group& group) {
  const int n = group.size(), me = group.rank();
  auto stream = inline_stream();
  const std::vector<DType> dtypes{DType::f32, DType::bf16, DType::u8, DType::f32};
  for (int round = 0; round < 3; ++round) {
    std::vector<Values> in, out;
    std::vector<std::shared_ptr<Work>> works;
    for (size_t k = 0; k < dtypes.size(); ++k) {
      const int64_t count = k == 2 ? 0 : 5 * static_cast<int64_t>(k) + round;
      in.push_back(Values::made(dtypes[k], count, [&](int64_t i) { return (me * 10 + i) % 50; }));
      out.push_back(Values(dtypes[k], count * n, 0));
    }
    for (size_t k = 0; k < dtypes.size(); ++k)
      works.push_back(
          group.start(AllGather{in[k].data(), out[k].data(), std::vector<int64_t>(n, in[k].count()),
                                dtypes[k], k + 1 < dtypes.size()},
                      str("gather ", k), *stream));
    int64_t ranks = 1;
    auto behind = group.start(AllReduce{&ranks, &ranks, 1, DType::i64}, "behind", *stream);
    for (size_t k = works.size(); k-- > 0;) works[k]->wait(*stream);
    behind->wait(*stream);
    expect(ranks == n, "what comes behind the gathers");
    for (size_t k = 0; k < dtypes.size(); ++k)
      expect_values(
          out[k], [&](int64_t i) { return (i / in[k].count() * 10 + i % in[k].count()) % 50; },
          str("gather ", k));
  }
}

void start_returns_case(Group& group) {
  // Rank 0 starts a collective and goes on; the others start only after they have heard from it. A start that
  // waits for peers would hang.
  if (group.size() == 1) return;
  auto stream = inline_stream();
  int64_t value = group.rank() + 1, word = 0;
  std::shared_ptr<Work> work;
  if (group.rank() == 0) {
    work = group.start(AllReduce{&value, &value, 1, DType::i64}, "early", *stream);
    expect(!work->done(), "a collective is not done before all ranks have started it");
    for (int r = 1; r < group.size(); ++r) send(group, {&word, 1, DType::i64, r});
  } else {
    recv(group, {&word, 1, DType::i64, 0});
    work = group.start(AllReduce{&value, &value, 1, DType::i64}, "early", *stream);
  }
  work->wait(*stream);
  expect(value == int64_t{group.size()} * (group.size() + 1) / 2, "early all_reduce");
}

void background_case(Group& group) {
  // Data moves while the rank computes: done() turns true without a wait.
  auto stream = inline_stream();
  Values data(DType::f32, 50001, 1);
  auto work =
      group.start(AllReduce{data.data(), data.data(), data.count(), DType::f32}, "background", *stream);
  auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!work->done() && std::chrono::steady_clock::now() < patience)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  expect(work->done(), "a collective completes in the background");
  work->wait(*stream);
  expect_values(data, [&](int64_t) { return group.size(); }, "background");
}

void stream_case(Group& group) {
  // On a queue: the collective sees what was enqueued before its start, and what is enqueued after the wait
  // sees the result.
  auto stream = queue_stream();
  constexpr int64_t kCount = 4099;
  Values data(DType::i32, kCount, 0);
  int64_t seen = -1;
  stream->run([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (int64_t i = 0; i < kCount; ++i) data.set(i, group.rank() + i);
  });
  auto work = group.start(AllReduce{data.data(), data.data(), kCount, DType::i32}, "on a queue", *stream);
  work->wait(*stream);
  stream->run([&] { seen = data.at(kCount - 1); });
  stream->synchronize();
  int64_t n = group.size();
  expect(seen == n * (kCount - 1) + n * (n - 1) / 2, str("work after the wait saw ", seen));
}

void words_case(Group& group) {
  std::string mine(static_cast<size_t>(group.rank() * 3), static_cast<char>('a' + group.rank()));
  auto all = all_gather_text(group, mine);
  for (int r = 0; r < group.size(); ++r)
    expect(all[r] == std::string(static_cast<size_t>(r * 3), static_cast<char>('a' + r)), "all_gather_text");
  for (int root = 0; root < group.size(); ++root)
    expect(broadcast_text(group, group.rank() == root ? str("from ", root) : "", root) == str("from ", root),
           "broadcast_text");
  agree(group, "");
  int last = group.size() - 1;
  try {
    agree(group, group.rank() == last ? "no such file" : "");
    expect(false, "agree throws on every rank");
  } catch (const UserError& error) {
    expect(std::string(error.what()) ==
               (group.size() > 1 ? str("rank ", last, ": no such file") : "no such file"),
           error.what());
  }
}

void mixed_case(Group& group) {
  // A long sequence of mixed verbs with a window of flights; the same seed on all ranks.
  int n = group.size(), me = group.rank();
  auto stream = inline_stream();
  std::mt19937 random(12345);
  struct Flight {
    std::unique_ptr<Values> in, out;
    std::shared_ptr<Work> work;
    std::function<int64_t(int64_t)> wanted;
    std::string what;
  };
  std::vector<Flight> window;
  auto land = [&](size_t k) {
    window[k].work->wait(*stream);
    expect_values(*window[k].out, window[k].wanted, window[k].what);
    window.erase(window.begin() + static_cast<int64_t>(k));
  };
  for (int round = 0; round < 150; ++round) {
    int verb = static_cast<int>(random() % 4);
    int64_t count = static_cast<int64_t>(random() % 3 ? random() % 40 : random() % 4000);
    int64_t pick = static_cast<int64_t>(random() % 5);
    Flight f;
    f.what = str("mixed ", round);
    std::vector<int64_t> counts(n, count);
    if (verb == 0) {
      f.in = std::make_unique<Values>(DType::i64, count, me + round);
      f.out = std::make_unique<Values>(DType::i64, count);
      f.wanted = [=](int64_t) { return int64_t{n} * round + n * (n - 1) / 2; };
      f.work = group.start(AllReduce{f.in->data(), f.out->data(), count, DType::i64}, f.what, *stream);
    } else if (verb == 1) {
      f.in = std::make_unique<Values>(DType::i64, count, me * 1000 + round);
      f.out = std::make_unique<Values>(DType::i64, count * n);
      f.wanted = [=](int64_t i) { return i / count * 1000 + round; };
      f.work = group.start(AllGather{f.in->data(), f.out->data(), counts, DType::i64}, f.what, *stream);
    } else if (verb == 2) {
      f.in = std::make_unique<Values>(Values::made(
          DType::i64, count * n, [&](int64_t i) { return me * 1000 + i / std::max<int64_t>(count, 1); }));
      f.out = std::make_unique<Values>(DType::i64, count * n);
      f.wanted = [=](int64_t i) { return i / count * 1000 + me; };
      f.work =
          group.start(AllToAll{f.in->data(), f.out->data(), counts, counts, DType::i64}, f.what, *stream);
    } else {
      int root = static_cast<int>(pick % n);
      f.out = std::make_unique<Values>(DType::i64, count, me == root ? round : -1);
      f.wanted = [=](int64_t) { return int64_t{round}; };
      f.work = group.start(Broadcast{f.out->data(), count, DType::i64, root}, f.what, *stream);
    }
    window.push_back(std::move(f));
    if (window.size() > 6) land(static_cast<size_t>(pick));
  }
  while (!window.empty()) land(window.size() - 1);
}
}  // namespace

void add_flight_cases(std::vector<GroupCase>& cases) {
  cases.push_back({"several_in_flight", in_flight_case});
  cases.push_back({"joined_gathers", joined_gathers_case});
  cases.push_back({"start_returns_at_once", start_returns_case});
  cases.push_back({"background", background_case});
  cases.push_back({"queue_stream", stream_case});
  cases.push_back({"words", words_case});
  cases.push_back({"mixed_sequence", mixed_case});
}

}  // namespace lockstep::conformance
