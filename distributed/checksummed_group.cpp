// Sends a slip (number, size, checksum) after each message and compares it when both have arrived.
#include "distributed/checksummed_group.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>
#include <type_traits>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "distributed/watch/site.h"

namespace lockstep::distributed {

namespace {
constexpr int64_t kGathered = 64 * 1024;  // largest reduction in bytes that is gathered instead

// Slip: the sender's description of a message.
struct Slip {
  int64_t number = 0;  // number of the collective in its group, or of the message between two ranks
  int64_t bytes = 0;
  uint64_t checksum = 0;
};
constexpr int64_t kWords = sizeof(Slip) / sizeof(uint64_t);

const std::byte* at(const void* data, int64_t elements, DType dtype) {
  return static_cast<const std::byte*>(data) + elements * static_cast<int64_t>(size_of(dtype));
}
int64_t before(const std::vector<int64_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

Slip slip_of(int64_t number, const void* data, int64_t count, DType dtype) {
  const int64_t bytes = count * static_cast<int64_t>(size_of(dtype));
  return {number, bytes, hash64(data, bytes)};
}

template <class T>
uint64_t linear_as(const void* data, int64_t count) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(data) + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    sum += static_cast<uint64_t>(value) *
           // Odd, so that a change of one bit always changes the sum
           ((static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15ull) | 1);
  }
  return static_cast<T>(sum);  // sums of T wrap, and so do their checksums
}
// The checksum of a sum of integers is the sum of their checksums.
uint64_t linear(const void* data, int64_t count, DType dtype) {
  switch (size_of(dtype)) {
    case 1:
      return linear_as<uint8_t>(data, count);
    case 2:
      return linear_as<uint16_t>(data, count);
    case 4:
      return linear_as<uint32_t>(data, count);
    default:
      return linear_as<uint64_t>(data, count);
  }
}
uint64_t wrapped(uint64_t sum, DType dtype) {
  const size_t bits = 8 * size_of(dtype);
  return bits == 64 ? sum : sum & ((uint64_t{1} << bits) - 1);
}

template <class T>
void fold_as(const std::byte* parts, int ranks, int64_t count, ReduceOp op, void* out) {
  for (int64_t i = 0; i < count; ++i) {
    T held{};
    for (int r = 0; r < ranks; ++r) {
      T value;
      std::memcpy(&value, parts + (r * count + i) * static_cast<int64_t>(sizeof(T)), sizeof(T));
      if (r == 0) {
        held = value;
      } else if (op == ReduceOp::sum) {
        if constexpr (std::is_integral_v<T>)
          held = static_cast<T>(static_cast<std::make_unsigned_t<T>>(held) +
                                static_cast<std::make_unsigned_t<T>>(value));
      } else {
        if constexpr (std::is_arithmetic_v<T>)
          held = op == ReduceOp::max ? std::max(held, value) : std::min(held, value);
        else
          held = (static_cast<float>(op == ReduceOp::max ? held : value) <
                  static_cast<float>(op == ReduceOp::max ? value : held))
                     ? value
                     : held;
      }
    }
    std::memcpy(static_cast<std::byte*>(out) + i * static_cast<int64_t>(sizeof(T)), &held, sizeof(T));
  }
}
void fold(const std::byte* parts, int ranks, int64_t count, DType dtype, ReduceOp op, void* out) {
  switch (dtype) {
    case DType::f32:
      return fold_as<float>(parts, ranks, count, op, out);
    case DType::f64:
      return fold_as<double>(parts, ranks, count, op, out);
    case DType::bf16:
      return fold_as<bf16>(parts, ranks, count, op, out);
    case DType::f16:
      return fold_as<f16>(parts, ranks, count, op, out);
    case DType::i32:
      return fold_as<int32_t>(parts, ranks, count, op, out);
    case DType::i64:
      return fold_as<int64_t>(parts, ranks, count, op, out);
    case DType::u8:
      return fold_as<uint8_t>(parts, ranks, count, op, out);
    case DType::u16:
      return fold_as<uint16_t>(parts, ranks, count, op, out);
    case DType::u32:
      return fold_as<uint32_t>(parts, ranks, count, op, out);
    case DType::u64:
      return fold_as<uint64_t>(parts, ranks, count, op, out);
    case DType::boolean:
      return fold_as<uint8_t>(parts, ranks, count, op == ReduceOp::min ? ReduceOp::min : ReduceOp::max, out);
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      break;
  }
  throw InternalError(str("no reduction of ", name(dtype)));
}

// A collective in flight with its slips; kept until the wait has ended.
struct Flight {
  std::vector<Slip> mine, theirs;
  std::vector<std::byte> parts;  // the ranks' parts, for a reduction that is gathered
  std::vector<std::shared_ptr<Work>> works;
  std::function<void()> check;
};

class ChecksummedWork : public Work {
 public:
  explicit ChecksummedWork(std::shared_ptr<Flight> flight) : flight_(std::move(flight)) {}
  bool done() override {
    return std::all_of(flight_->works.begin(), flight_->works.end(),
                       [](const auto& work) { return work->done(); });
  }
  void wait(Stream& stream) override {
    for (const auto& work : flight_->works) work->wait(stream);
    stream.run([flight = flight_] { flight->check(); });
  }

 private:
  std::shared_ptr<Flight> flight_;
};

class ChecksummedGroup : public Group {
 public:
  explicit ChecksummedGroup(std::shared_ptr<Group> group) : group_(std::move(group)) {}
  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  const std::string& name() const override { return group_->name(); }
  double deadline() const override { return deadline_s_ > 0 ? deadline_s_ : group_->deadline(); }
  double own_deadline() const override { return deadline_s_ > 0 ? deadline_s_ : group_->own_deadline(); }
  void check() override { group_->check(); }

  std::shared_ptr<Work> start(const Collective& what, const std::string& label, Stream& stream) override {
    check_collective(what, rank(), size());
    note_issued(what, label);
    if (deadline_s_ > 0) group_->set_deadline(deadline_s_);
    return std::visit([&](const auto& c) { return begin(c, label, stream); }, what);
  }

 private:
  using FlightPointer = std::shared_ptr<Flight>;

  std::shared_ptr<Work> begin(const Barrier& c, const std::string& label, Stream& stream) {
    return group_->start(c, label, stream);
  }

  std::shared_ptr<Work> begin(const AllGather& c, const std::string& label, Stream& stream) {
    auto flight = sent(1, stream, [this, c, number = number_++](Flight& f) {
      f.mine[0] = slip_of(number, c.in, c.counts[rank()], c.dtype);
    });
    flight->works = {group_->start(c, label, stream), exchange_all(flight, label, stream)};
    flight->check = [this, c, label, f = flight.get()] {
      for (int r = 0; r < size(); ++r)
        if (r != rank())
          compare(c, label, r, f->mine[0].number, f->theirs[r], at(c.out, before(c.counts, r), c.dtype),
                  c.counts[r], c.dtype);
    };
    return std::make_shared<ChecksummedWork>(flight);
  }

  std::shared_ptr<Work> begin(const AllToAll& c, const std::string& label, Stream& stream) {
    auto flight = sent(size(), stream, [this, c, number = number_++](Flight& f) {
      for (int r = 0; r < size(); ++r)
        f.mine[r] = slip_of(number, at(c.in, before(c.send_counts, r), c.dtype), c.send_counts[r], c.dtype);
    });
    flight->works = {group_->start(c, label, stream), exchange_pairs(flight, label, stream)};
    flight->check = [this, c, label, f = flight.get()] {
      for (int r = 0; r < size(); ++r)
        if (r != rank())
          compare(c, label, r, f->mine[0].number, f->theirs[r], at(c.out, before(c.recv_counts, r), c.dtype),
                  c.recv_counts[r], c.dtype);
    };
    return std::make_shared<ChecksummedWork>(flight);
  }

  std::shared_ptr<Work> begin(const Broadcast& c, const std::string& label, Stream& stream) {
    const int64_t number = number_++;
    auto flight = sent(1, stream, [this, c, number](Flight& f) {
      if (rank() == c.root) f.mine[0] = slip_of(number, c.data, c.count, c.dtype);
    });
    flight->works = {
        group_->start(c, label, stream),
        group_->start(Broadcast{flight->mine.data(), kWords, DType::u64, c.root}, behind(label), stream)};
    flight->check = [this, c, label, number, f = flight.get()] {
      if (rank() != c.root) compare(c, label, c.root, number, f->mine[0], c.data, c.count, c.dtype);
    };
    return std::make_shared<ChecksummedWork>(flight);
  }

  std::shared_ptr<Work> begin(const Send& c, const std::string& label, Stream& stream) {
    auto flight = sent(1, stream, [c, number = next_of(c.to, c.tag, true)](Flight& f) {
      f.mine[0] = slip_of(number, c.data, c.count, c.dtype);
    });
    flight->works = {
        group_->start(c, label, stream),
        group_->start(Send{flight->mine.data(), kWords, DType::u64, c.to, c.tag}, behind(label), stream)};
    flight->check = [] {};
    return std::make_shared<ChecksummedWork>(flight);
  }

  std::shared_ptr<Work> begin(const Recv& c, const std::string& label, Stream& stream) {
    auto flight = sent(1, stream, [](Flight&) {});
    flight->works = {
        group_->start(c, label, stream),
        group_->start(Recv{flight->mine.data(), kWords, DType::u64, c.from, c.tag}, behind(label), stream)};
    flight->check = [this, c, label, number = next_of(c.from, c.tag, false), f = flight.get()] {
      compare(c, label, c.from, number, f->mine[0], c.data, c.count, c.dtype);
    };
    return std::make_shared<ChecksummedWork>(flight);
  }

  std::shared_ptr<Work> begin(const AllReduce& c, const std::string& label, Stream& stream) {
    const bool summed = c.op == ReduceOp::sum && c.dtype != DType::boolean;
    if (summed && is_float(c.dtype)) return group_->start(c, label, stream);
    const int64_t bytes = c.count * static_cast<int64_t>(size_of(c.dtype)), number = number_++;
    if (!summed || bytes <= kGathered) {
      auto flight = sent(
          1, stream, [this, c, number](Flight& f) { f.mine[0] = slip_of(number, c.in, c.count, c.dtype); });
      flight->parts.resize(bytes * size());
      const AllGather gather{c.in, flight->parts.data(), std::vector<int64_t>(size(), c.count), c.dtype};
      flight->works = {group_->start(gather, label, stream), exchange_all(flight, label, stream)};
      flight->check = [this, c, label, number, bytes, f = flight.get()] {
        for (int r = 0; r < size(); ++r)
          if (r != rank())
            compare(c, label, r, number, f->theirs[r], f->parts.data() + r * bytes, c.count, c.dtype);
        fold(f->parts.data(), size(), c.count, c.dtype, c.op, c.out);
      };
      return std::make_shared<ChecksummedWork>(flight);
    }
    auto flight = sent(1, stream, [c, number, bytes](Flight& f) {
      f.mine[0] = {number, bytes, linear(c.in, c.count, c.dtype)};
    });
    flight->works = {group_->start(c, label, stream), exchange_all(flight, label, stream)};
    flight->check = [this, c, label, number, f = flight.get()] {
      compare_sum(c, label, number, *f, c.out, c.count, c.dtype);
    };
    return std::make_shared<ChecksummedWork>(flight);
  }

  std::shared_ptr<Work> begin(const ReduceScatter& c, const std::string& label, Stream& stream) {
    if (c.op != ReduceOp::sum || is_float(c.dtype) || c.dtype == DType::boolean)
      return group_->start(c, label, stream);
    const int64_t number = number_++;
    auto flight = sent(size(), stream, [this, c, number](Flight& f) {
      for (int r = 0; r < size(); ++r)
        f.mine[r] = {number, c.counts[r] * static_cast<int64_t>(size_of(c.dtype)),
                     linear(at(c.in, before(c.counts, r), c.dtype), c.counts[r], c.dtype)};
    });
    flight->works = {group_->start(c, label, stream), exchange_pairs(flight, label, stream)};
    flight->check = [this, c, label, number, f = flight.get()] {
      compare_sum(c, label, number, *f, c.out, c.counts[rank()], c.dtype);
    };
    return std::make_shared<ChecksummedWork>(flight);
  }

  // Makes a flight with `slips` slips of this rank. `write` fills them when the stream reaches it, since the
  // data is complete then.
  template <class Write>
  FlightPointer sent(int slips, Stream& stream, Write write) {
    auto flight = std::make_shared<Flight>();
    flight->mine.resize(slips);
    flight->theirs.resize(size());
    stream.run([flight, write] { write(*flight); });
    return flight;
  }
  static std::string behind(const std::string& label) { return "checksum of " + label; }
  std::shared_ptr<Work> exchange_all(const FlightPointer& flight, const std::string& label, Stream& stream) {
    return group_->start(AllGather{flight->mine.data(), flight->theirs.data(),
                                   std::vector<int64_t>(size(), kWords), DType::u64},
                         behind(label), stream);
  }
  std::shared_ptr<Work> exchange_pairs(const FlightPointer& flight, const std::string& label,
                                       Stream& stream) {
    const std::vector<int64_t> words(size(), kWords);
    return group_->start(AllToAll{flight->mine.data(), flight->theirs.data(), words, words, DType::u64},
                         behind(label), stream);
  }
  int64_t next_of(int peer, int tag, bool sends) {
    std::lock_guard lock(mutex_);
    return next_[{peer, tag, sends}]++;
  }

  static std::string hex(uint64_t value) {
    char out[20];
    std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(value));
    return out;
  }
  static constexpr const char* kWhy =
      "; a link, an adapter or memory between them changes what it carries; the same command continues from "
      "the last checkpoint";
  [[noreturn]] void refuse(const Collective& what, const std::string& label, const std::string& words) const {
    throw PeerError(str("group \"", name(), "\": ", site_text(what, label), ": ", words, kWhy));
  }
  void compare(const Collective& what, const std::string& label, int from, int64_t number, const Slip& slip,
               const void* data, int64_t count, DType dtype) const {
    const Slip got = slip_of(number, data, count, dtype);
    if (got.checksum == slip.checksum && got.bytes == slip.bytes && got.number == slip.number) return;
    const bool place = got.number != slip.number;
    refuse(what, label,
           str("what rank ", rank(), " received from rank ", from, " is not what was sent: ",
               place ? str("number ", got.number, " was expected, and the checksum is that of number ",
                           slip.number, "; ")
                     : "",
               got.bytes, " bytes with checksum ", hex(got.checksum), " arrived, ", slip.bytes,
               " bytes with checksum ", hex(slip.checksum), " were sent"));
  }
  void compare_sum(const Collective& what, const std::string& label, int64_t number, const Flight& flight,
                   const void* data, int64_t count, DType dtype) const {
    uint64_t sum = 0;
    for (int r = 0; r < size(); ++r) {
      sum += flight.theirs[r].checksum;
      if (flight.theirs[r].number != number)
        refuse(what, label,
               str("rank ", rank(), " expected number ", number, " from rank ", r,
                   ", and its checksum is that of number ", flight.theirs[r].number));
    }
    const uint64_t got = linear(data, count, dtype);
    if (got != wrapped(sum, dtype))
      refuse(what, label,
             str("the sum that arrived on rank ", rank(), " is not that of what the ", size(),
                 " ranks sent: checksum ", hex(got), ", the ranks' checksums add up to ",
                 hex(wrapped(sum, dtype))));
  }

  std::shared_ptr<Group> group_;
  std::atomic<int64_t> number_{0};
  std::mutex mutex_;
  std::map<std::tuple<int, int, bool>, int64_t> next_;
};
}  // namespace

std::shared_ptr<Group> checksummed(std::shared_ptr<Group> group) {
  if (group->size() == 1) return group;
  return std::make_shared<ChecksummedGroup>(std::move(group));
}

bool wants_checksums(bool over_network) {
  const std::string word = env("LOCKSTEP_VERIFY_COLLECTIVES");
  if (word == "on") return true;
  if (word == "off") return false;
  if (word == "auto") return over_network;
  throw UserError(str("LOCKSTEP_VERIFY_COLLECTIVES is \"", word, "\"; use auto, on or off"));
}

}  // namespace lockstep::distributed
