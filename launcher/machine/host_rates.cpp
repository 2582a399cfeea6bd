// Measures the rates of the library's own calls on a few shapes, and of copies. Takes the best of several
// runs, because the host may be in use.
#include "launcher/machine/host_rates.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "compiler/codegen/cache/kernel_cache.h"
#include "compiler/codegen/library/library.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/device/device.h"
#include "core/reading/json_text.h"
#include "launcher/machine/host_cores.h"

namespace lockstep::launcher {

using namespace compiler;

namespace {
using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The shortest of the runs of `work` within `time` seconds, at least three.
double shortest(double time, const std::function<void()>& work) {
  double best = 1e9;
  const auto begin = Clock::now();
  for (int runs = 0; runs < 3 || seconds_since(begin) < time; ++runs) {
    const auto from = Clock::now();
    work();
    best = std::min(best, seconds_since(from));
  }
  return best;
}

// FLOP/s of consecutive calls on zeros, which take the same time as other numbers.
double rate_of_calls(const std::vector<std::unique_ptr<LibraryCall>>& calls, size_t bytes, int threads) {
  double flops = 0;
  size_t workspace = 0;
  for (const auto& call : calls)
    flops += call->flops(), workspace = std::max(workspace, call->workspace(threads));
  constexpr size_t kArguments = 10, kAligned = 256;
  const size_t each = (bytes + kAligned - 1) / kAligned * kAligned;
  std::vector<std::byte> memory(kArguments * each + workspace + kAligned);
  std::byte* base =
      memory.data() + (kAligned - reinterpret_cast<uintptr_t>(memory.data()) % kAligned) % kAligned;
  std::vector<void*> args;
  for (size_t i = 0; i < kArguments; ++i) args.push_back(base + i * each);
  const auto stream = cpu_device().make_stream();
  const double seconds = shortest(0.15, [&] {  // threads may share a core for a while
    for (const auto& call : calls) call->enqueue(args.data(), base + kArguments * each, *stream, threads);
  });
  return flops / seconds;
}

// x [1024, 256] of a layer of 1024 outputs: between a small model's products and a large one's.
double product_rate(DType dtype, int threads) {
  const Shape x{1024, 256}, weight{1024, 256}, y{1024, 1024};
  Node node;
  node.op = ops::linear;
  std::vector<std::unique_ptr<LibraryCall>> calls;
  calls.push_back(make_library_call(node, {dense_operand(dtype, x), dense_operand(dtype, weight)},
                                    {dense_operand(dtype, y)}));
  return rate_of_calls(calls, static_cast<size_t>(numel(y)) * size_of(dtype), threads);
}

// Forward and backward of 4 sequences of 256 tokens, 4 heads of 64, causal.
double attention_rate(DType dtype, int threads) {
  const Shape heads{4, 256, 4, 64}, rows{4, 4, 256};
  const Operand x = dense_operand(dtype, heads), lse = dense_operand(DType::f32, rows);
  Node forward, backward;
  forward.op = ops::sdpa, backward.op = ops::sdpa_grad;
  forward.attrs = backward.attrs = {{"causal", true}, {"scale", 0.125}};
  std::vector<std::unique_ptr<LibraryCall>> calls;
  calls.push_back(make_library_call(forward, {x, x, x}, {x, lse}));
  calls.push_back(make_library_call(backward, {x, x, x, x, x, lse}, {x, x, x}));
  return rate_of_calls(calls, static_cast<size_t>(numel(heads)) * sizeof(float), threads);
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The key has the processor and the number of cores, because hosts may share the folder.
std::string file_of(const std::string& processor, int64_t cores) {
  return str("host-rates-", hash_hex(str(processor, " ", cores)), ".json");
}
// copy_rate on the host of the table "cpu", two threads. A step reaches less: its calls start and stop, and
// their rows are short.
constexpr double kCopiesOfTable = 3.6e10;

Json json_of(const HostRates& rates) {
  return {{"processor", rates.processor},
          {"cores", rates.cores},
          {"products", rates.products},
          {"attention", rates.attention},
          {"copies", rates.copies},
          {"copying", rates.copying},
          {"link", {{"bandwidth", rates.link.bandwidth}, {"latency", rates.link.latency}}},
          {"quiet", rates.quiet},
          {"at", rates.at}};
}
HostRates from(const Json& json) {
  HostRates out;
  out.processor = json.at("processor").get<std::string>(), out.cores = json.at("cores").get<int64_t>();
  out.products = json.at("products").get<std::map<std::string, double>>();
  out.attention = json.at("attention").get<std::map<std::string, double>>();
  out.copies = json.at("copies").get<double>(), out.copying = json.at("copying").get<int64_t>();
  out.link = {json.at("link").at("bandwidth").get<double>(), json.at("link").at("latency").get<double>()};
  out.quiet = json.at("quiet").get<bool>(), out.at = json.at("at").get<int64_t>();
  return out;
}

}  // namespace

double copy_rate(int64_t threads) {
  constexpr size_t kBlock = size_t{8} << 20;  // bytes per thread, larger than its caches
  constexpr double kTime = 0.1;
  struct Copy {
    std::vector<char> one = std::vector<char>(kBlock, 'a'), other = std::vector<char>(kBlock, 'b');
    double rate = 0;
  };
  // allocated before threads run, so that a failure is reported here
  std::vector<Copy> copies(static_cast<size_t>(threads));
  {
    std::vector<std::jthread> running;
    for (Copy& copy : copies)
      running.emplace_back([&copy] {
        copy.rate = 2.0 * static_cast<double>(kBlock) / shortest(kTime, [&copy] {
                      std::memcpy(copy.other.data(), copy.one.data(), kBlock), copy.one.swap(copy.other);
                    });
      });
  }
  double sum = 0;
  for (const Copy& copy : copies) sum += copy.rate;
  return sum;
}

std::string host_processor() {
  std::string name = "an unnamed processor";
  std::ifstream about("/proc/cpuinfo");
  for (std::string line; std::getline(about, line);)
    if (line.rfind("model name", 0) == 0) {
      name = trim(line.substr(std::min(line.size(), line.find(':') + 1)));
      break;
    }
  return str(name, ", ", library_version());
}

HostRates measure_host_rates() {
  HostRates out;
  out.processor = host_processor(), out.cores = cores_of_process();
  double load = 0;  // average over a minute
  out.quiet = getloadavg(&load, 1) != 1 || load < 0.5 * static_cast<double>(out.cores), out.at = now();
  const auto threads = static_cast<int>(out.cores);
  for (const auto& [precision, dtype] : {std::pair{"fp32", DType::f32}, {"bf16", DType::bf16}})
    out.products[precision] = product_rate(dtype, threads),
    out.attention[precision] = attention_rate(dtype, threads);
  out.copying = std::min<int64_t>(16, out.cores);
  out.copies = copy_rate(out.copying);
  return out;
}

std::optional<HostRates> stored_host_rates() {
  try {
    const auto bytes = cpu::KernelCache().read(file_of(host_processor(), cores_of_process()));
    if (!bytes) return {};
    HostRates out = from(bounded_json(*bytes));
    if (out.processor == host_processor() && out.cores == cores_of_process()) return out;
  } catch (const UserError&) {
  } catch (const Json::exception&) {}  // of another version
  return {};
}

void store(const HostRates& rates) {
  try {
    cpu::KernelCache().write(file_of(rates.processor, rates.cores), json_of(rates).dump());
  } catch (const UserError&) {}  // reported when kernels need the folder
}

std::optional<HostRates> host_rates() {
  constexpr int64_t kHour = 3600;
  if (auto found = stored_host_rates(); found && (found->quiet || now() - found->at < kHour)) return found;
  try {
    HostRates measured = measure_host_rates();
    store(measured);
    return measured;
    // out of memory, no thread, unsupported product: the run does not need this
  } catch (const std::exception&) {}
  return {};
}

Roofline cpu_with(const HostRates& rates) {
  Roofline out = roofline_named("cpu");
  const double by_core = static_cast<double>(rates.cores) / static_cast<double>(out.cores);
  const double faster = rates.products.at("fp32") / (out.contraction.at("fp32") * by_core);
  const double thread = rates.copies / static_cast<double>(rates.copying) / (kCopiesOfTable / 2);
  out.contraction = rates.products, out.attention = rates.attention;
  out.kernels *= faster * by_core;
  out.memory *= rates.copies / kCopiesOfTable;
  out.launch /= faster;
  for (LinkSpeed* link : {&out.inside, &out.across}) link->bandwidth *= thread;
  if (rates.link.bandwidth > 0) out.inside = rates.link;
  out.cores = rates.cores;
  out.measured_on =
      str("measured here: ", rates.cores, rates.cores == 1 ? " core of " : " cores of ", rates.processor);
  return out;
}

Roofline roofline_here(const std::string& word) {
  const auto rates = word == "cpu" ? host_rates() : std::nullopt;
  return rates ? cpu_with(*rates) : roofline_named(word);
}
Roofline roofline_stored_here(const std::string& word) {
  const auto rates = word == "cpu" ? stored_host_rates() : std::nullopt;
  return rates ? cpu_with(*rates) : roofline_named(word);
}

}  // namespace lockstep::launcher
