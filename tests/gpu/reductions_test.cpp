// The GPU's Reductions against the CPU's: equal bits, at every alignment, and again from a captured graph.
#include "compiler/codegen/cuda/sums/reductions.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "compiler/codegen/sums/cpu_reductions.h"
#include "compiler/codegen/sums/exact_norm.h"
#include "compiler/codegen/sums/halves.h"
#include "core/base/text.h"

namespace lockstep::compiler::cuda {
namespace {

constexpr float kPoison = -77.25f;

class GpuReductions : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!available(&why)) GTEST_SKIP() << why;
    device = open_device(0);
    device->enter();
    stream = device->make_stream();
    gpu = make_reductions(*device);
  }
  template <class T>
  Buffer upload(const std::vector<T>& values) {
    Buffer buffer(std::max<size_t>(values.size() * sizeof(T), 8), device->memory());
    if (!values.empty()) copy_to_device(*device, buffer.data(), values.data(), values.size() * sizeof(T));
    return buffer;
  }
  template <class T>
  std::vector<T> download(const Buffer& buffer, size_t count) {
    stream->synchronize();
    std::vector<T> values(count);
    if (count) copy_to_host(*device, values.data(), buffer.data(), count * sizeof(T));
    return values;
  }
  std::vector<float> random(size_t count) {
    std::vector<float> values(count);
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int> scale(-20, 20);
    for (float& v : values) v = std::ldexp(normal(rng), scale(rng));
    return values;
  }
  // The same memory, as rounded bf16 in its first half.
  static void to_halves(std::vector<float>& values) {
    std::vector<uint16_t> halves(values.size());
    narrow(DType::bf16, values.data(), halves.data(), static_cast<int64_t>(values.size()));
    std::fill(values.begin(), values.end(), kPoison);
    if (!halves.empty()) std::memcpy(values.data(), halves.data(), halves.size() * sizeof(uint16_t));
  }
  // Bits, so that -0 and NaN count.
  static void expect_equal(const std::vector<float>& got, const std::vector<float>& want,
                           const std::string& what) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
          << what << ", element " << i << ": " << got[i] << " " << want[i];
  }

  std::shared_ptr<CudaDevice> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Reductions> gpu, cpu = make_cpu_reductions(1);
  std::unique_ptr<Stream> host = inline_stream();
  std::mt19937 rng{7};
};

TEST_F(GpuReductions, accumulates_like_the_cpu) {
  const std::vector<std::pair<int64_t, int64_t>> places{{0, 1},       {3, 5},         {8, 8191},
                                                        {8200, 8192}, {16393, 70001}, {86395, 3}};
  const int64_t elements = 86400;
  for (size_t lefts : {0, 1, 2, 3, 4, 8, 10})
    for (int64_t shift : {0, 1, 3})       // of the partials
      for (bool aligned : {true, false})  // gradients
        for (auto [in_place, dtype] :
             {std::pair{true, DType::f32}, {false, DType::f32}, {true, DType::bf16}, {false, DType::bf16}}) {
          if (in_place && lefts == 0) continue;
          const std::string what = str(lefts, " lefts, shift ", shift, ", aligned ", aligned, ", in place ",
                                       in_place, ", ", name(dtype));
          std::vector<std::vector<float>> gradients, partials;
          std::vector<Buffer> on_gpu;
          std::vector<Reductions::Run> runs, gpu_runs;
          for (auto [at, count] : places) {
            const size_t off = aligned ? static_cast<size_t>(at + shift) % 4 : gradients.size() % 4;
            gradients.push_back(random(static_cast<size_t>(count) + off));
            if (dtype == DType::bf16) to_halves(gradients.back());
            on_gpu.push_back(upload(gradients.back()));
            const size_t begin = off * size_of(dtype);
            runs.push_back({at, reinterpret_cast<std::byte*>(gradients.back().data()) + begin, count, dtype});
            gpu_runs.push_back({at, on_gpu.back().data() + begin, count, dtype});
          }
          std::vector<const float*> left, gpu_left;
          for (size_t l = 0; l < lefts; ++l) {
            partials.push_back(random(static_cast<size_t>(elements + shift)));
            on_gpu.push_back(upload(partials.back()));
            left.push_back(partials.back().data() + shift);
            gpu_left.push_back(on_gpu.back().as<float>() + shift);
          }
          if (!in_place) {
            partials.push_back(std::vector<float>(static_cast<size_t>(elements + shift), kPoison));
            on_gpu.push_back(upload(partials.back()));
          }
          gpu->accumulate(gpu_runs, gpu_left, on_gpu.back().as<float>() + shift, *stream);
          const auto got = download<float>(on_gpu.back(), partials.back().size());
          cpu->accumulate(runs, left, partials.back().data() + shift, *host);
          expect_equal(got, partials.back(), what);
        }
}

struct Case {
  int64_t rows, width;
};
const std::vector<Case> kCases{{1, 1},    {5, 1},    {100001, 1}, {0, 5},    {3, 0},     {1001, 2},  {777, 3},
                               {33, 5},   {129, 16}, {300, 64},   {31, 65},  {17, 127},  {40, 128},  {9, 129},
                               {21, 768}, {7, 3072}, {3, 4096},   {3, 4097}, {2, 50304}, {1, 300001}};

TEST_F(GpuReductions, sums_trees_and_squares_rows) {
  for (const std::vector<int>& merges : std::vector<std::vector<int>>{
           {0}, {0, 1}, {0, 1, 1}, {0, 1, 0, 2}, {0, 0, 0, 3}, {0, 1, 0, 2, 1}, {0, 1, 0, 2, 0, 1, 0, 3}})
    for (auto [shift, halves] : {std::pair{size_t{0}, false}, {1, false}, {0, true}, {1, true}}) {
      std::vector<std::vector<float>> keep;
      std::vector<Buffer> on_gpu;
      std::vector<std::vector<double>> squares;
      std::vector<Reductions::Sum> sums, gpu_sums;
      keep.reserve(1000), squares.reserve(1000), on_gpu.reserve(3000);
      // All cases three times over, so that more tensors come than one launch holds; every third without
      // squares.
      for (int again = 0; again < 3; ++again)
        for (const Case& c : kCases) {
          const auto n = static_cast<size_t>(c.rows * c.width);
          Reductions::Sum sum{{}, merges, c.rows, c.width, nullptr, nullptr}, gpu_sum = sum;
          for (size_t s = 0; s < merges.size(); ++s) {
            keep.push_back(random(n + shift * (s % 4)));
            const DType dtype =
                halves && (s + static_cast<size_t>(again)) % 2 == 0 ? DType::bf16 : DType::f32;
            if (dtype == DType::bf16) to_halves(keep.back());
            on_gpu.push_back(upload(keep.back()));
            const size_t begin = shift * (s % 4) * size_of(dtype);
            sum.sources.emplace_back(reinterpret_cast<std::byte*>(keep.back().data()) + begin, dtype);
            gpu_sum.sources.emplace_back(on_gpu.back().data() + begin, dtype);
          }
          keep.push_back(std::vector<float>(n, kPoison));
          sum.out = keep.back().data();
          on_gpu.push_back(upload(keep.back()));
          gpu_sum.out = on_gpu.back().as<float>();
          squares.push_back(std::vector<double>(static_cast<size_t>(c.rows), kPoison));
          on_gpu.push_back(upload(squares.back()));
          if (again < 2)
            sum.row_squares = squares.back().data(), gpu_sum.row_squares = on_gpu.back().as<double>();
          sums.push_back(sum), gpu_sums.push_back(gpu_sum);
        }
      gpu->sum(gpu_sums, *stream);
      cpu->sum(sums, *host);
      for (size_t i = 0; i < sums.size(); ++i) {
        const auto rows = static_cast<size_t>(sums[i].rows), n = rows * static_cast<size_t>(sums[i].width);
        const std::string what = str(merges.size(), " sources, ", sums[i].rows, " x ", sums[i].width,
                                     ", shift ", shift, halves ? ", bf16 among them" : "");
        const size_t buffers = merges.size() + 2;
        expect_equal(download<float>(on_gpu[i * buffers + merges.size()], n),
                     std::vector<float>(sums[i].out, sums[i].out + n), what);
        const auto got = download<double>(on_gpu[i * buffers + merges.size() + 1], rows);
        for (size_t r = 0; r < rows; ++r) {
          if (!sums[i].row_squares) {
            ASSERT_EQ(got[r], kPoison) << what;
            continue;
          }
          long double want = 0;
          for (int64_t j = 0; j < sums[i].width; ++j) {
            const long double x = sums[i].out[static_cast<int64_t>(r) * sums[i].width + j];
            want += x * x;
          }
          ASSERT_LE(std::abs(got[r] - static_cast<double>(want)), 1e-15 * static_cast<double>(want))
              << what << ", row " << r;
        }
      }
    }
}

// A row's squares are a function of the row: not of where it lies, of how many sources made it, or of the
// rows beside it.
TEST_F(GpuReductions, squares_depend_on_the_row_alone) {
  for (const Case& c : kCases) {
    if (c.rows * c.width == 0) continue;
    const auto n = static_cast<size_t>(c.rows * c.width), rows = static_cast<size_t>(c.rows);
    const std::vector<float> values = random(n);
    const Buffer zeros = upload(std::vector<float>(n, 0.0f));
    const Buffer out(n * sizeof(float) + 64, device->memory()),
        squares(rows * sizeof(double), device->memory());
    std::vector<double> first;
    auto run = [&](std::vector<Reductions::Sum> sums, const std::string& what) {
      gpu->sum(sums, *stream);
      const auto got = download<double>(squares, rows);
      device->zero(squares.data(), squares.bytes(), *stream);
      if (first.empty()) first = got;
      for (size_t r = 0; r < rows; ++r)
        ASSERT_EQ(std::bit_cast<uint64_t>(got[r]), std::bit_cast<uint64_t>(first[r]))
            << what << ", " << c.rows << " x " << c.width << ", row " << r;
    };
    for (size_t shift = 0; shift < 4; ++shift) {
      std::vector<float> shifted(shift, kPoison);
      shifted.insert(shifted.end(), values.begin(), values.end());
      const Buffer buffer = upload(shifted);
      float* from = buffer.as<float>() + shift;
      const std::string what = str("shift ", shift);
      run({{{from}, {0}, c.rows, c.width, out.as<float>(), squares.as<double>()}}, what + ", one source");
      run({{{from}, {0}, c.rows, c.width, from, squares.as<double>()}}, what + ", in place");
      run({{{from}, {0}, c.rows, c.width, nullptr, squares.as<double>()}}, what + ", squares alone");
      run({{{from, zeros.as<float>()},
            {0, 1},
            c.rows,
            c.width,
            out.as<float>() + 4 - shift,
            squares.as<double>()}},
          what + ", two sources");
      // As ranks would share the rows.
      std::vector<Reductions::Sum> parts;
      for (int64_t row = 0, part = 1; row < c.rows;
           row += part, part = std::min(2 * part + 1, std::max<int64_t>(c.rows - row, 1))) {
        part = std::min(part, c.rows - row);
        parts.push_back({{from + row * c.width},
                         {0},
                         part,
                         c.width,
                         out.as<float>() + row * c.width,
                         squares.as<double>() + row});
      }
      run(parts, what + ", rows apart");
    }
  }
}

// A gradient in bf16 that stays where it is has the squares of its sum in f32.
TEST_F(GpuReductions, squares_alone_of_halves) {
  for (const Case& c : kCases) {
    std::vector<float> values = random(static_cast<size_t>(c.rows * c.width));
    to_halves(values);
    const Buffer halves = upload(values), out(values.size() * sizeof(float) + 64, device->memory());
    const std::vector<double> poison(static_cast<size_t>(c.rows), kPoison);
    const Buffer beside = upload(poison), alone = upload(poison);
    Reductions::Sum sum{
        {{halves.data(), DType::bf16}}, {0}, c.rows, c.width, out.as<float>(), beside.as<double>()};
    gpu->sum({&sum, 1}, *stream);
    sum.out = nullptr, sum.row_squares = alone.as<double>();
    gpu->sum({&sum, 1}, *stream);
    EXPECT_EQ(download<double>(alone, poison.size()), download<double>(beside, poison.size()))
        << c.rows << " x " << c.width;
    expect_equal(download<float>(halves, values.size()), values, "the gradient");
  }
}

TEST_F(GpuReductions, limbs_and_norm_have_the_bits_of_the_cpu) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::vector<double>> sets{{},
                                        {0.0},
                                        {-0.0, 5e-324, 1e-310, 0x1p-1022},
                                        {0x1p-150},
                                        {0x1.fffffffffffffp-151, 0x1p-149},
                                        {0x1.fffffffffffffp-98, 0x1.8p-202},
                                        {0x1.fffffffffffffp129},
                                        {0x1p129, 0x1p129},
                                        {0x1p130},
                                        {1, inf, 2},
                                        {nan, 1, inf},
                                        {1, 0x1p-53},
                                        {1, 0x1p-53, 0x1p-150},
                                        {0x1.0000000000001p0, 0x1p-53},
                                        {0x1p80, 0x1p27, 0x1p-120}};
  std::uniform_real_distribution<double> mantissa(1, 2);
  for (size_t count : {1, 2, 7, 255, 8193, 100003})
    for (int spread : {0, 10, 120})
      for (int middle : {-140, -60, 0, 5}) {
        std::uniform_int_distribution<int> exponent(middle - spread, middle + spread);
        std::vector<double> set(count);
        for (double& v : set) v = std::ldexp(mantissa(rng), std::min(exponent(rng), 110));
        sets.push_back(set);
      }
  const Buffer words = upload(std::vector<int64_t>(8, 12345)), norm = upload(std::vector<float>{kPoison});
  for (const auto& set : sets) {
    // In up to three arrays, one of them empty.
    const Buffer data = upload(set);
    const auto n = static_cast<int64_t>(set.size()), cut = n / 3;
    const std::vector<Reductions::Doubles> addends{
        {data.as<double>(), cut}, {nullptr, 0}, {data.as<double>() + cut, n - cut}};
    gpu->limbs(addends, words.as<int64_t>(), *stream);
    gpu->norm_of_limbs(words.as<int64_t>(), norm.as<float>(), *stream);
    Limbs want;
    want.add(set);
    want.normalise();
    ASSERT_EQ(download<int64_t>(words, 8), std::vector<int64_t>(want.words, want.words + 8))
        << set.size() << " values from " << (n ? set[0] : 0);
    const float got = download<float>(norm, 1)[0], expected = want.norm();
    if (std::isnan(expected))
      ASSERT_TRUE(std::isnan(got));
    else
      ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(expected))
          << set.size() << " values from " << (n ? set[0] : 0);
  }
  // Words of ranks added as integers: digits of more than 40 bits.
  for (int i = 0; i < 200; ++i) {
    Limbs sum;
    for (int w = 0; w < 6; ++w)
      sum.words[w] = static_cast<int64_t>(rng() & 1 ? uint64_t{rng()} << 20 | rng() : 0) >> (i % 50);
    const Buffer given = upload(std::vector<int64_t>(sum.words, sum.words + 8));
    gpu->norm_of_limbs(given.as<int64_t>(), norm.as<float>(), *stream);
    ASSERT_EQ(std::bit_cast<uint32_t>(download<float>(norm, 1)[0]), std::bit_cast<uint32_t>(sum.norm())) << i;
  }
  const Buffer negative = upload(std::vector<double>{1, -1});
  gpu->limbs(std::vector<Reductions::Doubles>{{negative.as<double>(), 2}}, words.as<int64_t>(), *stream);
  gpu->norm_of_limbs(words.as<int64_t>(), norm.as<float>(), *stream);
  EXPECT_TRUE(std::isnan(download<float>(norm, 1)[0]));
}

TEST_F(GpuReductions, copies_bytes_at_any_place_and_adds_integers) {
  std::vector<unsigned char> from(300000);
  for (auto& byte : from) byte = static_cast<unsigned char>(rng());
  const Buffer source = upload(from);
  const Buffer target = upload(std::vector<unsigned char>(400000, 0xee));
  std::vector<unsigned char> want(400000, 0xee);
  std::vector<Reductions::Copy> copies;
  size_t at = 0;
  for (int i = 0; i < 150; ++i) {
    const size_t begin = rng() % 1000, bytes = i == 7 ? 100003 : i % 10 == 0 ? 0 : 1 + rng() % 500;
    at += rng() % 40 / 4 * (i % 2 ? 4 : 1);
    std::copy_n(from.begin() + static_cast<int64_t>(begin), bytes, want.begin() + static_cast<int64_t>(at));
    copies.push_back({target.data() + at, source.data() + begin, bytes});
    at += bytes;
  }
  copies.push_back({source.data(), source.data(), 1000});
  ASSERT_LT(at, want.size());
  gpu->copy(copies, *stream);
  ASSERT_EQ(download<unsigned char>(target, want.size()), want);

  std::vector<int64_t> totals(1001), addend(1001);
  for (size_t i = 0; i < totals.size(); ++i)
    totals[i] = int64_t{1} << (i % 60), addend[i] = -static_cast<int64_t>(i);
  const Buffer gpu_totals = upload(totals), gpu_addend = upload(addend);
  gpu->add(gpu_totals.as<int64_t>(), gpu_addend.as<int64_t>(), 1001, *stream);
  gpu->add(gpu_totals.as<int64_t>(), gpu_addend.as<int64_t>(), 0, *stream);
  for (size_t i = 0; i < totals.size(); ++i) totals[i] += addend[i];
  EXPECT_EQ(download<int64_t>(gpu_totals, totals.size()), totals);
}

TEST_F(GpuReductions, checksums_are_those_of_the_cpu) {
  std::vector<Buffer> kept;
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<Reductions::Bytes> far, near;
  for (int part = 0; part < 130; ++part) {  // several tables
    const size_t sizes[] = {0, 1, 7, 8, 65535, 65536, 65537, 131071, 1000003, 24};
    std::vector<uint8_t> one(sizes[static_cast<size_t>(part) % std::size(sizes)]);
    for (auto& byte : one) byte = static_cast<uint8_t>(rng());
    bytes.push_back(one);
    kept.push_back(upload(one));
    far.push_back({kept.back().data(), one.size()});
  }
  for (const auto& one : bytes) near.push_back({one.data(), one.size()});
  Buffer sums = upload(std::vector<uint64_t>(far.size(), 77)), yes = upload(std::vector<int64_t>{1}),
         no = upload(std::vector<int64_t>{0});
  const int64_t wanted = 1;
  std::vector<uint64_t> want(near.size());
  cpu->checksums(near, want.data(), &wanted, *host);
  for (int run = 0; run < 2; ++run) {
    gpu->checksums(far, sums.as<uint64_t>(), yes.as<int64_t>(), *stream);
    EXPECT_EQ(download<uint64_t>(sums, want.size()), want);
  }
  gpu->checksums(far, sums.as<uint64_t>(), no.as<int64_t>(), *stream);
  EXPECT_EQ(download<uint64_t>(sums, want.size()), std::vector<uint64_t>(want.size(), 0));
}

TEST_F(GpuReductions, replays_from_a_graph) {
  const int64_t rows = 3, width = 9001, n = rows * width;
  const Buffer gradient = upload(random(static_cast<size_t>(n))),
               partial = upload(random(static_cast<size_t>(n)));
  const Buffer out(static_cast<size_t>(n) * 4, device->memory()), squares(rows * 8, device->memory());
  const Buffer words(64, device->memory()), norm(4, device->memory()), copied(4, device->memory()),
      count(8, device->memory());
  const Buffer one = upload(std::vector<int64_t>{1});
  auto step = [&](Reductions& on, Stream& queue, float* g, float* p, float* o, double* sq, int64_t* w,
                  float* nm, float* c) {
    const float* left[] = {p};
    on.accumulate(std::vector<Reductions::Run>{{0, g, n}}, left, p, queue);
    on.sum(std::vector<Reductions::Sum>{{{p, g}, {0, 1}, rows, width, o, sq}}, queue);
    on.limbs(std::vector<Reductions::Doubles>{{sq, rows}}, w, queue);
    on.norm_of_limbs(w, nm, queue);
    on.copy(std::vector<Reductions::Copy>{{c, nm, 4}}, queue);
  };
  auto g = download<float>(gradient, static_cast<size_t>(n)),
       p = download<float>(partial, static_cast<size_t>(n));
  // Nothing ran before: kernels are compiled and scratch is taken while the graph is recorded.
  auto graph = device->capture(*stream, [&] {
    step(*gpu, *stream, gradient.as<float>(), partial.as<float>(), out.as<float>(), squares.as<double>(),
         words.as<int64_t>(), norm.as<float>(), copied.as<float>());
    gpu->add(count.as<int64_t>(), one.as<int64_t>(), 1, *stream);
  });
  ASSERT_TRUE(graph);
  expect_equal(download<float>(partial, static_cast<size_t>(n)), p, "before the graph runs");
  std::vector<float> o(static_cast<size_t>(n));
  for (int replay = 1; replay <= 3; ++replay) {
    graph->launch(*stream);
    double sq[rows];
    int64_t w[8];
    float nm = 0, c = 0;
    step(*cpu, *host, g.data(), p.data(), o.data(), sq, w, &nm, &c);
    expect_equal(download<float>(partial, static_cast<size_t>(n)), p, str("partial, replay ", replay));
    expect_equal(download<float>(out, static_cast<size_t>(n)), o, str("sum, replay ", replay));
    Limbs want;  // of the GPU's own squares
    want.add(download<double>(squares, rows));
    want.normalise();
    EXPECT_EQ(download<float>(copied, 1)[0], want.norm());
    EXPECT_NEAR(want.norm(), nm, nm * 1e-6);
    EXPECT_EQ(download<int64_t>(count, 1)[0], replay);
  }
}

}  // namespace
}  // namespace lockstep::compiler::cuda
