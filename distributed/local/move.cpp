// Copies and reductions in rank order.
#include "distributed/local/move.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "core/base/error.h"

namespace lockstep::distributed {

namespace {
// Elements reduced at a time. A block is complete before any output is written, so in == out is safe.
constexpr int64_t kBlock = 4096;

const std::byte* offset(const void* data, int64_t elements, DType dtype) {
  return static_cast<const std::byte*>(data) + elements * static_cast<int64_t>(size_of(dtype));
}
std::byte* offset(void* data, int64_t elements, DType dtype) {
  return static_cast<std::byte*>(data) + elements * static_cast<int64_t>(size_of(dtype));
}
void copy(void* out, const void* in, int64_t count, DType dtype) {
  if (count > 0 && out != in) std::memcpy(out, in, count * size_of(dtype));
}
int64_t before(const std::vector<int64_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

// The type in which a stored element is reduced.
template <class T>
struct Held {
  using type = T;
};
template <>
struct Held<bf16> {
  using type = float;
};
template <>
struct Held<f16> {
  using type = float;
};

template <class T, class Op>
void reduce_as(const std::vector<const void*>& ins, const std::vector<void*>& outs, int64_t count, Op op) {
  using H = typename Held<T>::type;
  std::vector<H> held(std::min(count, kBlock));
  for (int64_t at = 0; at < count; at += kBlock) {
    int64_t n = std::min(kBlock, count - at);
    for (size_t r = 0; r < ins.size(); ++r) {
      const T* in = static_cast<const T*>(ins[r]) + at;
      for (int64_t i = 0; i < n; ++i)
        held[i] = r == 0 ? static_cast<H>(in[i]) : op(held[i], static_cast<H>(in[i]));
    }
    for (void* out : outs)
      for (int64_t i = 0; i < n; ++i) static_cast<T*>(out)[at + i] = static_cast<T>(held[i]);
  }
}

template <class H>
H add(H a, H b) {
  if constexpr (std::is_same_v<H, bool>)
    return a || b;
  else if constexpr (std::is_integral_v<H>)
    return static_cast<H>(static_cast<std::make_unsigned_t<H>>(a) + static_cast<std::make_unsigned_t<H>>(b));
  else
    return a + b;
}

template <class T>
void reduce_typed(ReduceOp op, const std::vector<const void*>& ins, const std::vector<void*>& outs,
                  int64_t count) {
  using H = typename Held<T>::type;
  switch (op) {
    case ReduceOp::sum:
      return reduce_as<T>(ins, outs, count, [](H a, H b) { return add<H>(a, b); });
    case ReduceOp::max:
      return reduce_as<T>(ins, outs, count, [](H a, H b) { return std::max(a, b); });
    case ReduceOp::min:
      return reduce_as<T>(ins, outs, count, [](H a, H b) { return std::min(a, b); });
  }
}

void reduce(DType dtype, ReduceOp op, const std::vector<const void*>& ins, const std::vector<void*>& outs,
            int64_t count) {
  switch (dtype) {
    case DType::f32:
      return reduce_typed<float>(op, ins, outs, count);
    case DType::f64:
      return reduce_typed<double>(op, ins, outs, count);
    case DType::bf16:
      return reduce_typed<bf16>(op, ins, outs, count);
    case DType::f16:
      return reduce_typed<f16>(op, ins, outs, count);
    case DType::i32:
      return reduce_typed<int32_t>(op, ins, outs, count);
    case DType::i64:
      return reduce_typed<int64_t>(op, ins, outs, count);
    case DType::u8:
      return reduce_typed<uint8_t>(op, ins, outs, count);
    case DType::u16:
      return reduce_typed<uint16_t>(op, ins, outs, count);
    case DType::u32:
      return reduce_typed<uint32_t>(op, ins, outs, count);
    case DType::u64:
      return reduce_typed<uint64_t>(op, ins, outs, count);
    case DType::boolean:
      return reduce_typed<bool>(op, ins, outs, count);
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      break;
  }
  throw InternalError(str("no reduction of ", name(dtype)));
}

// The collectives of all ranks as their verb's struct.
template <class C>
std::vector<const C*> all_of(const std::vector<const Collective*>& by_rank) {
  std::vector<const C*> out;
  for (const Collective* one : by_rank) out.push_back(&std::get<C>(*one));
  return out;
}

void move_all(const AllReduce& first, const std::vector<const Collective*>& by_rank) {
  std::vector<const void*> ins;
  std::vector<void*> outs;
  for (auto* c : all_of<AllReduce>(by_rank)) ins.push_back(c->in), outs.push_back(c->out);
  reduce(first.dtype, first.op, ins, outs, first.count);
}

void move_all(const AllGather& first, const std::vector<const Collective*>& by_rank) {
  auto ranks = all_of<AllGather>(by_rank);
  for (auto* to : ranks)
    for (size_t from = 0; from < ranks.size(); ++from)
      copy(offset(to->out, before(first.counts, static_cast<int>(from)), first.dtype), ranks[from]->in,
           first.counts[from], first.dtype);
}

void move_all(const ReduceScatter& first, const std::vector<const Collective*>& by_rank) {
  auto ranks = all_of<ReduceScatter>(by_rank);
  for (size_t to = 0; to < ranks.size(); ++to) {
    std::vector<const void*> ins;
    for (auto* from : ranks)
      ins.push_back(offset(from->in, before(first.counts, static_cast<int>(to)), first.dtype));
    reduce(first.dtype, first.op, ins, {ranks[to]->out}, first.counts[to]);
  }
}

void move_all(const AllToAll& first, const std::vector<const Collective*>& by_rank) {
  auto ranks = all_of<AllToAll>(by_rank);
  int n = static_cast<int>(ranks.size());
  for (int to = 0; to < n; ++to)
    for (int from = 0; from < n; ++from)
      copy(offset(ranks[to]->out, before(ranks[to]->recv_counts, from), first.dtype),
           offset(ranks[from]->in, before(ranks[from]->send_counts, to), first.dtype),
           ranks[from]->send_counts[to], first.dtype);
}

void move_all(const Broadcast& first, const std::vector<const Collective*>& by_rank) {
  auto ranks = all_of<Broadcast>(by_rank);
  for (auto* to : ranks) copy(to->data, ranks[first.root]->data, first.count, first.dtype);
}

void move_all(const Send& send, const std::vector<const Collective*>& by_rank) {
  copy(std::get<Recv>(*by_rank[1]).data, send.data, send.count, send.dtype);
}
void move_all(const Recv&, const std::vector<const Collective*>&) {
  throw InternalError("a recv comes before its send");
}
void move_all(const Barrier&, const std::vector<const Collective*>&) {}
}  // namespace

void move_data(const std::vector<const Collective*>& by_rank) {
  std::visit([&](const auto& first) { move_all(first, by_rank); }, *by_rank[0]);
}

namespace {
std::string compare(const AllReduce& a, const AllReduce& b) {
  return a.dtype != b.dtype ? "dtype" : a.count != b.count ? "counts" : a.op != b.op ? "op" : "";
}
std::string compare(const AllGather& a, const AllGather& b) {
  return a.dtype != b.dtype ? "dtype" : a.counts != b.counts ? "counts" : a.more != b.more ? "launch" : "";
}
std::string compare(const ReduceScatter& a, const ReduceScatter& b) {
  return a.dtype != b.dtype ? "dtype" : a.counts != b.counts ? "counts" : a.op != b.op ? "op" : "";
}
std::string compare(const Broadcast& a, const Broadcast& b) {
  return a.dtype != b.dtype ? "dtype" : a.count != b.count ? "counts" : a.root != b.root ? "root" : "";
}
std::string compare(const Barrier&, const Barrier&) { return ""; }
}  // namespace

std::string difference(const Collective& a, int rank_a, const Collective& b, int rank_b) {
  if (auto* send = std::get_if<Send>(&a)) {
    auto* recv = std::get_if<Recv>(&b);
    return !recv ? "verb" : send->dtype != recv->dtype ? "dtype" : send->count != recv->count ? "counts" : "";
  }
  if (a.index() != b.index()) return "verb";
  if (auto* one = std::get_if<AllToAll>(&a)) {
    auto& other = std::get<AllToAll>(b);
    bool agree = one->send_counts[rank_b] == other.recv_counts[rank_a] &&
                 other.send_counts[rank_a] == one->recv_counts[rank_b];
    return one->dtype != other.dtype ? "dtype" : agree ? "" : "counts";
  }
  return std::visit(
      [&](const auto& one) -> std::string {
        using C = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<C, Send> || std::is_same_v<C, Recv> || std::is_same_v<C, AllToAll>)
          return "verb";
        else
          return compare(one, std::get<C>(b));
      },
      a);
}

}  // namespace lockstep::distributed
