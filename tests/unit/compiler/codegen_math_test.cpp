// Vector math of generated kernels against double precision: units in the last place over wide ranges,
// special values exactly, and the same bits in the body and in the tail of a loop, on every instruction set.
#include <bit>
#include <cstring>
#include <limits>

#include "tests/unit/compiler/kernel_case.h"

namespace lockstep {

using namespace compiler;

namespace {

struct Function {
  OpId op;
  double (*exact)(double);
  double ulps, lo, hi;
};
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double rsqrt(double x) { return 1 / std::sqrt(x); }
const Function kFunctions[] = {
    {"exp", std::exp, 1.5, -110, 95},   {"expm1", std::expm1, 2.5, -30, 95},
    {"log", std::log, 1.5, 0, 1e38},    {"log1p", std::log1p, 2.5, -1, 1e9},
    {"tanh", std::tanh, 3, -12, 12},    {"sigmoid", sigmoid, 3, -100, 100},
    {"erf", std::erf, 3, -5, 5},        {"sin", std::sin, 1, -1e6, 1e6},
    {"cos", std::cos, 1, -1e6, 1e6},    {"sqrt", std::sqrt, 0.51, 0, 1e30},
    {"rsqrt", rsqrt, 1.6, 1e-30, 1e30}, {"round", std::nearbyint, 0.5, -1e4, 1e4},
    {"atan", std::atan, 1, -1e3, 1e3},
};

Graph unary(OpId op, DType dtype, int64_t n) {
  Graph body;
  body.mesh = Mesh{{}, {}};
  ValueId x = body.add_input(InputKind::value, "x", dtype, {n});
  body.add_output(OutputKind::value, "y", body.append(op, {x}, {}, {{dtype, {n}}})[0]);
  return body;
}

// Distance in units of the last place of a float near `want` (the spacing below the smallest normal number is
// that of subnormals).
double ulps_off(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  float rounded = static_cast<float>(want);
  if (std::isinf(rounded))
    return got == rounded ? 0 : std::fabs(want) < 3.4028235677973366e38 * (1 + 1e-6) ? 0 : 1e30;
  int exponent = std::max(std::ilogb(want == 0 ? 1e-45 : want), -126);
  return std::fabs(static_cast<double>(got) - want) / std::ldexp(1.0, exponent - 23);
}

// Every exponent, both signs, plus even steps over the range.
std::vector<float> probes(const Function& f, size_t count) {
  std::vector<float> out{0.0f,
                         -0.0f,
                         1.0f,
                         -1.0f,
                         std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN(),
                         1e-45f,
                         -1e-45f,
                         1.17549435e-38f,
                         3.4028235e38f,
                         -3.4028235e38f,
                         0.5f,
                         88.72283f,
                         88.72284f,
                         -87.33655f,
                         -103.97208f,
                         -104.0f,
                         89.5f};
  for (uint32_t i = 0; out.size() < count / 2; ++i) {
    uint32_t bits = philox::bits(3, 5, 0, i);
    float x = std::bit_cast<float>(bits);
    out.push_back(std::isnan(x) ? std::numeric_limits<float>::quiet_NaN() : x);
  }
  for (size_t i = 0; out.size() < count; ++i)
    out.push_back(
        static_cast<float>(f.lo + (f.hi - f.lo) * static_cast<double>(i) / (static_cast<double>(count) / 2)));
  return out;
}

TEST(codegen_math, is_accurate_and_the_same_on_every_instruction_set) {
  constexpr int64_t kCount = 200003;  // not a multiple of 16: the last elements go through the tail
  ScratchFolder cache;
  std::vector<KernelSource> sources;
  std::vector<Graph> bodies;
  for (const auto& f : kFunctions) {
    bodies.push_back(unary(f.op, DType::f32, kCount));
    sources.push_back(generate_kernel(bodies.back()));
  }
  auto names = sources;
  std::vector<HostTensor> first;
  for (const char* isa : {"avx512", "avx2", "plain"}) {
    if (static_cast<int>(parse_isa("auto")) > static_cast<int>(std::string(isa) == "avx512" ? Isa::avx512
                                                               : std::string(isa) == "avx2" ? Isa::avx2
                                                                                            : Isa::plain))
      continue;
    KernelLibrary library = compile_kernels(sources, {.threads = 2, .isa = isa, .cache_dir = cache.path("")});
    for (size_t k = 0; k < std::size(kFunctions); ++k) {
      const Function& f = kFunctions[k];
      auto x = probes(f, kCount);
      x[kCount - 1] = x[40];  // the tail and the body see the same number
      HostTensor in = make_tensor(DType::f32, {kCount});
      std::memcpy(in.data.data(), x.data(), x.size() * 4);
      HostTensor out = run_kernel(library, names[k].name, bodies[k], {in})[0];
      const float* y = reinterpret_cast<const float*>(out.data.data());
      EXPECT_EQ(std::bit_cast<uint32_t>(y[kCount - 1]), std::bit_cast<uint32_t>(y[40]))
          << f.op << " in the tail";
      if (first.size() > k) {
        EXPECT_TRUE(same_bytes(out, first[k])) << f.op << " on " << isa;
        continue;
      }
      first.push_back(out);
      double worst = 0;
      float at = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        double off = ulps_off(y[i], f.exact(static_cast<double>(x[i])));
        if (off > worst) worst = off, at = x[i];
      }
      EXPECT_LE(worst, f.ulps) << f.op << " at " << at;
      std::string key = str(f.op, "_ulps_x100");
      RecordProperty(key, static_cast<int>(worst * 100));
      for (size_t i : {size_t{0}, size_t{1}})
        EXPECT_TRUE(f.exact(x[i]) != 0 || std::signbit(y[i]) == std::signbit(f.exact(x[i])))
            << f.op << " of zero " << i;
    }
  }
}

TEST(codegen_math, random_numbers_are_philox) {
  Graph body;
  body.mesh = Mesh{{}, {}};
  std::vector<ValueId> in;
  for (const char* name : {"seed", "step", "sample"})
    in.push_back(body.add_input(InputKind::value, name, DType::i64, {}));
  body.add_output(OutputKind::value, "y",
                  body.append("rng_bits", in, {{"shape", Shape{5, 7}}, {"stream", int64_t{-3}}},
                              {{DType::u32, {5, 7}}})[0]);
  ScratchFolder cache;
  KernelSource source = generate_kernel(body);
  KernelLibrary library = compile_kernels({source}, {.cache_dir = cache.path("")});
  std::vector<HostTensor> inputs{from_ints(DType::i64, {}, {1337}),
                                 from_ints(DType::i64, {}, {int64_t{1} << 33}),
                                 from_ints(DType::i64, {}, {11})};
  HostTensor out = run_kernel(library, source.name, body, inputs)[0];
  for (int64_t i = 0; i < out.size(); ++i)
    ASSERT_EQ(static_cast<uint32_t>(out.int_at(i)),
              philox::bits(1337, static_cast<uint64_t>(int64_t{-3}), uint64_t{1} << 33,
                           static_cast<uint64_t>(11 * 7 + i)))
        << i;
}

}  // namespace
}  // namespace lockstep
