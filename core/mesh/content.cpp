// Computes content in host memory, on devices that can sum, and by copying blocks to the host for other
// devices.
#include "core/mesh/content.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {

namespace {
constexpr int64_t kCounted = 4096;  // elements whose count fits every element type

template <class Bits>
int64_t count_block(const Bits* bits, int64_t count, Bits exponent) {
  Bits sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<Bits>((bits[i] & exponent) == exponent);
  return static_cast<int64_t>(sum);
}

template <class Bits>
NonFiniteCount count_bits(const std::byte* bytes, int64_t count, uint64_t mask) {
  const auto* bits = reinterpret_cast<const Bits*>(bytes);
  const auto exponent = static_cast<Bits>(mask);
  const int64_t blocks = (count + kCounted - 1) / kCounted;
  int64_t found = 0, first_block = blocks;
#pragma omp parallel for schedule(static) reduction(+ : found) reduction(min : first_block) if (blocks > 64)
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t from = block * kCounted;
    const int64_t here = count_block(bits + from, std::min(kCounted, count - from), exponent);
    found += here;
    if (here) first_block = std::min(first_block, block);
  }
  if (!found) return {};
  int64_t first = first_block * kCounted;
  while ((bits[first] & exponent) != exponent) ++first;
  return {found, first};
}

// Adds elements in host memory; the first has the row-major index `index`.
void add_run(const Holding& of, Asked asked, const std::byte* data, int64_t count, int64_t index,
             uint64_t key, Content& sum) {
  if (asked.hash) sum.hash.add(hash_run(size_of(of.dtype), data, count, static_cast<uint64_t>(index), key));
  if (!asked.finite || !is_float(of.dtype)) return;
  const NonFiniteCount found = count_nonfinite(of.dtype, data, count);
  if (found.count) sum.first = std::min(sum.first, index + found.first);
  sum.nonfinite += found.count;
}

using Run = std::function<void(int64_t index, const std::byte* data, int64_t count)>;
void each_run(const Holding& of, const Run& run) {
  for_each_run(of.box, whole(of.shape), of.frame, [&](int64_t index, int64_t at, int64_t count) {
    run(index, of.data + at * static_cast<int64_t>(size_of(of.dtype)), count);
  });
}

void add_host(const Holding& of, Asked asked, Content& sum) {
  const uint64_t key = hash_key(of.fqn, of.dtype);
  each_run(of, [&](int64_t index, const std::byte* data, int64_t count) {
    add_run(of, asked, data, count, index, key, sum);
  });
}

void add_through_host(const Holding& of, Asked asked, Buffer& block, Content& sum) {
  if (!block) block = Buffer(kContentBlock, of.device->staging());
  const uint64_t key = hash_key(of.fqn, of.dtype);
  const auto element = static_cast<int64_t>(size_of(of.dtype));
  const int64_t most = kContentBlock / element;
  each_run(of, [&](int64_t index, const std::byte* data, int64_t count) {
    for (int64_t done = 0; done < count; done += most) {
      const int64_t part = std::min(most, count - done);
      copy_to_host(*of.device, block.data(), data + done * element, static_cast<size_t>(part * element));
      add_run(of, asked, block.data(), part, index + done, key, sum);
    }
  });
}

void append_runs(const Holding& of, Asked asked, std::vector<ContentRun>& runs) {
  const uint64_t key = hash_key(of.fqn, of.dtype), exponent = asked.finite ? exponent_bits(of.dtype) : 0;
  each_run(of, [&](int64_t index, const std::byte* data, int64_t count) {
    runs.push_back({data, count, static_cast<uint64_t>(index), key, exponent, size_of(of.dtype)});
  });
}

void add_sum(Device& device, const std::vector<ContentRun>& runs, Asked asked, Content& out) {
  if (runs.empty()) return;
  device.enter();
  const ContentSum sum = device.content_sums()->sum(runs);
  if (asked.hash) out.hash.add({sum.lo, sum.hi});
  out.nonfinite += sum.nonfinite;
  if (sum.nonfinite) out.first = std::min(out.first, static_cast<int64_t>(sum.first));
}
}  // namespace

uint64_t exponent_bits(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0x7f800000u;
    case DType::f64:
      return 0x7ff0000000000000ull;
    case DType::bf16:
      return 0x7f80u;
    case DType::f16:
      return 0x7c00u;
    default:
      return 0;
  }
}

NonFiniteCount count_nonfinite(DType dtype, const std::byte* data, int64_t count) {
  const uint64_t exponent = exponent_bits(dtype);
  if (!exponent) return {};
  switch (size_of(dtype)) {
    case 2:
      return count_bits<uint16_t>(data, count, exponent);
    case 4:
      return count_bits<uint32_t>(data, count, exponent);
    default:
      return count_bits<uint64_t>(data, count, exponent);
  }
}

std::vector<Holding> holdings(const std::vector<const Array*>& arrays) {
  std::vector<Holding> out;
  for (const Array* array : arrays) {
    const Array::Newest newest = array->newest();
    for (const Piece& piece : array->pieces)
      out.push_back({array->fqn, array->dtype, array->shape, piece.global, piece.frame(array->local_shape),
                     newest.data, newest.device});
  }
  return out;
}

Content content_of(const std::vector<Holding>& all, Asked asked) {
  Content out;
  Device* device = nullptr;  // the device whose runs are collected
  std::vector<ContentRun> runs;
  Buffer block;
  for (const Holding& of : all) {
    if (numel(of.box) == 0 || (!asked.hash && !is_float(of.dtype))) continue;
    if (!of.device) {
      add_host(of, asked, out);
    } else if (!of.device->content_sums()) {
      add_through_host(of, asked, block, out);
    } else {
      LS_CHECK(!device || device == of.device, of.fqn, " is on another device");
      device = of.device;
      append_runs(of, asked, runs);
    }
  }
  if (device) add_sum(*device, runs, asked, out);
  return out;
}

}  // namespace lockstep
