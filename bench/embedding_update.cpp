// One step of a table of embeddings and nothing else: rows are taken, their gradients are given, the table is
// updated, by sparse and by dense gradients; beside the least that a sparse update moves: each distinct row
// of table and moments, in and out. One line of JSON for each.
//
//   bench-embedding-update [ROWS] [WIDTH] [IDS] [STEPS] [DEVICE]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "compiler/codegen/target.h"
#include "compiler/compile/compile.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/philox.h"
#include "core/nn/layers.h"
#include "core/optim/rowwise_adagrad.h"
#include "core/optim/sgd.h"
#include "core/optim/sparse_adam.h"
#include "launcher/machine/run_device.h"

namespace lockstep {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Sizes {
  int64_t rows = 2000000, width = 16, ids = 2048, steps = 50;
};
int32_t id(const Sizes& sizes, int64_t step, int64_t i) {
  return static_cast<int32_t>(philox::bits(1, 2, static_cast<uint64_t>(step), static_cast<uint64_t>(i)) %
                              static_cast<uint32_t>(sizes.rows));
}

struct Times {
  double median = 0, least = 0;
};
Times times_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2] * 1e3, seconds.front() * 1e3};
}

// Of so many tensors like the table, the rows of a step, in and out, one by one.
Times floor_of(const Sizes& sizes, int tensors) {
  const auto width = static_cast<size_t>(sizes.width);
  std::vector<std::vector<float>> held(static_cast<size_t>(tensors),
                                       std::vector<float>(static_cast<size_t>(sizes.rows) * width, 1.0f));
  std::vector<double> seconds;
  for (int64_t step = 0; step < sizes.steps; ++step) {
    std::set<int32_t> distinct;
    for (int64_t i = 0; i < sizes.ids; ++i) distinct.insert(id(sizes, step, i));
    const std::vector<int32_t> ids(distinct.begin(), distinct.end());
    const double start = now();
    for (int32_t row : ids)
      for (auto& tensor : held)
        for (size_t c = 0; c < width; ++c) tensor[static_cast<size_t>(row) * width + c] *= 1.0001f;
    seconds.push_back(now() - start);
  }
  return times_of(seconds);
}

void bench(const char* name, const Sizes& sizes, bool sparse, int tensors,
           const std::function<std::unique_ptr<Optimizer>(State&)>& make) {
  compiler::CompileOptions how;
  how.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (const char* threads = std::getenv("OMP_NUM_THREADS")) how.threads = std::atoi(threads);
  State state(solo_mesh(), 1);
  const Embedding table(state / "table", sizes.rows, sizes.width, EmbeddingOptions{.sparse = sparse});
  const auto optimizer = make(state);
  compiler::Step step = compile(
      state, {{"ids", DType::i32, {1, sizes.ids}}, {"g", DType::f32, {1, sizes.ids, sizes.width}}}, {1, 1, 0},
      [&](const std::vector<Tensor>& batch) {
        Loss loss{sum(table(batch[0]) * batch[1], {0, 1, 2}), full(batch[0], {}, 1, DType::i64)};
        optimizer->update(grad(loss, state.parameters()));
        return loss;
      },
      how);
  state.materialize();
  std::vector<double> seconds;
  std::vector<int32_t> ids(static_cast<size_t>(sizes.ids));
  const std::vector<float> gradients(static_cast<size_t>(sizes.ids * sizes.width), 0.01f);
  for (int64_t i = 0; i < sizes.steps + 3; ++i) {  // the first are compiled calls, then a captured program
    for (int64_t k = 0; k < sizes.ids; ++k) ids[static_cast<size_t>(k)] = id(sizes, i, k);
    const double start = now();
    step({i + 1, [&](int64_t, int64_t, const std::vector<void*>& to) {
            std::copy(ids.begin(), ids.end(), static_cast<int32_t*>(to[0]));
            std::copy(gradients.begin(), gradients.end(), static_cast<float*>(to[1]));
          }});
    if (i >= 3) seconds.push_back(now() - start);
  }
  const Times step_ms = times_of(seconds), floor_ms = floor_of(sizes, tensors);
  std::printf("%s\n", Json({{"optimizer", name},
                            {"gradient", sparse ? "sparse" : "dense"},
                            {"rows", sizes.rows},
                            {"width", sizes.width},
                            {"ids", sizes.ids},
                            {"device", compiler::target_of(how).device().describe()},
                            {"threads", how.threads},
                            {"step_ms", step_ms.median},
                            {"step_ms_min", step_ms.least},
                            {"rows_in_and_out_ms", floor_ms.median}})
                          .dump()
                          .c_str());
}

void all(const Sizes& sizes) {
  bench("sparse_adam", sizes, true, 3, [](State& s) { return std::make_unique<SparseAdam>(s / "optim"); });
  bench("rowwise_adagrad", sizes, true, 1,
        [](State& s) { return std::make_unique<RowwiseAdagrad>(s / "optim"); });
  bench("adagrad", sizes, true, 2, [](State& s) { return std::make_unique<Adagrad>(s / "optim"); });
  bench("sgd", sizes, true, 1, [](State& s) { return std::make_unique<Sgd>(s / "optim"); });
  bench("adagrad", sizes, false, 2, [](State& s) { return std::make_unique<Adagrad>(s / "optim"); });
  bench("adamw", sizes, false, 3, [](State& s) { return std::make_unique<AdamW>(s / "optim"); });
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  try {
    Sizes sizes;
    int64_t* fields[] = {&sizes.rows, &sizes.width, &sizes.ids, &sizes.steps};
    for (int i = 1; i < std::min(argc, 5); ++i) *fields[i - 1] = std::atoll(argv[i]);
    compiler::set_default_target(launcher::run_target(argc > 5 ? argv[5] : "cpu", 0, 1));
    all(sizes);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", error.kind(), error.what());
    return error.exit_code();
  }
  return 0;
}
