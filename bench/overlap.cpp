// bench-overlap [RANKS]: what of communication a step hides, on the CPU. Ranks are threads; every collective
// takes a latency and the time of its bytes on a link that it shares with the others of its group, as on a
// network, and nothing of the processor.
//   LATENCY_MS=2 MB_PER_S=400 STEPS=5 bench-overlap 2
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "compiler/compile/compile.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/models/gpt.h"
#include "core/optim/adamw.h"
#include "distributed/local/local_world.h"
#include "distributed/mesh/device_mesh.h"

using namespace lockstep;
using Clock = std::chrono::steady_clock;

namespace {
double number(const char* name, double otherwise) {
  return std::getenv(name) ? std::atof(std::getenv(name)) : otherwise;
}

struct Link {
  double latency = 0, bytes_per_s = 0;  // 0: at once
  Clock::time_point busy_until{};       // this rank's end of it
};

// A collective of the group below that is there no earlier than its link allows.
class SlowWork : public Work {
 public:
  SlowWork(std::shared_ptr<Work> inner, Clock::time_point ready) : inner_(std::move(inner)), ready_(ready) {}
  bool done() override { return Clock::now() >= ready_ && inner_->done(); }
  void wait(Stream& stream) override {
    inner_->wait(stream);
    std::this_thread::sleep_until(ready_);
  }

 private:
  std::shared_ptr<Work> inner_;
  Clock::time_point ready_;
};

class SlowGroup : public Group {
 public:
  SlowGroup(std::shared_ptr<Group> inner, Link link) : inner_(std::move(inner)), link_(link) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }
  std::shared_ptr<Work> start(const Collective& what, const std::string& label, Stream& stream) override {
    double seconds = link_.latency;
    if (link_.bytes_per_s > 0) seconds += static_cast<double>(sent_bytes(what)) / link_.bytes_per_s;
    auto begin = std::max(Clock::now(), link_.busy_until);
    link_.busy_until =
        begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    return std::make_shared<SlowWork>(inner_->start(what, label, stream), link_.busy_until);
  }

 private:
  std::shared_ptr<Group> inner_;
  Link link_;
};

struct Case {
  const char* name;
  const char* dim;
  int64_t bucket_bytes;
  bool slow;
};

// Median milliseconds of a step, of the slowest rank.
double measure(int ranks, const Case& one, Link link, int steps) {
  double slowest = 0;
  std::mutex mutex;
  distributed::with_world(ranks, [&](std::shared_ptr<distributed::World> world) {
    LiveMesh mesh = distributed::live_mesh(world, Mesh{{ranks}, {one.dim}});
    if (one.slow) {
      auto slow = std::make_shared<SlowGroup>(mesh.data, link);
      mesh.data = slow;
      for (auto& group : mesh.groups) group = slow;
    }
    State state(mesh, 1);
    models::Gpt gpt(state.root(), {.vocab = 256, .context = 128, .width = 256, .depth = 6, .heads = 4});
    AdamW adamw(state / "optim", {});
    compiler::CompileOptions options;
    options.bucket_bytes = one.bucket_bytes;
    options.threads = 1;
    const Shape shape{4, 128};
    compiler::Step step = compile(
        state, {{"ids", DType::i32, shape}, {"targets", DType::i32, shape}}, {4 * ranks, 4, 0},
        [&](const std::vector<Tensor>& batch) {
          Loss loss = cross_entropy(gpt(batch[0]), batch[1]);
          adamw.update(grad(loss, state.parameters()));
          return loss;
        },
        options);
    state.materialize();
    auto fill = [&](int64_t first, int64_t count, const std::vector<void*>& fields) {
      for (auto* field : fields)
        for (int64_t i = 0; i < count * 128; ++i)
          static_cast<int32_t*>(field)[i] =
              static_cast<int32_t>(philox::bits(5, 6, 7, static_cast<uint64_t>(first * 128 + i)) % 256);
    };
    std::vector<double> times;
    for (int i = 1; i <= steps + 2; ++i) {
      auto begin = Clock::now();
      step.run({i, fill});
      if (i > 2) times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    }
    std::sort(times.begin(), times.end());
    std::lock_guard guard(mutex);
    slowest = std::max(slowest, times[times.size() / 2]);
  });
  return slowest;
}
}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2, steps = static_cast<int>(number("STEPS", 5));
  const Link link{number("LATENCY_MS", 2) / 1e3, number("MB_PER_S", 400) * 1e6};
  std::printf("GPT 6 x 256, 4 x 128 tokens per rank, %d ranks as threads, links of %.1f ms and %.0f MB/s\n",
              ranks, link.latency * 1e3, link.bytes_per_s / 1e6);
  const int64_t kAll = int64_t{1} << 40;
  const Case cases[] = {{"DDP, links at once", "dp_replicate", 1 << 20, false},
                        {"DDP, one bucket: nothing overlaps", "dp_replicate", kAll, true},
                        {"DDP, buckets of 1 MiB", "dp_replicate", 1 << 20, true},
                        {"FSDP, links at once", "dp_shard", 1 << 20, false},
                        {"FSDP, one bucket: nothing overlaps", "dp_shard", kAll, true},
                        {"FSDP, buckets of 1 MiB, one ahead", "dp_shard", 1 << 20, true}};
  double at_once = 0, exposed = 0;
  for (const Case& one : cases) {
    const double ms = measure(ranks, one, link, steps);
    if (!one.slow) at_once = ms;
    std::printf("  %-36s %8.1f ms", one.name, ms);
    if (one.slow) std::printf("   exposed %7.1f ms", ms - at_once);
    if (one.slow && one.bucket_bytes != kAll && exposed > 0)
      std::printf("   %.2f of it is hidden", 1 - (ms - at_once) / exposed);
    if (one.slow && one.bucket_bytes == kAll) exposed = ms - at_once;
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}
