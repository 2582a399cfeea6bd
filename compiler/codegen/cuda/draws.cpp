// Draws through NVRTC: the kernel's text and its launches.
#include "compiler/codegen/cuda/draws.h"

#include <algorithm>
#include <mutex>

#include "compiler/codegen/cuda/launch_table.h"
#include "compiler/codegen/cuda/source/module.h"

namespace lockstep::compiler::cuda {

namespace {
// core/base/philox.h and core/base/normal_pair.h, operation by operation: IEEE 754 rounds each one in the
// same way.
constexpr const char* kDraws = R"(
typedef unsigned int Half;
typedef unsigned long long Word;
struct Span { float* data; long long count; Word index; };

static __device__ __forceinline__ void philox(Half (&c)[4], Word key) {
  Half k0 = (Half)key, k1 = (Half)(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const Word p0 = (Word)0xD2511F53u * c[0], p1 = (Word)0xCD9E8D57u * c[2];
    c[0] = (Half)(p1 >> 32) ^ c[1] ^ k0;
    c[1] = (Half)p1;
    c[2] = (Half)(p0 >> 32) ^ c[3] ^ k1;
    c[3] = (Half)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}
static __device__ __forceinline__ double of_bits(Word bits) { return __longlong_as_double((long long)bits); }
static __device__ __forceinline__ double ln(Word bits) {
  const long long e = (long long)(bits - 0x3FE6A09E667F3BCDull) >> 52;
  const double m = of_bits(bits - ((Word)e << 52));
  const double whole = of_bits(0x4338000000000000ull + (Word)e) - 6755399441055744.0;
  const double s = (m - 1) / (m + 1), z = s * s;
  double p = 1.0 / 23;
#pragma unroll
  for (int odd = 21; odd > 1; odd -= 2) p = p * z + 1.0 / odd;
  return whole * 0x1.62e42fefa39efp-1 + (2 * s + 2 * s * (z * p));
}
static __device__ __forceinline__ void sine_and_cosine(double x, double& sine, double& cosine) {
  const double over[18] = {1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                           1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1 / 479001600., 1 / 6227020800.,
                           1 / 87178291200., 1 / 1307674368000., 1 / 20922789888000., 1 / 355687428096000.};
  const double z = x * x;
  double s = over[17], c = over[16];
#pragma unroll
  for (int n = 15; n > 1; n -= 2) {
    s = z * s + (n % 4 == 1 ? over[n] : -over[n]);
    c = z * c + (n % 4 == 1 ? over[n - 1] : -over[n - 1]);
  }
  sine = x + x * (z * s);
  cosine = 1 + z * c;
}
static __device__ __forceinline__ Word bits_of(double x) { return (Word)__double_as_longlong(x); }
static __device__ __forceinline__ void normal_pair(Half one, Half other, float& first, float& second) {
  const double u = ((double)one + 0.5) * 0x1p-32, v = ((double)other + 0.5) * 0x1p-32;
  const double r = sqrt(-2.0 * ln(bits_of(u)));
  const int quarters = (int)((other >> 29) + 1) >> 1, turn = quarters & 3;
  double sine = 0, cosine = 0;
  sine_and_cosine(6.283185307179586476925 * (v - quarters * 0.25), sine, cosine);
  const double along = turn & 1 ? sine : cosine, across = turn & 1 ? cosine : sine;
  first = (float)(r * (turn == 1 || turn == 2 ? -along : along));
  second = (float)(r * (turn >= 2 ? -across : across));
}
extern "C" __global__ void draws(const Span* spans, Word count, Word seed, Word stream, double base, double scale,
                                 float most, int normal) {
  const Word key = seed * 0x9E3779B97F4A7C15ull ^ stream;
  for (Word s = blockIdx.x; s < count; s += gridDim.x) {
    const Span span = spans[s];
    const Word end = span.index + (Word)span.count;
    for (Word quad = (span.index >> 2) + threadIdx.x; quad << 2 < end; quad += blockDim.x) {
      Half words[4] = {(Half)quad, (Half)(quad >> 32), 0, 0};
      philox(words, key);
      float made[4];
      if (normal) {
        normal_pair(words[0], words[1], made[0], made[1]);
        normal_pair(words[2], words[3], made[2], made[3]);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) made[j] = (float)(words[j] >> 8) * 0x1p-24f;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const Word i = (quad << 2) + j;
        const double value = scale * made[j];
        const float rounded = (float)(normal && base == 0 ? value : base + value);
        if (i >= span.index && i < end) span.data[i - span.index] = rounded > most ? most : rounded;
      }
    }
  }
}
)";
}  // namespace

std::string draws_source() { return kDraws; }

std::vector<DrawRun> spans_of(const std::vector<DrawRun>& runs) {
  std::vector<DrawRun> out;
  for (const DrawRun& run : runs)
    for (int64_t at = 0; at < run.count;) {
      const uint64_t index = run.index + static_cast<uint64_t>(at);
      const int64_t count = std::min(kDrawElements - static_cast<int64_t>(index & 3), run.count - at);
      out.push_back({run.data + at, count, index});
      at += count;
    }
  return out;
}

namespace {
constexpr size_t kSpansOfALaunch = size_t{1} << 16;
constexpr unsigned kDrawBlocks = 8;

class CudaDraws : public Draws {
 public:
  CudaDraws(CudaDevice& device, std::string cache_dir)
      : device_(device), cache_dir_(std::move(cache_dir)), table_(device) {}

  void draw(const Draw& draw, const std::vector<DrawRun>& runs) override {
    const std::vector<DrawRun> spans = spans_of(runs);
    std::lock_guard lock(mutex_);
    device_.enter();
    if (!kernel_) {
      stream_ = device_.make_stream();
      module_ = source_module(device_, draws_source(), cache_dir_);
      kernel_ = module_->function("draws");
    }
    for (size_t from = 0; from < spans.size(); from += kSpansOfALaunch)
      launch(draw, spans.data() + from, std::min(kSpansOfALaunch, spans.size() - from));
  }

 private:
  void launch(const Draw& draw, const DrawRun* spans, size_t count) {
    std::byte* table = table_.put(spans, count, *stream_);
    unsigned long long number = count, seed = draw.seed, stream = draw.stream;
    double base = draw.base, scale = draw.scale;
    float most = draw.most;
    int normal = draw.kind == Draw::Kind::normal;
    void* args[] = {&table, &number, &seed, &stream, &base, &scale, &most, &normal};
    const auto blocks = kDrawBlocks * static_cast<size_t>(device_.properties().multiprocessors);
    cuda::launch(kernel_, static_cast<unsigned>(std::min(count, blocks)), 1, 1, kDrawThreads, 0, *stream_,
                 args, "draws");
    stream_->synchronize();
  }

  CudaDevice& device_;
  const std::string cache_dir_;
  std::mutex mutex_;
  std::shared_ptr<const SourceModule> module_;
  CUfunction kernel_ = nullptr;
  std::unique_ptr<Stream> stream_;
  LaunchTable table_;
};
}  // namespace

std::unique_ptr<Draws> make_draws(CudaDevice& device, const std::string& cache_dir) {
  return std::make_unique<CudaDraws>(device, cache_dir);
}

}  // namespace lockstep::compiler::cuda
