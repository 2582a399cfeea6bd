// ContentSums through NVRTC: the kernel's text, its tables, and its launches.
#include "compiler/codegen/cuda/content_sums.h"

#include <algorithm>
#include <mutex>

#include "compiler/codegen/cuda/launch_table.h"
#include "compiler/codegen/cuda/source/module.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

std::string content_source() {
  return R"(
typedef unsigned long long Word;
struct Span { const unsigned char* data; Word index, key, exponent; long long count; Word element; };
struct Part { Word lo, hi, nonfinite, first; };

// The finaliser of splitmix64.
static __device__ __forceinline__ Word mix(Word x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
static __device__ __forceinline__ void add(Part& sum, const Part& part) {
  sum.lo += part.lo;
  sum.hi += part.hi + (sum.lo < part.lo ? 1 : 0);
  sum.nonfinite += part.nonfinite;
  sum.first = part.first < sum.first ? part.first : sum.first;
}
template <class Bits>
static __device__ __forceinline__ void add_span(const Span& span, Part& sum) {
  const Bits* data = (const Bits*)span.data;
  const Bits exponent = (Bits)span.exponent;
#pragma unroll 4
  for (long long i = threadIdx.x; i < span.count; i += blockDim.x) {
    const Bits bits = data[i];
    const Word place = span.index + (Word)i;
    const Word low = mix(mix(place * 0x9E3779B97F4A7C15ull + span.key) ^ (Word)bits);
    sum.lo += low;
    sum.hi += mix(low + span.key) + (sum.lo < low ? 1 : 0);
    if (exponent != 0 && (bits & exponent) == exponent) {
      ++sum.nonfinite;
      sum.first = place < sum.first ? place : sum.first;
    }
  }
}
extern "C" __global__ void content_sums(const Span* spans, Word count, Part* out) {
  __shared__ Part parts[256];
  Part sum = {0, 0, 0, ~0ull};
  for (Word s = blockIdx.x; s < count; s += gridDim.x) {
    const Span span = spans[s];
    if (span.element == 1) add_span<unsigned char>(span, sum);
    else if (span.element == 2) add_span<unsigned short>(span, sum);
    else if (span.element == 4) add_span<unsigned>(span, sum);
    else add_span<Word>(span, sum);
  }
  parts[threadIdx.x] = sum;
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) add(parts[threadIdx.x], parts[threadIdx.x + half]);
  }
  if (threadIdx.x == 0) out[blockIdx.x] = parts[0];
}
)";
}

std::vector<ContentSpan> spans_of(const std::vector<ContentRun>& runs) {
  std::vector<ContentSpan> out;
  for (const ContentRun& run : runs) {
    LS_CHECK(run.element == 1 || run.element == 2 || run.element == 4 || run.element == 8, run.element);
    for (int64_t at = 0; at < run.count; at += kSpanElements)
      out.push_back({run.data + at * static_cast<int64_t>(run.element), run.index + static_cast<uint64_t>(at),
                     run.key, run.exponent, std::min(kSpanElements, run.count - at), run.element});
  }
  return out;
}

void add(ContentSum& sum, const ContentPart& part) {
  sum.lo += part.lo;
  sum.hi += part.hi + (sum.lo < part.lo ? 1 : 0);
  sum.nonfinite += static_cast<int64_t>(part.nonfinite);
  sum.first = std::min(sum.first, part.first);
}

namespace {
constexpr unsigned kSumBlocks = 8;

class CudaContentSums : public ContentSums {
 public:
  CudaContentSums(CudaDevice& device, std::string cache_dir)
      : device_(device), cache_dir_(std::move(cache_dir)), table_(device) {}

  ContentSum sum(const std::vector<ContentRun>& runs) override {
    const std::vector<ContentSpan> spans = spans_of(runs);
    std::lock_guard lock(mutex_);
    device_.enter();
    if (!kernel_) prepare();
    ContentSum out;
    for (size_t from = 0; from < spans.size(); from += kSpansOfALaunch)
      add_spans(spans.data() + from, std::min(kSpansOfALaunch, spans.size() - from), out);
    return out;
  }

 private:
  void prepare() {
    stream_ = device_.make_stream();
    most_blocks_ = kSumBlocks * static_cast<unsigned>(device_.properties().multiprocessors);
    parts_ = Buffer(most_blocks_ * sizeof(ContentPart), device_.memory());
    staged_parts_ = Buffer(parts_.bytes(), device_.staging());
    module_ = source_module(device_, content_source(), cache_dir_);
    kernel_ = module_->function("content_sums");
  }

  void add_spans(const ContentSpan* spans, size_t count, ContentSum& out) {
    const auto blocks = static_cast<unsigned>(std::min<size_t>(count, most_blocks_));
    std::byte *table = table_.put(spans, count, *stream_), *parts = parts_.data();
    unsigned long long number = count;
    void* args[] = {&table, &number, &parts};
    cuda::launch(kernel_, blocks, 1, 1, kContentThreads, 0, *stream_, args, "content_sums");
    device_.copy(staged_parts_.data(), parts_.data(), blocks * sizeof(ContentPart), *stream_);
    stream_->synchronize();
    for (unsigned b = 0; b < blocks; ++b) add(out, staged_parts_.as<ContentPart>()[b]);
  }

  CudaDevice& device_;
  const std::string cache_dir_;
  std::mutex mutex_;
  std::shared_ptr<const SourceModule> module_;
  CUfunction kernel_ = nullptr;
  unsigned most_blocks_ = 0;
  std::unique_ptr<Stream> stream_;
  LaunchTable table_;
  Buffer parts_, staged_parts_;
};
}  // namespace

std::unique_ptr<ContentSums> make_content_sums(CudaDevice& device, const std::string& cache_dir) {
  return std::make_unique<CudaContentSums>(device, cache_dir);
}

}  // namespace lockstep::compiler::cuda
