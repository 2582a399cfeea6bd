// bench-gpu-step CONFIG [--a.b=VALUE ...]: the training step of a config on its device, with random tokens:
// time of the step, memory, and where the time goes, call by call. Under mpirun: one rank per GPU. STEPS=N
// measured steps (20), CALLS=N rows of the table (40).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "distributed/mesh/device_mesh.h"
#include "distributed/open_world.h"
#include "launcher/machine/run_device.h"
#include "launcher/supervise/worker/side.h"
#include "launcher/trainer/fingerprint.h"
#include "launcher/trainer/trainer.h"

using namespace lockstep;
using namespace lockstep::compiler;
using namespace lockstep::launcher;

namespace {
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
int number(const char* name, int otherwise) {
  return std::getenv(name) ? std::atoi(std::getenv(name)) : otherwise;
}
const char* human(int64_t bytes, std::string& keep) {
  return (keep = bytes_text(static_cast<double>(bytes))).c_str();
}

// Calls of one kind and name together: milliseconds per step, calls per step, GB/s or TFLOP/s.
struct Row {
  double seconds = 0, flops = 0, bytes = 0;
  int64_t calls = 0;
};

void print_calls(const std::vector<CallTime>& calls, int steps, int rows) {
  std::map<std::pair<std::string, std::string>, Row> by_name;
  std::map<std::string, double> by_kind;
  for (const auto& call : calls) {
    if (!call.runs) continue;
    Row& row = by_name[{call.family, call.what}];
    row.seconds += call.seconds / steps;
    if (call.family != "kernel") row.flops += call.flops * static_cast<double>(call.runs) / steps;
    row.bytes += static_cast<double>(call.bytes) * static_cast<double>(call.runs) / steps;
    row.calls += call.runs / steps;
    by_kind[call.family] += call.seconds / steps;
  }
  for (const auto& [kind, seconds] : by_kind)
    std::printf("  %-12s %9.3f ms (each call alone, with the host's wait)\n", kind.c_str(), seconds * 1e3);
  std::vector<std::pair<double, std::string>> lines;
  for (const auto& [key, row] : by_name) {
    char text[512];
    std::snprintf(text, sizeof text, "%9.3f ms %4lld x %8.4f ms  %7.1f %s  %s %.150s", row.seconds * 1e3,
                  static_cast<long long>(row.calls),
                  row.seconds * 1e3 / static_cast<double>(std::max<int64_t>(1, row.calls)),
                  row.flops > 0 ? row.flops / row.seconds / 1e12 : row.bytes / row.seconds / 1e9,
                  row.flops > 0 ? "TFLOP/s" : "GB/s   ", key.first.c_str(), key.second.c_str());
    lines.emplace_back(row.seconds, text);
  }
  std::sort(lines.rbegin(), lines.rend());
  for (size_t i = 0; i < lines.size() && i < static_cast<size_t>(rows); ++i)
    std::printf("%s\n", lines[i].second.c_str());
}

int bench(int argc, char** argv) {
  WorkerPlace place = enter_worker();
  RunConfig config = load_config(argv[1], parse_overrides({argv + 2, argv + argc}));
  auto world = distributed::open_world();
  LiveMesh mesh = open_mesh(world, config, place);
  const Target& target = run_target(config.train.device, place.local_rank, place.local_world_size);
  const bool lead = mesh.world->rank() == 0;
  const int64_t before = target.device().memory_info().free;
  join_device(mesh, config.train.device, target);
  State state(mesh, static_cast<uint64_t>(config.train.seed));
  Trainer trainer(config, place.local_world_size, state, target);
  double start = now();
  Step step = trainer.compile_training();
  double compiled = now() - start;
  state.materialize();
  const int64_t context = config.model.integer("context");
  auto fill = [&](int64_t first, int64_t count, const std::vector<void*>& fields) {
    for (int64_t i = 0; i < count * context; ++i) {
      auto token = [&](int64_t at) {
        return static_cast<int32_t>(philox::bits(3, 4, 0, static_cast<uint64_t>(first * context + at)) %
                                    static_cast<uint32_t>(config.model.integer("vocab")));
      };
      static_cast<int32_t*>(fields[0])[i] = token(i);
      static_cast<int32_t*>(fields[1])[i] = token(i + 1);
    }
  };
  int64_t done = 0;
  double loss = 0;
  std::map<std::string, std::vector<double>> exposed;
  auto run = [&] {
    StepInput input{++done, fill};
    input.fill_next = fill;
    StepResult result = step.run(input);
    loss = result.metrics.at("loss");
    for (const auto& [dim, seconds] : result.exposed) exposed[dim].push_back(seconds);
  };
  for (int i = 0; i < 4; ++i) run();
  exposed.clear();
  std::vector<double> times;
  for (int i = 0; i < number("STEPS", 20); ++i) {
    start = now();
    run();
    times.push_back(now() - start);
  }
  std::sort(times.begin(), times.end());
  const double seconds = times[times.size() / 2];
  if (lead) {
    std::string a, b, c, d;
    std::printf(
        "%s on %s, %d rank(s): %.3f ms per step (fastest %.3f, slowest %.3f), %.0f tokens/s; loss %.5f after "
        "%lld steps\n",
        config.name.c_str(), target.device().describe().c_str(), mesh.world->size(), seconds * 1e3,
        times.front() * 1e3, times.back() * 1e3, static_cast<double>(config.batch.global * context) / seconds,
        loss, static_cast<long long>(done));
    std::printf("  compiled in %.1f s; arena %s, reduction %s, state %s, device memory taken %s\n", compiled,
                human(step.arena_bytes(), a), human(step.reduction_bytes(), b),
                human(state.bytes_per_rank(), c), human(before - target.device().memory_info().free, d));
    for (auto& [dim, waits] : exposed) {
      std::sort(waits.begin(), waits.end());
      std::printf("  exposed communication %s: %.3f ms per step (least %.3f, most %.3f)\n", dim.c_str(),
                  waits[waits.size() / 2] * 1e3, waits.front() * 1e3, waits.back() * 1e3);
    }
  }
  if (lead && !exposed.empty()) {  // of the last step, the longest first
    auto waits = step.waits();
    std::sort(waits.begin(), waits.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    std::printf("  %zu waits, the longest:", waits.size());
    for (size_t i = 0; i < std::min<size_t>(waits.size(), 12); ++i)
      std::printf("%s %s %.3f ms", i ? "," : "", waits[i].first.c_str(), waits[i].second * 1e3);
    std::printf("\n");
  }
  if (const int rows = number("CALLS", 40); rows > 0) {
    set_timing(true);
    for (int i = 0; i < 3; ++i) run();
    set_timing(false);
    if (lead) print_calls(step.call_times(), 3, rows);
  }
  world->finish();
  return 0;
}
}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench-gpu-step CONFIG [--a.b=VALUE ...]\n");
    return 2;
  }
  try {
    return bench(argc, argv);
  } catch (...) { leave_worker(std::current_exception()); }
}
