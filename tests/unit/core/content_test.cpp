// The state hash and the search for what is not finite: the same sums by every way, in host memory and on a
// device.
#include "core/mesh/content.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "core/mesh/nonfinite.h"
#include "tests/conformance/far_device.h"

namespace lockstep {
namespace {

std::vector<std::byte> random_bytes(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> out(count);
  for (auto& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

// The definition, once more: 128-bit integers, one element after another.
StateHash by_definition(size_t element, const std::byte* data, int64_t count, uint64_t index, uint64_t key) {
  auto mix = [](uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  };
  unsigned __int128 sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, data + i * static_cast<int64_t>(element), element);
    const uint64_t low = mix(mix((index + static_cast<uint64_t>(i)) * 0x9E3779B97F4A7C15ull + key) ^ bits);
    sum += static_cast<unsigned __int128>(mix(low + key)) << 64 | low;
  }
  return {static_cast<uint64_t>(sum), static_cast<uint64_t>(sum >> 64)};
}

TEST(StateHash, EveryWayHasTheSameSum) {
  for (size_t element : {1u, 2u, 4u, 8u})
    for (int64_t count : {0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 1000, 4099}) {
      const auto bytes = random_bytes(static_cast<size_t>(count) * element + 1, static_cast<unsigned>(count));
      for (uint64_t index : {uint64_t{0}, uint64_t{5}, ~uint64_t{0} - 3})
        for (size_t shift : {0u, 1u}) {
          const StateHash want = by_definition(element, bytes.data() + shift, count, index, 77 + index);
          for (HashWay way : {HashWay::scalar, HashWay::avx2, HashWay::avx512})
            if (has(way)) {
              EXPECT_EQ(hash_span(way, element, bytes.data() + shift, count, index, 77 + index), want)
                  << element << " bytes, " << count << " elements, way " << static_cast<int>(way);
            }
          EXPECT_EQ(hash_run(element, bytes.data() + shift, count, index, 77 + index), want);
        }
    }
  ASSERT_TRUE(has(HashWay::scalar));
}

TEST(StateHash, LongRunsAreSharedByThreads) {
  const int64_t count = (int64_t{1} << 20) + 13;
  const auto bytes = random_bytes(static_cast<size_t>(count) * 4, 3);
  EXPECT_EQ(hash_run(4, bytes.data(), count, 9, 1), by_definition(4, bytes.data(), count, 9, 1));
}

// States that were saved are compared with these.
TEST(StateHash, IsTheOneOfEarlierVersions) {
  Array array = make_array("token.weight", DType::f32, {3, 5}, Layout{}, Mesh{}, 0);
  for (int i = 0; i < 15; ++i) array.data.as<float>()[i] = static_cast<float>(i) * 0.5f - 2;
  EXPECT_EQ(state_hash({&array}, solo_mesh()), "d04453e55411bf3a9114647da8fd412c");
}

TEST(Content, CountsWhatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const int64_t count = 300'001;
    std::vector<std::byte> data(static_cast<size_t>(count) * size_of(dtype));
    EXPECT_EQ(count_nonfinite(dtype, data.data(), count).count, 0);
    set_double(dtype, data.data(), 299'999, nan);
    set_double(dtype, data.data(), 5000, -inf);
    set_double(dtype, data.data(), 4095, inf);
    const NonFiniteCount found = count_nonfinite(dtype, data.data(), count);
    EXPECT_EQ(found.count, 3) << name(dtype);
    EXPECT_EQ(found.first, 4095) << name(dtype);
    for (int64_t i = 0; i < count; ++i) set_double(dtype, data.data(), i, nan);
    EXPECT_EQ(count_nonfinite(dtype, data.data(), count).count, count);
  }
  const int64_t ones[] = {-1, -1};
  EXPECT_EQ(count_nonfinite(DType::i64, reinterpret_cast<const std::byte*>(ones), 2).count, 0);
}

// A far device that sums by itself: its memory holds every byte inverted.
class SummingDevice : public conformance::FarDevice, public ContentSums {
 public:
  ContentSums* content_sums() override { return this; }
  ContentSum sum(const std::vector<ContentRun>& runs) override {
    ContentSum out;
    StateHash hash;
    ++calls;
    for (const ContentRun& run : runs) {
      std::vector<std::byte> bytes(run.data, run.data + static_cast<size_t>(run.count) * run.element);
      for (auto& byte : bytes) byte = ~byte;
      hash.add(by_definition(run.element, bytes.data(), run.count, run.index, run.key));
      for (int64_t i = 0; i < run.count && run.exponent; ++i) {
        uint64_t bits = 0;
        std::memcpy(&bits, bytes.data() + static_cast<size_t>(i) * run.element, run.element);
        if ((bits & run.exponent) != run.exponent) continue;
        ++out.nonfinite;
        out.first = std::min(out.first, run.index + static_cast<uint64_t>(i));
      }
    }
    out.lo = hash.lo, out.hi = hash.hi;
    return out;
  }
  int calls = 0;
};

std::vector<Array> state_of_rank(int64_t rank) {
  const Mesh mesh{{3}, {"tp"}};
  Layout rows, columns;
  rows.set(0, Shard(0)), columns.set(0, Shard(1));
  std::vector<Array> out;
  out.push_back(make_array("rows", DType::f32, {7, 5}, rows, mesh, rank));
  out.push_back(make_array("columns", DType::bf16, {9, 7}, columns, mesh, rank));
  out.push_back(make_array("whole", DType::f64, {11}, Layout{}, mesh, rank));
  out.push_back(make_array("ids", DType::i32, {3, 5}, columns, mesh, rank));
  out.push_back(make_array("large", DType::f32, {3, 700'001}, columns, mesh, rank));
  for (Array& array : out) {
    std::mt19937 random(static_cast<unsigned>(rank) + 5);
    for (int64_t i = 0; i < array.local_numel(); ++i)
      is_float(array.dtype)
          ? set_double(array.dtype, array.data.data(), i, static_cast<double>(random() % 1000) / 8 - 60)
          : set_int(array.dtype, array.data.data(), i, static_cast<int64_t>(random() % 1000));
    array.host_wrote();
  }
  return out;
}
std::vector<const Array*> all_of(const std::vector<Array>& arrays) {
  std::vector<const Array*> out;
  for (const Array& array : arrays) out.push_back(&array);
  return out;
}

template <class Far>
void same_on_a_device(Far& far) {
  for (int64_t rank : {0, 1, 2}) {
    std::vector<Array> state = state_of_rank(rank);
    set_double(DType::bf16, state[1].data.data(), 4, std::numeric_limits<double>::infinity());
    const Content here = content_of(holdings(all_of(state)), {.hash = true, .finite = true});
    EXPECT_EQ(here.nonfinite, 1);
    const auto bad = find_nonfinite(all_of(state), solo_mesh());
    ASSERT_TRUE(bad);
    for (Array& array : state) {
      array.on(far);
      array.device_wrote(far);
      std::fill_n(array.data.data(), array.data.bytes(), std::byte{0x7f});  // NaN, or another number
    }
    const Content there = content_of(holdings(all_of(state)), {.hash = true, .finite = true});
    EXPECT_EQ(there.hash, here.hash);
    EXPECT_EQ(there.nonfinite, 1);
    EXPECT_EQ(there.first, here.first);
    EXPECT_EQ(find_nonfinite(all_of(state), solo_mesh())->text(), bad->text());
    for (const Array& array : state) {
      const StateHash one = hash_elements(array);
      array.fetch();
      EXPECT_EQ(one, [&] {
        StateHash sum;
        for (const Piece& piece : array.pieces) {
          const int64_t size = static_cast<int64_t>(size_of(array.dtype));
          for_each_run(
              piece.global, whole(array.shape), piece.frame(array.local_shape),
              [&](int64_t global, int64_t local, int64_t count) {
                sum.add(by_definition(static_cast<size_t>(size), array.data.data() + local * size, count,
                                      static_cast<uint64_t>(global), hash_key(array.fqn, array.dtype)));
              });
        }
        return sum;
      }()) << array.fqn;
    }
  }
}
TEST(Content, OfADeviceThatSums) {
  SummingDevice far;
  same_on_a_device(far);
  EXPECT_GT(far.calls, 0);
}
TEST(Content, OfADevicePassesInBlocks) {
  conformance::FarDevice far;
  same_on_a_device(far);
}

// What is brought to a device leaves the host's memory, and comes back when it is asked for.
TEST(Content, TheHostsCopyIsGivenBack) {
  SummingDevice far;
  Array array = make_array("w", DType::f32, {1 << 20}, Layout{}, Mesh{}, 0);
  array.data.as<float>()[77] = 7;
  array.host_wrote();
  const StateHash hash = hash_elements(array);
  array.on(far);
  EXPECT_EQ(array.data.as<float>()[77], 0);
  EXPECT_EQ(hash_elements(array), hash);
  EXPECT_EQ(array.data.as<float>()[77], 0);
  array.fetch();
  EXPECT_EQ(array.data.as<float>()[77], 7);
  EXPECT_EQ(hash_elements(array), hash);
}

}  // namespace
}  // namespace lockstep
