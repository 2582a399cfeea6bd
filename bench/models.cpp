// One training step of any registered family for its task, on random samples: compile time, milliseconds and
// those that the roofline foretells, samples per second, peak memory. One line of JSON. bench/peers/models.py
// runs it beside PyTorch. On a device each step copies its batch from pinned memory.
//
// CALLS=20 prints before it where the time goes: the calls that take longest, equal ones together, each
// alone.
//
//   bench-models KIND OPTIONS BATCH [fp32|tf32|bf16] [STEPS] [DEVICE]
//   bench-models resnet '{"layers": 18, "size": 96, "classes": 1000}' 16 bf16
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "compiler/compile/compile.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/optim/sparse_adam.h"
#include "core/tasks/task.h"
#include "launcher/machine/run_device.h"
#include "launcher/plan/predict.h"

namespace lockstep {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What integer i of a sample lies below: the field's bound; of tables of many sizes, the rows of its own.
int64_t bound(const models::Field& field, const Json& options, int64_t i) {
  if (field.below || field.name != "categories") return std::max<int64_t>(2, field.below);
  return options.at("rows").at(static_cast<size_t>(i)).get<int64_t>();
}

// Uniform numbers in [0, 1), and integers below their bounds.
void draw(const models::Field& field, const Json& options, int64_t sample, uint64_t stream, void* to) {
  for (int64_t i = 0; i < numel(field.shape); ++i) {
    const uint32_t bits = philox::bits(1, stream, static_cast<uint64_t>(sample), static_cast<uint64_t>(i));
    if (field.dtype == DType::f32)
      static_cast<float*>(to)[i] = static_cast<float>(philox::uniform(bits));
    else
      static_cast<int32_t*>(to)[i] =
          static_cast<int32_t>(bits % static_cast<uint32_t>(bound(field, options, i)));
  }
}

// The calls of equal text that take longest, and the kinds of instructions.
void print_calls(compiler::Step& step, const std::vector<double>& told, size_t most,
                 const std::function<void()>& run) {
  constexpr int kRuns = 4;
  struct Sum {
    double seconds = 0, told = 0, flops = 0, bytes = 0;
    int count = 0;
  };
  compiler::set_timing(true);
  auto after = step.call_times();
  std::vector<double> least(after.size(), 1e9);
  for (int i = 0; i < kRuns; ++i) {
    const auto before = std::move(after);
    run();
    after = step.call_times();
    for (size_t c = 0; c < after.size(); ++c)
      least[c] = std::min(least[c], after[c].seconds - before[c].seconds);
  }
  compiler::set_timing(false);
  std::map<std::string, Sum> sums;
  for (size_t c = 0; c < after.size(); ++c) {
    Sum& sum = sums[after[c].family + " " + after[c].what];
    sum.seconds += least[c];
    sum.told += told[c], sum.flops += after[c].flops, sum.bytes += static_cast<double>(after[c].bytes),
        ++sum.count;
  }
  std::vector<std::pair<std::string, Sum>> rows(sums.begin(), sums.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  for (const auto& [kind, seconds] : step.instruction_seconds())
    std::printf("%9.2f ms  %s\n", seconds / kRuns * 1e3, kind.c_str());
  for (size_t i = 0; i < std::min(most, rows.size()); ++i)
    std::printf("%9.2f ms, told %9.2f, in %4d  %8.1f GFLOP/s  %7.2f GB/s  %s\n", rows[i].second.seconds * 1e3,
                rows[i].second.told * 1e3, rows[i].second.count,
                rows[i].second.flops / rows[i].second.seconds * 1e-9,
                rows[i].second.bytes / rows[i].second.seconds * 1e-9, rows[i].first.c_str());
}

// AdamW, and where there are sparse tables, SparseAdam for them.
std::unique_ptr<Optimizer> optimizer_of(State& state) {
  const AdamWOptions dense{.lr = 1e-4, .weight_decay = 0.01};
  for (const auto& parameter : state.parameters())
    if (parameter.spec().sparse)
      return std::make_unique<SparseAdam>(state / "optim", SparseAdamOptions{.lr = 1e-4}, dense);
  return std::make_unique<AdamW>(state / "optim", dense);
}

void bench(const std::string& kind, const Json& options, int64_t batch, const std::string& precision,
           int steps) {
  compiler::CompileOptions how;
  how.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (const char* threads = std::getenv("OMP_NUM_THREADS")) how.threads = std::atoi(threads);
  how.precision = precision;
  Device& device = compiler::target_of(how).device();
  const auto before = device.memory_info().free;
  State state(solo_mesh(), 1);
  if (precision == "bf16") state.compute_dtype(DType::bf16);
  const models::Model model = models::build(state.root(), kind, options);
  const tasks::Task& task = tasks::task(models::family(kind).task);
  const std::vector<models::Field> sample = task.fields(model, Json::object());
  const auto optimizer = optimizer_of(state);
  std::vector<compiler::BatchField> fields;
  for (const auto& field : sample) {
    Shape shape = field.shape;
    shape.insert(shape.begin(), batch);
    fields.push_back({field.name, field.dtype, shape});
  }
  const double began = now();
  compiler::Step step = compile(
      state, fields, {batch, batch, 0},
      [&](const std::vector<Tensor>& values) {
        const auto objectives = task.objectives(model, tasks::Batch(sample, values), Json::object());
        optimizer->update(grad(objectives[0].loss, state.parameters()));
        return objectives[0].loss;
      },
      how);
  const double compiled = now() - began;
  state.materialize();
  launcher::RunConfig config;
  config.train.precision = precision;
  const launcher::PaperStep paper(step.plan(), state.mesh());
  const std::string known = launcher::roofline_of(compiler::target_of(how).device());
  const launcher::Roofline roofline = launcher::roofline_of_rank(
      launcher::roofline_named(known.empty() ? "cpu" : known), solo_mesh().words, paper);
  const double told = launcher::predict(config, solo_mesh().words, paper, roofline).step_s;
  // The samples are drawn once: a step reads a copy.
  std::vector<std::vector<char>> drawn;
  for (size_t f = 0; f < sample.size(); ++f) {
    const size_t bytes = static_cast<size_t>(numel(sample[f].shape)) * size_of(sample[f].dtype);
    auto& rows = drawn.emplace_back(static_cast<size_t>(batch) * bytes);
    for (int64_t i = 0; i < batch; ++i)
      draw(sample[f], options, i, f, rows.data() + static_cast<size_t>(i) * bytes);
  }
  // A device has its copy of a batch from pinned memory, which keeps what it was given: the peers' batches
  // lie there, too, so that neither side's reader is in the time.
  std::set<void*> filled;
  const bool keeps = !device.addressable();
  auto fill = [&](int64_t, int64_t, const std::vector<void*>& to) {
    for (size_t f = 0; f < drawn.size(); ++f)
      if (filled.insert(to[f]).second || !keeps)
        std::copy(drawn[f].begin(), drawn[f].end(), static_cast<char*>(to[f]));
  };
  std::vector<double> seconds;
  double loss = 0;
  for (int i = 0; i < steps + 2; ++i) {
    const double start = now();
    loss = step({.step = i + 1, .fill = fill, .fill_next = fill});
    if (i >= 2) seconds.push_back(now() - start);
  }
  if (const char* most = std::getenv("CALLS"))
    print_calls(
        step, launcher::call_seconds(step.program().blocks[compiler::kBodyBlock].calls, precision, roofline),
        static_cast<size_t>(std::atoi(most)), [&] { step({steps + 3, fill}); });
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  struct rusage used{};
  getrusage(RUSAGE_SELF, &used);
  int64_t parameters = 0;
  for (const auto& parameter : state.parameters()) parameters += numel(parameter.shape());
  std::printf("%s\n",
              Json({{"kind", kind},
                    {"precision", precision},
                    {"batch", batch},
                    {"parameters", parameters},
                    {"compile_s", compiled},
                    {"ms", median * 1e3},
                    {"told_ms", known.empty() ? 0 : told * 1e3},
                    {"ms_min", seconds.front() * 1e3},
                    {"samples_per_s", static_cast<double>(batch) / median},
                    {"peak_mb", keeps ? static_cast<double>(before - device.memory_info().free) / 1048576
                                      : static_cast<double>(used.ru_maxrss) / 1024},
                    {"arena_mb", static_cast<double>(step.arena_bytes()) / 1048576},
                    {"loss", loss}})
                  .dump()
                  .c_str());
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  try {
    if (argc < 4) throw UserError("bench-models KIND OPTIONS BATCH [fp32|tf32|bf16] [STEPS] [DEVICE]");
    compiler::set_default_target(launcher::run_target(argc > 6 ? argv[6] : "cpu", 0, 1));
    bench(argv[1], Json::parse(argv[2]), std::atoll(argv[3]), argc > 4 ? argv[4] : "fp32",
          argc > 5 ? std::atoi(argv[5]) : 5);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", error.kind(), error.what());
    return error.exit_code();
  }
  return 0;
}
