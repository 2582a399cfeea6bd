// Measures matrix products, for benchmarks and for choosing among cuBLASLt's algorithms.
#include <algorithm>

#include "compiler/codegen/cuda/matmul/gemm.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
size_t extent(int64_t rows, int64_t ld, int64_t cols, int64_t batch, int64_t stride, DType dtype) {
  return ((batch - 1) * stride + (rows - 1) * ld + cols) * size_of(dtype);
}
struct Scratch {
  Scratch(CudaDevice& device, const Gemm& gemm, const GemmOptions& o)
      : a(extent(o.ta ? o.k : o.m, o.lda, o.ta ? o.m : o.k, o.batch, o.stride_a, o.in), device.memory()),
        b(extent(o.tb ? o.n : o.k, o.ldb, o.tb ? o.k : o.n, o.batch, o.stride_b, o.in_b.value_or(o.in)),
          device.memory()),
        d(extent(o.m, o.ldd, o.n, o.batch, o.stride_d, o.out), device.memory()),
        vector(std::max(o.m, o.n) * size_of(o.out) + 16, device.memory()),
        aux(o.ld_aux ? extent(o.m, o.ld_aux, o.n, o.batch, o.stride_aux, o.out) : 256, device.memory()),
        workspace(std::max<size_t>(256, gemm.workspace()), device.memory()) {}
  Buffer a, b, d, vector, aux, workspace;
};
// Random numbers in (-1, 1), a repeated block. Operands with equal values would draw less power, and so run
// at a higher clock than real ones.
void fill(CudaDevice& device, const Buffer& buffer, DType dtype, Stream& stream) {
  constexpr int64_t count = 1 << 20;
  Buffer block(count * size_of(dtype), device.staging());
  uint64_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    set_double(dtype, block.data(), i, static_cast<double>(static_cast<int64_t>(state) >> 11) * 0x1p-52);
  }
  for (size_t at = 0; at < buffer.bytes(); at += block.bytes())
    device.copy(buffer.data() + at, block.data(), std::min(block.bytes(), buffer.bytes() - at), stream);
  stream.synchronize();
}
struct Timer {
  Timer() { check(driver().EventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate"); }
  ~Timer() { driver().EventDestroy(event); }
  Timer(const Timer&) = delete;
  CUevent event = nullptr;
};
}  // namespace

double time_gemm(CudaDevice& device, const Gemm& gemm, const GemmOptions& options, int rounds) {
  device.enter();
  Scratch scratch(device, gemm, options);
  auto stream = device.make_stream();
  fill(device, scratch.a, options.in, *stream);
  fill(device, scratch.b, options.in_b.value_or(options.in), *stream);
  GemmArgs args{scratch.a.data(),      scratch.b.data(),   scratch.d.data(),      scratch.vector.data(),
                scratch.vector.data(), scratch.aux.data(), scratch.vector.data(), scratch.vector.data()};
  constexpr int launches = 5;
  std::vector<double> times;
  Timer start, stop;
  for (int round = -1; round < rounds; ++round) {  // the first round is not counted
    check(driver().EventRecord(start.event, stream_of(*stream)), "cuEventRecord");
    for (int i = 0; i < launches; ++i) gemm.enqueue(args, scratch.workspace.data(), *stream);
    check(driver().EventRecord(stop.event, stream_of(*stream)), "cuEventRecord");
    stream->synchronize();
    float ms = 0;
    check(driver().EventElapsedTime(&ms, start.event, stop.event), "cuEventElapsedTime");
    if (round >= 0) times.push_back(ms / launches);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

std::vector<std::byte> gemm_sample(CudaDevice& device, const Gemm& gemm, const GemmOptions& options,
                                   size_t bytes) {
  device.enter();
  Scratch scratch(device, gemm, options);
  auto stream = device.make_stream();
  fill(device, scratch.a, options.in, *stream);
  fill(device, scratch.b, options.in_b.value_or(options.in), *stream);
  fill(device, scratch.vector, options.out, *stream);
  device.zero(scratch.d.data(), scratch.d.bytes(), *stream);
  gemm.enqueue({scratch.a.data(), scratch.b.data(), scratch.d.data(), scratch.vector.data(),
                scratch.vector.data(), scratch.aux.data(), scratch.vector.data(), scratch.vector.data()},
               scratch.workspace.data(), *stream);
  const size_t head = std::min(bytes, scratch.d.bytes()), tail = std::min(bytes, scratch.d.bytes() - head);
  Buffer sample(head + tail, device.staging());
  device.copy(sample.data(), scratch.d.data(), head, *stream);
  if (tail) device.copy(sample.data() + head, scratch.d.data() + scratch.d.bytes() - tail, tail, *stream);
  stream->synchronize();
  return {sample.data(), sample.data() + sample.bytes()};
}

std::unique_ptr<Gemm> tune_gemm(CudaDevice& device, const GemmOptions& options, int count) {
  std::unique_ptr<Gemm> best;
  double least = 0;
  for (auto& candidate : gemm_candidates(device, options, count)) {
    double ms = time_gemm(device, *candidate, options);
    if (!best || ms < least) least = ms, best = std::move(candidate);
  }
  return best;
}

}  // namespace lockstep::compiler::cuda
