// What the invariant order of gradient sums costs: all_to_all + ordered sum with row squares, beside NCCL's
// reduce-scatter, by size.
//   mpirun -n 2 bench-gpu-exchange        (or -n 4; one GPU per rank)
//   bench-gpu-exchange --threads 2        (without an MPI launcher)
// Both are captured, so that the time is the device's and not that of enqueuing. Five interleaved runs,
// medians, the slowest rank's time.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "compiler/codegen/cuda/sums/reductions.h"
#include "core/base/error.h"
#include "distributed/local/local_world.h"
#include "distributed/nccl/nccl_group.h"
#include "distributed/open_world.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {
constexpr int kRepeats = 20;  // in a graph
constexpr int kRuns = 5;
constexpr int64_t kWidth = 1024;  // elements of a row

int local(const char* variable, int fallback) {
  const char* value = std::getenv(variable);
  return value ? std::atoi(value) : fallback;
}

class Bench {
 public:
  Bench(std::shared_ptr<World> world, int ordinal)
      : world_(std::move(world)), device_(cuda::open_device(ordinal)) {
    device_->enter();
    group_ = nccl_group(*device_, *world_->group(), "data", true);
    reductions_ = compiler::cuda::make_reductions(*device_);
    stream_ = device_->make_stream();
    // After source s the two topmost partials are added as often as s + 1 has factors of two: the balanced
    // tree.
    for (int s = 1; s <= world_->size(); ++s) {
      int merges = 0;
      for (int rest = s; rest % 2 == 0; rest /= 2) ++merges;
      merges_.push_back(merges);
    }
    int left = 0;
    for (int s = 0; s < world_->size(); ++s) left += 1 - merges_[s];
    merges_.back() += left - 1;  // a size that is no power of two
  }

  void run() {
    if (world_->rank() == 0) {
      std::printf("%s, %d ranks, NCCL %s\n", device_->describe().c_str(), world_->size(),
                  nccl_version().c_str());
      // bf16: half the bytes travel; the sum reads fp32, so that its time is the most a sum of bf16 leaves
      // would take.
      std::printf("%8s  %14s  %14s  %14s  %8s  %18s  %18s  %8s\n", "MiB", "all_to_all us", "+ ordered us",
                  "reduce_sc. us", "ratio", "bf16 + ordered us", "bf16 reduce_sc. us", "ratio");
    }
    for (int64_t mib : {1, 4, 16, 64, 256}) row(mib);
  }

 private:
  void row(int64_t mib) {
    const int n = world_->size();
    const int64_t rows = (mib << 20) / 4 / kWidth / n, part = rows * kWidth;
    Buffer in(part * n * 4, device_->memory()), exchanged(part * n * 4, device_->memory()),
        sum(part * 4, device_->memory()), squares(rows * 8, device_->memory());
    std::vector<int64_t> parts(n, part);
    compiler::Reductions::Sum ordered;
    for (int r = 0; r < n; ++r) ordered.sources.push_back(exchanged.as<float>() + r * part);
    ordered.merges = merges_, ordered.rows = rows, ordered.width = kWidth;
    ordered.out = sum.as<float>(), ordered.row_squares = squares.as<double>();
    auto exchange = [&](DType dtype) {
      group_->start(AllToAll{in.data(), exchanged.data(), parts, parts, dtype}, "exchange", *stream_)
          ->wait(*stream_);
    };
    auto add = [&] { reductions_->sum(std::span(&ordered, 1), *stream_); };
    const std::function<void()> work[] = {
        [&] { exchange(DType::f32); },
        [&] { exchange(DType::f32), add(); },
        [&] {
          group_->start(ReduceScatter{in.data(), sum.data(), parts, DType::f32}, "reduce", *stream_)
              ->wait(*stream_);
        },
        [&] { exchange(DType::bf16), add(); },
        [&] {
          group_->start(ReduceScatter{in.data(), sum.data(), parts, DType::bf16}, "reduce", *stream_)
              ->wait(*stream_);
        },
    };
    std::vector<std::unique_ptr<CapturedWork>> graphs;
    for (const auto& one : work) {
      one();  // kernels are compiled and peers connected here
      finish();
      graphs.push_back(device_->capture(*stream_, [&] {
        for (int i = 0; i < kRepeats; ++i) one();
      }));
      graphs.back()->launch(*stream_);
      finish();
    }
    std::vector<std::vector<double>> times(graphs.size());
    for (int run = 0; run < kRuns; ++run)
      for (size_t k = 0; k < graphs.size(); ++k) {
        barrier(*world_->group());
        auto begin = std::chrono::steady_clock::now();
        graphs[k]->launch(*stream_);
        finish();
        double us =
            std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
            kRepeats;
        all_reduce(*world_->group(), {&us, &us, 1, DType::f64, ReduceOp::max});
        times[k].push_back(us);
      }
    for (auto& one : times) std::sort(one.begin(), one.end());
    auto median = [&](size_t k) { return times[k][kRuns / 2]; };
    if (world_->rank() == 0)
      std::printf("%8lld  %14.1f  %14.1f  %14.1f  %8.3f  %18.1f  %18.1f  %8.3f\n",
                  static_cast<long long>(mib), median(0), median(1), median(2), median(2) / median(1),
                  median(3), median(4), median(4) / median(3)),
          std::fflush(stdout);
  }
  void finish() {
    Group* one = group_.get();
    wait_on_host(*stream_->record(), std::span(&one, 1));
  }

  std::shared_ptr<World> world_;
  std::shared_ptr<cuda::CudaDevice> device_;
  std::shared_ptr<Group> group_;
  std::unique_ptr<compiler::Reductions> reductions_;
  std::unique_ptr<Stream> stream_;
  std::vector<int> merges_;
};
}  // namespace

int main(int argc, char** argv) {
  int threads = argc == 3 && std::string(argv[1]) == "--threads" ? std::atoi(argv[2]) : 0;
  try {
    std::string why;
    if (threads > 0) {
      if (!cuda::available(&why) || cuda::device_count() < threads)
        return std::printf("SKIP: %s\n", why.empty() ? "fewer GPUs than ranks" : why.c_str()), 0;
      with_world(threads, [](std::shared_ptr<World> world) { Bench(world, world->rank()).run(); });
      return 0;
    }
    auto world = open_world();
    int64_t skips = !cuda::available(&why) || cuda::device_count() < local("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
    all_reduce(*world->group(), {&skips, &skips, 1, DType::i64, ReduceOp::max});
    if (skips && world->rank() == 0)
      std::printf("SKIP: %s\n", why.empty() ? "fewer GPUs than ranks" : why.c_str());
    if (!skips) Bench(world, local("OMPI_COMM_WORLD_LOCAL_RANK", 0)).run();
    world->finish();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench-gpu-exchange: %s\n", error.what());
    World::leave(1);
  }
  return 0;
}
