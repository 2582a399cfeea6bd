// bench-gpu-reductions: GB/s of the sums around the exchange of gradients, over the tensors of GPT-2 124M,
// beside a copy on the device.
#include <algorithm>
#include <cstdio>
#include <functional>

#include "compiler/codegen/cuda/sums/reductions.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace lockstep::compiler::cuda {
namespace {

struct Rows {
  int64_t rows, width;
};
std::vector<Rows> gpt2() {
  std::vector<Rows> tensors{{50304, 768}, {1024, 768}, {768, 1}, {768, 1}};
  for (int layer = 0; layer < 12; ++layer)
    for (const Rows& t : std::vector<Rows>{{768, 1},
                                           {768, 1},
                                           {2304, 768},
                                           {2304, 1},
                                           {768, 768},
                                           {768, 1},
                                           {768, 1},
                                           {768, 1},
                                           {3072, 768},
                                           {3072, 1},
                                           {768, 3072},
                                           {768, 1}})
      tensors.push_back(t);
  return tensors;
}

class Bench {
 public:
  explicit Bench(CudaDevice& device) : device_(device), stream_(device.make_stream()) {
    check(driver().EventCreate(&begin_, CU_EVENT_DEFAULT), "cuEventCreate");
    check(driver().EventCreate(&end_, CU_EVENT_DEFAULT), "cuEventCreate");
  }
  ~Bench() {
    driver().EventDestroy(begin_);
    driver().EventDestroy(end_);
  }
  // The median of 9 times 10 launches of the captured work.
  void time(const std::string& name, int64_t bytes, const std::function<void(Stream&)>& enqueue) {
    auto graph = device_.capture(*stream_, [&] { enqueue(*stream_); });
    LS_CHECK(graph, "the device cannot capture");
    for (int i = 0; i < 3; ++i) graph->launch(*stream_);
    std::vector<float> times;
    for (int repeat = 0; repeat < 9; ++repeat) {
      check(driver().EventRecord(begin_, stream_of(*stream_)), "cuEventRecord");
      for (int i = 0; i < 10; ++i) graph->launch(*stream_);
      check(driver().EventRecord(end_, stream_of(*stream_)), "cuEventRecord");
      check(driver().EventSynchronize(end_), "cuEventSynchronize");
      float ms = 0;
      check(driver().EventElapsedTime(&ms, begin_, end_), "cuEventElapsedTime");
      times.push_back(ms / 10);
    }
    std::sort(times.begin(), times.end());
    const double ms = times[times.size() / 2];
    std::printf("%-44s %4lld nodes %9.4f ms %9.1f MB %8.1f GB/s\n", name.c_str(),
                static_cast<long long>(graph->nodes()), ms, static_cast<double>(bytes) / 1e6,
                static_cast<double>(bytes) / ms / 1e6);
    std::fflush(stdout);
  }

 private:
  CudaDevice& device_;
  std::unique_ptr<Stream> stream_;
  CUevent begin_ = nullptr, end_ = nullptr;
};

void run() {
  auto device = open_device(0);
  device->enter();
  auto reductions = make_reductions(*device);
  Bench bench(*device);
  const std::vector<Rows> tensors = gpt2();
  int64_t elements = 0, rows = 0;
  for (const Rows& t : tensors) elements += t.rows * t.width, rows += t.rows;
  std::printf("%s\n%zu tensors, %lld elements, %lld rows\n", device->describe().c_str(), tensors.size(),
              static_cast<long long>(elements), static_cast<long long>(rows));
  const auto bytes = static_cast<size_t>(elements) * sizeof(float);
  std::vector<Buffer> buffers;
  for (int b = 0; b < 5; ++b) buffers.emplace_back(bytes + 64, device->memory());
  const Buffer squares(static_cast<size_t>(rows) * sizeof(double), device->memory()),
      words(64, device->memory()), norm(4, device->memory());
  auto data = [&](int b) { return buffers[static_cast<size_t>(b)].as<float>(); };
  const auto n = static_cast<int64_t>(bytes);

  bench.time("copy on the device", 2 * n, [&](Stream& s) { device->copy(data(1), data(0), bytes, s); });
  bench.time("Reductions::copy, one region", 2 * n, [&](Stream& s) {
    reductions->copy(std::vector<Reductions::Copy>{{data(1), data(0), bytes}}, s);
  });
  for (int shift : {0, 1}) {
    const std::string where = shift ? ", gradients off by 4 bytes" : "";
    std::vector<Reductions::Run> runs;
    std::vector<Reductions::Copy> copies;
    int64_t at = 0;
    for (const Rows& t : tensors) {
      runs.push_back({at, data(0) + at + shift, t.rows * t.width});
      copies.push_back({data(1) + at, data(0) + at + shift, static_cast<size_t>(t.rows * t.width) * 4});
      at += t.rows * t.width;
    }
    bench.time("Reductions::copy, tensor by tensor" + where, 2 * n,
               [&](Stream& s) { reductions->copy(copies, s); });
    for (int lefts : {0, 1, 2, 3}) {
      const float* left[] = {data(1), data(2), data(3)};
      const std::span<const float* const> some(left, static_cast<size_t>(lefts));
      bench.time(str("accumulate, ", lefts, " lefts", where), (lefts + 2) * n, [&](Stream& s) {
        reductions->accumulate(runs, some, lefts ? const_cast<float*>(left[lefts - 1]) : data(1), s);
      });
    }
  }
  for (const std::vector<int>& merges : std::vector<std::vector<int>>{{0}, {0, 1}, {0, 1, 0, 2}})
    for (int shift : {0, 1}) {
      std::vector<Reductions::Sum> sums;
      int64_t at = 0, row = 0;
      for (const Rows& t : tensors) {
        Reductions::Sum sum{{}, merges, t.rows, t.width, data(4) + at, squares.as<double>() + row};
        for (size_t s = 0; s < merges.size(); ++s)
          sum.sources.push_back(data(static_cast<int>(s)) + at + shift);
        sums.push_back(sum);
        at += t.rows * t.width, row += t.rows;
      }
      bench.time(str("sum and squares, ", merges.size(), " sources", shift ? ", off by 4 bytes" : ""),
                 (static_cast<int64_t>(merges.size()) + 1) * n + rows * 8,
                 [&](Stream& s) { reductions->sum(sums, s); });
      if (merges.size() > 1) continue;
      for (auto& sum : sums) sum.out = const_cast<float*>(static_cast<const float*>(sum.sources[0].at));
      bench.time(str("squares alone, in place", shift ? ", off by 4 bytes" : ""), n + rows * 8,
                 [&](Stream& s) { reductions->sum(sums, s); });
    }
  for (int64_t width : {2, 64, 100, 3072, 50304, 100000000}) {
    const std::vector<Reductions::Sum> one{
        {{data(0)}, {0}, elements / width, width, data(4), squares.as<double>()}};
    if (elements / width > rows) {
      const Buffer many(static_cast<size_t>(elements / width) * 8, device->memory());
      auto big = one;
      big[0].row_squares = many.as<double>();
      bench.time(str("sum and squares, rows of ", width), 2 * n + elements / width * 8,
                 [&](Stream& s) { reductions->sum(big, s); });
    } else {
      bench.time(str("sum and squares, rows of ", width),
                 2 * (elements / width * width * 4) + elements / width * 8,
                 [&](Stream& s) { reductions->sum(one, s); });
    }
  }
  std::vector<Reductions::Doubles> addends;
  int64_t row = 0;
  for (const Rows& t : tensors) addends.push_back({squares.as<double>() + row, t.rows}), row += t.rows;
  bench.time("limbs of every row", rows * 8,
             [&](Stream& s) { reductions->limbs(addends, words.as<int64_t>(), s); });
  bench.time("norm of limbs", 64,
             [&](Stream& s) { reductions->norm_of_limbs(words.as<int64_t>(), norm.as<float>(), s); });
}

}  // namespace
}  // namespace lockstep::compiler::cuda

int main() {
  try {
    lockstep::compiler::cuda::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench-gpu-reductions: %s\n", error.what());
    return 1;
  }
}
