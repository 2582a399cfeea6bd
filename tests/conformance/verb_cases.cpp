// Cases of the single verbs: all dtypes, sizes 0, 1 and odd, uneven counts, in place.
#include <chrono>
#include <thread>

#include "tests/conformance/cases.h"
#include "tests/conformance/values.h"

namespace lockstep::conformance {

namespace {
// The term of a rank: 0 .. 4, so that sums over 7 ranks stay exact in bf16 and fit u8.
int64_t term(int rank, int64_t i) { return (rank * 3 + i) % 5; }
int64_t reduced(ReduceOp op, int size, int64_t i) {
  int64_t out = term(0, i);
  for (int r = 1; r < size; ++r)
    out = op == ReduceOp::sum   ? out + term(r, i)
          : op == ReduceOp::max ? std::max(out, term(r, i))
                                : std::min(out, term(r, i));
  return out;
}

void all_reduce_case(Group& group) {
  for (DType dtype : numbers())
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min})
      for (int64_t count : kSizes) {
        auto in = Values::made(dtype, count, [&](int64_t i) { return term(group.rank(), i); });
        Values out(dtype, count);
        all_reduce(group, {in.data(), out.data(), count, dtype, op});
        expect_values(
            out, [&](int64_t i) { return reduced(op, group.size(), i); }, str("all_reduce ", name(op)));
        expect_values(in, [&](int64_t i) { return term(group.rank(), i); }, "all_reduce leaves its input");
        all_reduce(group, {in.data(), in.data(), count, dtype, op});
        expect_values(
            in, [&](int64_t i) { return reduced(op, group.size(), i); },
            str("all_reduce in place ", name(op)));
      }
}

void negative_case(Group& group) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64}) {
    int64_t value = group.rank() % 2 ? 5 - 2 * group.rank() : -group.rank();
    Values data(dtype, 1, value);
    all_reduce(group, {data.data(), data.data(), 1, dtype});
    int64_t sum = 0;
    for (int r = 0; r < group.size(); ++r) sum += r % 2 ? 5 - 2 * r : -r;
    expect_values(data, [&](int64_t) { return sum; }, "all_reduce of negative numbers");
  }
}

void bool_case(Group& group) {
  int last = group.size() - 1;
  bool one = group.rank() == last, all = true;
  bool in[3] = {one, all, false}, out[3];
  all_reduce(group, {in, out, 3, DType::boolean, ReduceOp::max});
  expect(out[0] && out[1] && !out[2], "max of truths is any");
  all_reduce(group, {in, out, 3, DType::boolean, ReduceOp::sum});
  expect(out[0] && out[1] && !out[2], "sum of truths is any");
  all_reduce(group, {in, out, 3, DType::boolean, ReduceOp::min});
  expect(out[0] == (group.size() == 1) && out[1] && !out[2], "min of truths is all");
}

void exact_i64_case(Group& group) {
  // Beyond 2^53: a path through double would lose the low bits.
  int64_t value = (int64_t{1} << 57) + 1 + group.rank(), n = group.size();
  all_reduce(group, {&value, &value, 1, DType::i64});
  expect(value == n * ((int64_t{1} << 57) + 1) + n * (n - 1) / 2, "i64 sums are exact");
}

std::vector<int64_t> uneven(int size, int64_t base) {  // zeros among them
  std::vector<int64_t> out;
  for (int r = 0; r < size; ++r) out.push_back(base * ((r + 2) % 3) + (r % 2 ? base : 0));
  return out;
}
int64_t sum(const std::vector<int64_t>& counts, int upto = -1) {
  int64_t out = 0;
  for (size_t i = 0; i < counts.size() && (upto < 0 || static_cast<int>(i) < upto); ++i) out += counts[i];
  return out;
}
int64_t code(int rank, int64_t i) { return (rank * 31 + i * 7) % 120; }

void all_gather_case(Group& group) {
  for (DType dtype : {DType::f32, DType::bf16, DType::u8, DType::i64, DType::boolean})
    for (int64_t base : {0, 1, 3, 1001})
      for (bool even : {true, false}) {
        auto counts = even ? std::vector<int64_t>(group.size(), base) : uneven(group.size(), base);
        auto value = [&](int rank, int64_t i) {
          return dtype == DType::boolean ? code(rank, i) % 2 : code(rank, i);
        };
        int64_t at = sum(counts, group.rank()), mine = counts[group.rank()];
        auto in = Values::made(dtype, mine, [&](int64_t i) { return value(group.rank(), i); });
        Values out(dtype, sum(counts), 0), in_place(dtype, sum(counts), 0);
        for (int64_t i = 0; i < mine; ++i) in_place.set(at + i, value(group.rank(), i));
        all_gather(group, {in.data(), out.data(), counts, dtype});
        all_gather(group, {in_place.data(at), in_place.data(), counts, dtype});
        auto wanted = [&](int64_t k) {
          int r = 0;
          while (k >= counts[r]) k -= counts[r++];
          return value(r, k);
        };
        expect_values(out, wanted, "all_gather");
        expect_values(in_place, wanted, "all_gather in place");
      }
}

void reduce_scatter_case(Group& group) {
  for (DType dtype : numbers())
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min})
      for (int64_t base : {0, 1, 3, 501})
        for (bool even : {true, false}) {
          auto counts = even ? std::vector<int64_t>(group.size(), base) : uneven(group.size(), base);
          auto in = Values::made(dtype, sum(counts), [&](int64_t i) { return term(group.rank(), i); });
          Values out(dtype, counts[group.rank()]);
          reduce_scatter(group, {in.data(), out.data(), counts, dtype, op});
          int64_t at = sum(counts, group.rank());
          expect_values(
              out, [&](int64_t i) { return reduced(op, group.size(), at + i); },
              str("reduce_scatter ", name(op)));
        }
}

void all_to_all_case(Group& group) {
  int n = group.size(), me = group.rank();
  for (DType dtype : {DType::f32, DType::bf16, DType::u8, DType::i64})
    for (int64_t base : {0, 1, 3, 701}) {
      auto parts = [&](int from, int to) { return base * ((from * 2 + to) % 4) + (from == to ? 1 : 0); };
      std::vector<int64_t> send_counts, recv_counts;
      for (int r = 0; r < n; ++r) send_counts.push_back(parts(me, r)), recv_counts.push_back(parts(r, me));
      auto value = [&](int from, int to, int64_t i) { return (from * 17 + to * 5 + i) % 120; };
      auto find = [](const std::vector<int64_t>& counts, int64_t k) {
        int r = 0;
        while (k >= counts[r]) k -= counts[r++];
        return std::pair(r, k);
      };
      auto in = Values::made(dtype, sum(send_counts), [&](int64_t k) {
        auto [to, i] = find(send_counts, k);
        return value(me, to, i);
      });
      Values out(dtype, sum(recv_counts));
      all_to_all(group, {in.data(), out.data(), send_counts, recv_counts, dtype});
      expect_values(
          out,
          [&](int64_t k) {
            auto [from, i] = find(recv_counts, k);
            return value(from, me, i);
          },
          "all_to_all");
    }
}

void broadcast_case(Group& group) {
  for (DType dtype : {DType::f32, DType::bf16, DType::u8, DType::i64})
    for (int root = 0; root < group.size(); ++root)
      for (int64_t count : kSizes) {
        auto data =
            Values::made(dtype, count, [&](int64_t i) { return group.rank() == root ? code(root, i) : 1; });
        broadcast(group, {data.data(), count, dtype, root});
        expect_values(data, [&](int64_t i) { return code(root, i); }, str("broadcast from ", root));
      }
}

void send_recv_case(Group& group) {
  int n = group.size(), me = group.rank();
  auto stream = inline_stream();
  for (int64_t count : kSizes) {  // a ring, which needs start and wait: everybody sends before receiving
    auto out = Values::made(DType::i32, count, [&](int64_t i) { return code(me, i); });
    Values in(DType::i32, count);
    auto send = group.start(Send{out.data(), count, DType::i32, (me + 1) % n}, "ring", *stream);
    auto recv = group.start(Recv{in.data(), count, DType::i32, (me + n - 1) % n}, "ring", *stream);
    recv->wait(*stream);
    send->wait(*stream);
    expect_values(in, [&](int64_t i) { return code((me + n - 1) % n, i); }, "ring");
  }
  for (int other = 0; other < n; ++other) {  // blocking forms between every pair, lower rank first
    int64_t mine = me * 100 + other, theirs = -1;
    if (other == me) continue;
    if (me < other)
      lockstep::send(group, {&mine, 1, DType::i64, other, 5}),
          lockstep::recv(group, {&theirs, 1, DType::i64, other, 6});
    else
      lockstep::recv(group, {&theirs, 1, DType::i64, other, 5}),
          lockstep::send(group, {&mine, 1, DType::i64, other, 6});
    expect(theirs == other * 100 + me, str("pair ", me, " ", other, " got ", theirs));
  }
}

void tags_case(Group& group) {
  // Messages of one tag keep their order; tags are told apart whatever the order of the receives.
  int n = group.size(), me = group.rank();
  auto stream = inline_stream();
  std::vector<int64_t> out(6), in(6, -1);
  std::vector<std::shared_ptr<Work>> works;
  for (int k = 0; k < 6; ++k) {
    out[k] = me * 10 + k;
    works.push_back(group.start(Send{&out[k], 1, DType::i64, (me + 1) % n, k % 3}, "tags", *stream));
  }
  for (int k : {2, 1, 0, 5, 4, 3})
    works.push_back(group.start(Recv{&in[k], 1, DType::i64, (me + n - 1) % n, k % 3}, "tags", *stream));
  for (auto& work : works) work->wait(*stream);
  for (int k = 0; k < 6; ++k)
    expect(in[k] == (me + n - 1) % n * 10 + k, str("tag ", k % 3, " message ", k, " is ", in[k]));
}

void barrier_case(Group& group) {
  for (int round = 0; round < 3; ++round) {
    if (group.rank() == round % group.size()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    auto now = [] {
      return static_cast<int64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    };
    int64_t entered = now();
    barrier(group);
    int64_t left = now();
    all_reduce(group, {&entered, &entered, 1, DType::i64, ReduceOp::max});
    all_reduce(group, {&left, &left, 1, DType::i64, ReduceOp::min});
    expect(entered <= left, "a rank left the barrier before the last one entered");  // one host, one clock
  }
}
}  // namespace

void add_verb_cases(std::vector<GroupCase>& cases) {
  cases.push_back({"all_reduce", all_reduce_case});
  cases.push_back({"all_reduce_negative", negative_case});
  cases.push_back({"all_reduce_bool", bool_case});
  cases.push_back({"all_reduce_exact_i64", exact_i64_case});
  cases.push_back({"all_gather", all_gather_case});
  cases.push_back({"reduce_scatter", reduce_scatter_case});
  cases.push_back({"all_to_all", all_to_all_case});
  cases.push_back({"broadcast", broadcast_case});
  cases.push_back({"send_recv", send_recv_case});
  cases.push_back({"tags", tags_case});
  cases.push_back({"barrier", barrier_case});
}

}  // namespace lockstep::conformance
