// bench-step: one training step of two GPTs on this machine, beside its floor.
//
// The floor is what no arrangement of the same arithmetic can beat here: every contraction at the rate that
// oneDNN reaches for its shape when it is run alone with all threads, plus the bytes of every other kernel
// and of the optimizer at the speed of a large copy.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <thread>

#include <oneapi/dnnl/dnnl.hpp>

#include "compiler/compile/compile.h"
#include "compiler/compile/memory_budget.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/models/gpt.h"
#include "core/optim/adamw.h"

using namespace lockstep;
using namespace lockstep::compiler;

namespace {
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Median seconds of `runs` calls.
template <class F>
double median(int runs, F f) {
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) {
    double start = now();
    f();
    times.push_back(now() - start);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Bytes per second of a copy that fits no cache, reads and writes counted.
double copy_rate(int threads) {
  constexpr int64_t kBytes = int64_t{256} << 20;
  Buffer from(kBytes), to(kBytes);
  std::memset(from.data(), 1, kBytes);
  double best = 1e9;
  for (int i = 0; i < 5; ++i)
    best = std::min(best, median(1, [&] {
#pragma omp parallel for num_threads(threads) schedule(static)
                      for (int64_t part = 0; part < 64; ++part)
                        std::memcpy(to.data() + part * (kBytes / 64), from.data() + part * (kBytes / 64),
                                    kBytes / 64);
                    }));
  return 2.0 * kBytes / best;
}

// Seconds of oneDNN's own product of this shape, all threads, random inputs. Of bf16: its operands lie as
// oneDNN likes them best.
double bf16_product_seconds(int64_t m, int64_t n, int64_t k) {
  using dnnl::memory;
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  constexpr auto type = memory::data_type::bf16;
  auto any = [&](int64_t rows, int64_t cols) {
    return memory::desc({rows, cols}, type, memory::format_tag::any);
  };
  const dnnl::matmul::primitive_desc chosen(dnnl::matmul::desc(any(m, k), any(k, n), any(m, n)), engine);
  memory a(chosen.src_desc(), engine), b(chosen.weights_desc(), engine), c(chosen.dst_desc(), engine);
  for (memory* one : {&a, &b})
    for (size_t i = 0; i < one->get_desc().get_size() / 2; ++i)
      static_cast<uint16_t*>(one->get_data_handle())[i] =
          static_cast<uint16_t>(0x3f00 + (philox::bits(1, 1, 0, i) & 0x807f));
  const dnnl::matmul matmul(chosen);
  double best = 1e9;
  for (int i = 0; i < 12; ++i)
    best = std::min(best, median(1, [&] {
                      matmul.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
                      stream.wait();
                    }));
  return best;
}
double product_seconds(int64_t m, int64_t n, int64_t k, int threads, bool halves) {
  if (halves) {
    omp_set_num_threads(threads);
    return bf16_product_seconds(m, n, k);
  }
  std::vector<float> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n)),
      c(static_cast<size_t>(m * n));
  for (size_t i = 0; i < a.size(); ++i) a[i] = philox::uniform(philox::bits(1, 1, 0, i)) - 0.5f;
  for (size_t i = 0; i < b.size(); ++i) b[i] = philox::uniform(philox::bits(1, 2, 0, i)) - 0.5f;
  omp_set_num_threads(threads);
  auto run = [&] { dnnl_sgemm('N', 'N', m, n, k, 1.0f, a.data(), k, b.data(), n, 0.0f, c.data(), n); };
  run();
  double best = 1e9;
  for (int i = 0; i < 7; ++i) best = std::min(best, median(1, run));
  return best;
}

struct Case {
  const char* name;
  models::GptOptions model;
  int64_t global, micro;
  int steps;
};

void bench(const Case& c, int threads, double copy, int64_t memory_budget, bool halves) {
  State state(solo_mesh(), 1);
  if (halves) state.compute_dtype(DType::bf16);
  models::Gpt gpt(state.root(), c.model);
  AdamW adamw(state / "optim", {.lr = 1e-3});
  CompileOptions options;
  options.threads = threads;
  options.memory_budget = memory_budget;
  if (halves) options.precision = "bf16";
  Shape shape{c.micro, c.model.context};
  Step step = compile(
      state, {{"ids", DType::i32, shape}, {"targets", DType::i32, shape}}, {c.global, c.micro, 0},
      [&](const std::vector<Tensor>& batch) {
        Loss loss = cross_entropy(gpt(batch[0]), batch[1]);
        adamw.update(grad(loss, state.parameters()));
        return loss;
      },
      options);
  state.materialize();
  auto fill = [&](int64_t first, int64_t count, const std::vector<void*>& fields) {
    for (int64_t i = 0; i < count * c.model.context; ++i) {
      auto token = [&](int64_t at) {
        return static_cast<int32_t>(
            philox::bits(3, 4, 0, static_cast<uint64_t>(first * c.model.context + at)) %
            static_cast<uint32_t>(c.model.vocab));
      };
      static_cast<int32_t*>(fields[0])[i] = token(i);
      static_cast<int32_t*>(fields[1])[i] = token(i + 1);
    }
  };
  int64_t i = 0;
  auto run = [&] { step.run({++i, fill}); };
  for (int warm = 0; warm < 2; ++warm) run();
  double seconds = median(c.steps, run);
  // Of each call the least of several steps: what else runs on the machine only adds.
  set_timing(true);
  const int64_t timed = std::max(2, c.steps / 3);
  std::vector<CallTime> calls, before = step.call_times();
  std::map<std::string, double> instructions, instructions_before = step.instruction_seconds();
  for (int64_t r = 0; r < timed; ++r) {
    run();
    const std::vector<CallTime> after = step.call_times();
    if (calls.empty()) {
      calls = after;
      for (CallTime& call : calls) call.seconds = 1e9;
    }
    for (size_t n = 0; n < after.size(); ++n)
      calls[n].seconds = std::min(calls[n].seconds, after[n].seconds - before[n].seconds);
    before = after;
    for (const auto& [kind, sum] : step.instruction_seconds()) {
      const double spent = sum - instructions_before[kind];
      auto [at, fresh] = instructions.try_emplace(kind, spent);
      if (!fresh) at->second = std::min(at->second, spent);
      instructions_before[kind] = sum;
    }
  }
  set_timing(false);

  // The floor, and where the time went.
  double products = 0, attention_flops = 0, products_s = 0, bytes = 0, rate = 0;
  std::map<std::string, double> share;
  std::map<std::string, double> floor_of;
  int64_t bodies = step.lane_plan().micro_batches;
  for (const CallTime& call : calls) {
    share[call.family] += call.seconds;
    const size_t at = call.what.find("m=");
    long long m = 0, cols = 0, k = 0, batch = 1;
    if (call.family == "contraction" && at != std::string::npos &&
        std::sscanf(call.what.c_str() + at, "m=%lld n=%lld k=%lld batch=%lld", &m, &cols, &k, &batch) == 4) {
      std::string key = str(m, "x", cols, "x", k);
      if (!floor_of.count(key)) floor_of[key] = product_seconds(m, cols, k, threads, halves);
      products += floor_of[key] * static_cast<double>(batch * bodies);
      rate = std::max(rate, call.flops / static_cast<double>(batch) / floor_of[key]);
      products_s += call.seconds;
    } else if (call.family == "attention") {
      attention_flops += call.flops * static_cast<double>(bodies);
      products_s += call.seconds;
    } else {
      bytes += static_cast<double>(call.bytes) * static_cast<double>(bodies);
    }
  }
  products += attention_flops / rate;  // at the rate of the fastest product
  int64_t parameters = 0;
  for (const auto& spec : state.specs())
    if (spec.role == Role::parameter) parameters += numel(spec.shape);
  // Optimizer: gradient, weight and two moments read, three written; one pass over the gradients of each
  // micro-batch into the sums.
  bytes += 4.0 * static_cast<double>(parameters) * (7 + 2.0 * static_cast<double>(bodies));
  double floor_s = products + bytes / copy;
  double tokens = static_cast<double>(c.global * c.model.context);
  std::printf("%s: %lld parameters, %lld x %lld tokens in %lld micro-batch%s, %d threads\n", c.name,
              static_cast<long long>(parameters), static_cast<long long>(c.global),
              static_cast<long long>(c.model.context), static_cast<long long>(bodies),
              bodies == 1 ? "" : "es", threads);
  std::printf("  step            %8.1f ms   %.0f tokens/s\n", seconds * 1e3, tokens / seconds);
  for (const auto& [kind, spent] : instructions)
    std::printf("    %-14s%8.1f ms\n", kind.c_str(), spent * 1e3);
  std::printf("  contractions    %8.1f ms   %.0f %% of the step (attention included)\n", products_s * 1e3,
              100 * products_s / seconds);
  for (const auto& [kind, spent] : share) std::printf("    %-12s  %8.1f ms\n", kind.c_str(), spent * 1e3);
  std::printf("  floor           %8.1f ms   = contractions alone %.1f ms + %.0f MB at %.1f GB/s %.1f ms\n",
              floor_s * 1e3, products * 1e3, bytes / 1e6, copy / 1e9, bytes / copy * 1e3);
  std::printf("  floor/measured  %8.2f\n", floor_s / seconds);
  std::printf("  arena %s, sums and buckets %s\n",
              bytes_text(static_cast<double>(step.arena_bytes())).c_str(),
              bytes_text(static_cast<double>(step.reduction_bytes())).c_str());
  std::printf("  recomputed      %s\n", text(step.plan().recompute).c_str());
  if (std::getenv("LOCKSTEP_BENCH_CALLS")) {
    std::vector<std::pair<double, std::string>> rows;
    for (size_t n = 0; n < calls.size(); ++n) {
      double spent = calls[n].seconds;
      rows.emplace_back(
          spent, str(calls[n].family, " ", calls[n].what, "  ",
                     number_text(static_cast<float>(static_cast<double>(calls[n].bytes) / 1e6)), " MB  ",
                     number_text(static_cast<float>(
                         calls[n].family == "kernel"
                             ? static_cast<double>(calls[n].bytes) * static_cast<double>(bodies) / spent / 1e9
                             : calls[n].flops * static_cast<double>(bodies) / spent / 1e9)),
                     " G/s"));
    }
    std::sort(rows.rbegin(), rows.rend());
    for (size_t n = 0; n < rows.size() && n < 40; ++n)
      std::printf("  %8.2f ms  %s\n", rows[n].first * 1e3, rows[n].second.c_str());
  }
  std::printf("\n");
}
}  // namespace

int main(int argc, char** argv) {
  try {
    int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    int steps = argc > 1 ? std::atoi(argv[1]) : 9;
    // A second argument is compile.memory_budget: none, full, or bytes; a third one train.precision.
    int64_t budget = parse_memory_budget(argc > 2 ? argv[2] : "none");
    const bool halves = argc > 3 && std::string(argv[3]) == "bf16";
    double copy = copy_rate(threads);
    bench({"quickstart (4 layers, 128 wide)",
           {.vocab = 256, .context = 128, .width = 128, .depth = 4, .heads = 4},
           32,
           4,
           steps * 3},
          threads, copy, budget, halves);
    bench({"6 layers, 384 wide",
           {.vocab = 256, .context = 256, .width = 384, .depth = 6, .heads = 6},
           16,
           16,
           steps},
          threads, copy, budget, halves);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", error.kind(), error.what());
    return error.exit_code();
  }
  return 0;
}
