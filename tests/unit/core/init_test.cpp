// Initial values: closed forms, statistics, fans, orthonormal rows, and the same elements on any mesh and on
// a device that draws them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <set>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/philox.h"
#include "core/nn/state.h"
#include "core/types/below.h"
#include "tests/conformance/far_device.h"
#include "tests/support/nn_fixture.h"

namespace lockstep {
namespace {

// The elements of a tensor of this shape that starts so.
std::vector<double> made(const Init& init, Shape shape, DType dtype = DType::f32) {
  State state(solo_mesh(), 42);
  state.root().buffer("w", dtype, shape, init);
  state.materialize();
  std::vector<double> out;
  for (int64_t i = 0; i < numel(shape); ++i)
    out.push_back(get_double(dtype, state.array("w").data.data(), i));
  return out;
}
struct Statistics {
  double mean = 0, deviation = 0, least = 1e30, most = -1e30;
};
Statistics statistics(const std::vector<double>& x) {
  Statistics s;
  for (double v : x) s.mean += v / static_cast<double>(x.size());
  for (double v : x) {
    s.deviation += (v - s.mean) * (v - s.mean) / static_cast<double>(x.size());
    s.least = std::min(s.least, v), s.most = std::max(s.most, v);
  }
  s.deviation = std::sqrt(s.deviation);
  return s;
}

TEST(Inits, ClosedForms) {
  EXPECT_EQ(made(init::constant(0.1), {3}), std::vector<double>(3, static_cast<double>(0.1f)));
  EXPECT_EQ(made(init::constant(0.1), {2}, DType::f64), std::vector<double>(2, 0.1));
  EXPECT_EQ(made(init::eye(), {2, 3}), (std::vector<double>{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(made(init::dirac(), {2, 2, 3}), (std::vector<double>{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(made(init::dirac(2), {2, 1, 1}), (std::vector<double>{1, 1}));
  EXPECT_EQ(made(init::elements([](int64_t i) { return static_cast<double>(i * i); }), {2, 2}),
            (std::vector<double>{0, 1, 4, 9}));
  std::vector<double> x = made(init::uniform(-1, 3), {5, 7});
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(x[i], static_cast<float>(-1 + 4.0 * philox::uniform(philox::bits(42, hash64("w"), 0, i)))) << i;
}

// Where rounding to the dtype would reach hi, it is the largest number below; all others are as they were.
TEST(Inits, UniformNumbersStayBelowTheirUpperBound) {
  for (const auto& [dtype, lo, hi] :
       {std::tuple(DType::f32, 1e6, 1e6 + 1), std::tuple(DType::f64, 1e6, 1e6 + 1),
        std::tuple(DType::f32, -1e6 - 1, -1e6), std::tuple(DType::bf16, 0.0, 1.0),
        std::tuple(DType::f16, -1.0, 0.0), std::tuple(DType::f16, 2.0, 4.0)}) {
    const std::vector<double> x = made(init::uniform(lo, hi), {64, 32}, dtype);
    const double most = below(hi, dtype == DType::f64 ? DType::f32 : dtype);
    int64_t limited = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      std::byte bytes[8];
      set_double(dtype, bytes, 0,
                 static_cast<float>(lo + (hi - lo) * philox::uniform(philox::bits(42, hash64("w"), 0, i))));
      const double rounded = get_double(dtype, bytes, 0);
      limited += rounded >= hi;
      EXPECT_EQ(x[i], rounded >= hi ? most : rounded) << name(dtype) << " " << i;
    }
    EXPECT_GT(limited + (dtype == DType::f16), 0) << name(dtype) << " " << lo;
    EXPECT_LT(most, hi);
  }
  EXPECT_EQ(made(init::uniform(2, 2), {3}), std::vector<double>(3, 2));
}

// Box and Muller's formula with the library's functions in double: what rounds alike differs in a float's
// last place at most, and blocks of numbers are those of one.
TEST(Inits, NormalsAreThoseOfTheLibrarysFunctions) {
  auto near = [](uint32_t first, uint32_t second) {
    const double u = (first + 0.5) * 0x1p-32, angle = 6.283185307179586476925 * ((second + 0.5) * 0x1p-32);
    const double r = std::sqrt(-2 * std::log(u));
    const philox::NormalPair made = philox::normal_pair(first, second);
    auto close = [](float x, double y) { return std::abs(x - y) <= 1e-7 * std::abs(y) + 1e-14; };
    return close(made.first, r * std::cos(angle)) && close(made.second, r * std::sin(angle));
  };
  for (uint32_t first :
       {0u, 1u, 0x7fffffffu, 0x80000000u, 0xb504f333u, 0xb504f334u, 0xfffffffeu, 0xffffffffu})
    for (uint32_t eighth = 0; eighth < 8; ++eighth)
      for (uint32_t step : {0u, 1u, 0x0fffffffu, 0x1ffffffeu, 0x1fffffffu})
        EXPECT_TRUE(near(first, (eighth << 29) + step)) << first << " " << eighth << " " << step;
  for (uint64_t i = 0; i < 20000; ++i)
    EXPECT_TRUE(near(philox::bits(1, 2, 3, 2 * i), philox::bits(1, 2, 3, 2 * i + 1))) << i;
  constexpr int64_t kQuads = 150;
  std::vector<float> many(4 * kQuads);
  philox::normals(7, 8, 9, 1000, kQuads, many.data());
  for (size_t i = 0; i < many.size(); ++i) EXPECT_EQ(many[i], philox::normal(7, 8, 9, 4000 + i)) << i;
}

TEST(Inits, StatisticsAndFans) {
  const Shape shape{64, 32, 3};  // 96 in, 192 out
  const double n = 64 * 32 * 3, near = 4 / std::sqrt(n);
  auto expect = [&](const Init& init, double mean, double deviation) {
    Statistics s = statistics(made(init, shape));
    EXPECT_NEAR(s.mean, mean, near * deviation);
    EXPECT_NEAR(s.deviation, deviation, near * deviation);
    return s;
  };
  expect(init::normal(0.5, 2), 2, 0.5);
  expect(init::xavier_normal(3), 0, 3 * std::sqrt(2.0 / (96 + 192)));
  expect(init::kaiming_normal(), 0, std::sqrt(2.0 / 96));
  expect(init::kaiming_normal(init::kTanhGain, Fan::out), 0, 5.0 / 3 / std::sqrt(192));
  for (auto [init, deviation] :
       {std::pair(init::xavier_uniform(), std::sqrt(2.0 / (96 + 192))),
        std::pair(init::kaiming_uniform(init::leaky_relu_gain(std::sqrt(5.0))), std::sqrt(1.0 / 3 / 96))}) {
    Statistics s = expect(init, 0, deviation);
    EXPECT_GE(s.least, -deviation * std::sqrt(3.0));
    EXPECT_NEAR(s.most, deviation * std::sqrt(3.0), 0.01 * deviation);
  }
  // The deviation of a normal one limited to [-1, 1]: 1 - 2 phi(1) / (2 Phi(1) - 1), squared.
  Statistics s = expect(init::truncated_normal(1, 0, -1, 1), 0, 0.5395);
  EXPECT_GE(s.least, -1);
  EXPECT_LE(s.most, 1);
  EXPECT_NEAR(s.most, 1, 0.01);
}

// Bounds on one side of the mean, where erf is 1 in every digit of a double: (phi(a) - phi(b)) / (Q(a) -
// Q(b)).
TEST(Inits, NormalNumbersInTheTails) {
  for (const auto& [lo, hi, mean] : {std::tuple(-9.0, -8.0, -8.121189), std::tuple(5.0, 6.0, 5.183147),
                                     std::tuple(40.0, 50.0, 40.024969), std::tuple(0.0, 1.0, 0.459862)}) {
    const Statistics s = statistics(made(init::truncated_normal(1, 0, lo, hi), {100, 200}, DType::f64));
    EXPECT_NEAR(s.mean, mean, 0.01);
    EXPECT_GE(s.least, lo);
    EXPECT_LE(s.most, hi);
    EXPECT_GT(s.most, s.least);
  }
}

TEST(Inits, OrthogonalRowsOrColumns) {
  for (const Shape& shape : {Shape{5, 12}, Shape{12, 5}, Shape{4, 3, 2}, Shape{6, 6}}) {
    const int64_t rows = shape[0], columns = numel(shape) / rows, count = std::min(rows, columns);
    std::vector<double> q = made(init::orthogonal(2), shape, DType::f64);
    for (int64_t a = 0; a < count; ++a)
      for (int64_t b = 0; b < count; ++b) {
        double dot = 0;
        for (int64_t k = 0; k < std::max(rows, columns); ++k)
          dot += rows <= columns ? q[a * columns + k] * q[b * columns + k]
                                 : q[k * columns + a] * q[k * columns + b];
        EXPECT_NEAR(dot, a == b ? 4 : 0, 1e-13) << a << " " << b;
      }
  }
}

TEST(Inits, SparseColumnsHaveAsManyZeros) {
  for (const auto& [share, zeros] :
       {std::pair(0.0, 0), std::pair(0.31, 4), std::pair(0.5, 5), std::pair(1.0, 10)}) {
    const Shape shape{10, 200};
    const std::vector<double> x = made(init::sparse(share, 0.5), shape);
    std::vector<double> rest;
    std::set<std::vector<bool>> patterns;
    for (int64_t column = 0; column < 200; ++column) {
      std::vector<bool> pattern;
      for (int64_t row = 0; row < 10; ++row) {
        const double value = x[row * 200 + column];
        pattern.push_back(value == 0);
        if (value != 0) rest.push_back(value);
      }
      EXPECT_EQ(std::count(pattern.begin(), pattern.end(), true), zeros) << column;
      patterns.insert(pattern);
    }
    EXPECT_GT(patterns.size(), zeros == 0 || zeros == 10 ? 0u : 50u);
    if (!rest.empty()) { EXPECT_NEAR(statistics(rest).deviation, 0.5, 0.05); }
  }
}

TEST(Inits, EqualOnAnyMesh) {
  const std::vector<Init> all{init::constant(3),
                              init::uniform(-1, 1),
                              init::truncated_normal(),
                              init::orthogonal(),
                              init::eye(),
                              init::dirac(),
                              init::sparse(0.4),
                              init::kaiming_uniform(),
                              init::normal(1, 0.5),
                              init::elements([](int64_t i) { return 0.5 * static_cast<double>(i); })};
  auto record = [&](State& state) {
    for (size_t i = 0; i < all.size(); ++i) state.root().parameter(str("w", i), {7, 5}, all[i]);
    state.materialize();
  };
  State whole(solo_mesh(), 7);
  record(whole);
  for (int rank = 0; rank < 3; ++rank) {
    State state(testing::mesh_of({3}, {"dp_shard"}, rank), 7);
    record(state);
    for (const Array* array : state.arrays())
      for (const auto& piece : array->pieces)
        for_each_run(piece.global, lockstep::whole(array->shape), piece.frame(array->local_shape),
                     [&](int64_t global, int64_t local, int64_t count) {
                       for (int64_t i = 0; i < count; ++i)
                         EXPECT_EQ(array->data.as<float>()[local + i],
                                   whole.array(array->fqn).data.as<float>()[global + i])
                             << array->fqn << " element " << global + i << " on rank " << rank;
                     });
  }
}

TEST(Inits, IntegersAreExactOrRefused) {
  State state(solo_mesh(), 1);
  state.root().buffer("i", DType::i64, {2}, init::constant((int64_t{1} << 53) + 1));
  state.root().buffer("u", DType::u64, {2}, init::constant(~uint64_t{0}));
  state.materialize();
  EXPECT_EQ(state.array("i").data.as<int64_t>()[1], (int64_t{1} << 53) + 1);
  EXPECT_EQ(state.array("u").data.as<uint64_t>()[1], ~uint64_t{0});
  const auto refused = [](const Init& init, DType dtype, const std::string& words) {
    State other(solo_mesh(), 1);
    try {
      other.root().buffer("w", dtype, {3}, init);
      ADD_FAILURE() << words << ": accepted";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refused(init::constant(0.5), DType::i32,
          "starts as 0.5 as i32: i32 holds only whole numbers; take a dtype that does, as f32");
  refused(init::constant(256), DType::u8, "starts as 256 as u8: u8 holds 0 to 255");
  refused(init::normal(1), DType::i32,
          "starts by numbers with a fraction, and is i32; take a dtype of floats");
}

TEST(Inits, WhatDoesNotFitTheShape) {
  auto refused = [](const Init& init, Shape shape, const std::string& words) {
    State state(solo_mesh(), 1);
    try {
      state.root().parameter("w", shape, init);
      ADD_FAILURE() << words << ": accepted";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("state \"w\" at init_test.cpp:"), std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refused(init::xavier_normal(), {3}, "starts by a rule for weights of 2 or more dims, and has 1");
  refused(init::orthogonal(), {}, "starts by a rule for weights of 2 or more dims, and has 0");
  refused(init::eye(), {2, 2, 2}, "starts as an identity, which has 2 dims, and has 3");
  refused(init::dirac(2), {3, 2}, "starts as a dirac of 2 groups, which do not divide 3 outputs");
  refused(init::sparse(0.5), {3},
          "starts with zeros in each column of a matrix, which has 2 dims, and has 1");
  refused(init::sparse(1.5), {3, 2}, "starts with a share of zeros of 1.5, which must be between 0 and 1");
  refused(init::uniform(2, 1), {3}, "starts uniform between 2 and 1; the lower comes first");
  refused(init::uniform(0, std::numeric_limits<double>::infinity()), {3},
          "starts uniform between 0 and inf; the lower comes first, and both are finite");
  refused(
      init::uniform(std::nextafter(1, 0), 1), {3},
      "starts uniform from 0.9999999999999999 to before 1, where no number of f32 exists; move the bounds "
      "apart");
  refused(init::truncated_normal(0), {3},
          "starts normal with deviation 0 between -2 and 2; the deviation is positive");
  refused(init::truncated_normal(1e-300, 0, 1e100, 2e100), {3},
          "starts normal around 0 with deviation 1e-300 between 1e+100 and 2e+100, where no number exists");
  refused(init::elements({}), {3}, "starts by a function that is empty");
}

// A far device that draws by itself: its memory holds every byte inverted.
class DrawingDevice : public conformance::FarDevice, public Draws {
 public:
  Draws* draws() override { return this; }
  void draw(const Draw& draw, const std::vector<DrawRun>& runs) override {
    for (const DrawRun& run : runs)
      for (int64_t k = 0; k < run.count; ++k, ++drawn) {
        const uint64_t i = run.index + static_cast<uint64_t>(k);
        const bool normal = draw.kind == Draw::Kind::normal;
        const double number = normal ? philox::normal(draw.seed, draw.stream, 0, i)
                                     : philox::uniform(philox::bits(draw.seed, draw.stream, 0, i));
        const float value = std::min(static_cast<float>(draw.base + draw.scale * number), draw.most);
        uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        bits = ~bits;
        std::memcpy(run.data + k, &bits, sizeof bits);
      }
  }
  int64_t drawn = 0;
};

// Only what a device cannot draw passes the host, and the state is the same.
TEST(Inits, ADeviceDrawsThemInItsMemory) {
  for (int64_t rank : {0, 1, 2}) {
    DrawingDevice far;
    std::string hashes[2];
    for (const bool there : {false, true}) {
      const Mesh mesh{{3}, {"tp"}};
      Layout rows, columns;
      rows.set(0, Shard(0)), columns.set(0, Shard(1));
      std::deque<Array> arrays;
      auto add = [&](const char* name, DType dtype, Shape shape, const Layout& layout, const Init& init) {
        arrays.push_back(make_array(name, dtype, shape, layout, mesh, rank));
        if (there) arrays.back().on(far);
        fill(arrays.back(), init, 42);
        if (there) arrays.back().on(far);
      };
      add("rows", DType::f32, {7, 5}, rows, init::normal(0.02));
      add("columns", DType::f32, {9, 7}, columns, init::kaiming_uniform());
      add("moved", DType::f32, {11}, {}, init::normal(2, 0.5));
      add("far", DType::f32, {301}, {}, init::uniform(1e6, 1e6 + 1));
      add("small", DType::bf16, {9, 4}, columns, init::normal(0.02));
      add("clamped", DType::f32, {13}, {}, init::truncated_normal());
      add("ones", DType::f32, {3}, {}, init::ones());
      StateHash sum;
      for (const Array& array : arrays) sum.add(hash_elements(array));
      hashes[there] = sum.hex();
      if (there) {
        EXPECT_EQ(far.drawn, arrays[0].local_numel() + arrays[1].local_numel() + 11 + 301);
        arrays[0].fetch();
        EXPECT_NE(arrays[0].data.as<float>()[0], 0);
      }
    }
    EXPECT_EQ(hashes[0], hashes[1]) << rank;
  }
}

TEST(Inits, AStateOfADeviceStartsThere) {
  DrawingDevice far;
  std::string hashes[2];
  for (const bool there : {false, true}) {
    State state(solo_mesh(), 42);
    state.root().parameter("w", {33, 7}, init::normal(0.02));
    state.root().parameter("b", {7}, init::ones());
    if (there) state.allocate(), state.live_on(far);
    state.materialize();
    std::vector<const Array*> all;
    for (const Array* array : state.arrays()) all.push_back(array);
    hashes[there] = state_hash(all, solo_mesh());
  }
  EXPECT_EQ(far.drawn, 33 * 7);
  EXPECT_EQ(hashes[0], hashes[1]);
}

}  // namespace
}  // namespace lockstep
