// What exactness costs in attention: cuDNN's forward pass, its backward pass deterministic and not, and the
// room's own on Hopper, with time, speed and workspace.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>

#include "compiler/codegen/cuda/attention/attention.h"
#include "core/base/error.h"

using namespace lockstep;
using namespace lockstep::cuda;
using namespace lockstep::compiler::cuda;

namespace {
constexpr int kRounds = 5, kCalls = 10;

// Milliseconds of one call: the median of rounds, each of some calls between two events.
double time_ms(Stream& stream, const std::function<void()>& call) {
  CUevent begin = nullptr, end = nullptr;
  check(driver().EventCreate(&begin, CU_EVENT_DEFAULT), "event");
  check(driver().EventCreate(&end, CU_EVENT_DEFAULT), "event");
  for (int i = 0; i < 3; ++i) call();
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    check(driver().EventRecord(begin, stream_of(stream)), "event");
    for (int i = 0; i < kCalls; ++i) call();
    check(driver().EventRecord(end, stream_of(stream)), "event");
    check(driver().EventSynchronize(end), "event");
    float ms = 0;
    check(driver().EventElapsedTime(&ms, begin, end), "event");
    rounds.push_back(static_cast<double>(ms) / kCalls);
  }
  check(driver().EventDestroy(begin), "event");
  check(driver().EventDestroy(end), "event");
  std::sort(rounds.begin(), rounds.end());
  return rounds[rounds.size() / 2];
}

Buffer random_bf16(CudaDevice& device, int64_t count) {
  std::vector<bf16> values(static_cast<size_t>(count));
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (bf16& value : values) value = bf16(uniform(random));
  Buffer buffer(values.size() * 2, device.memory());
  copy_to_device(device, buffer.data(), values.data(), buffer.bytes());
  return buffer;
}

struct Pieces {
  std::vector<AttentionPiece> pieces;
  std::vector<std::shared_ptr<const SdpaPlan>> plans;
  int64_t workspace = 0;
};
Pieces plan(CudaDevice& device, const AttentionShape& shape, bool deterministic, int64_t cap) {
  Pieces made;
  made.pieces = cut_attention(shape, cap);
  for (const AttentionPiece& piece : made.pieces) {
    std::string refused;
    made.plans.push_back(plan_sdpa(device, shape_of_piece(shape, piece), deterministic, refused));
    if (!made.plans.back()) throw InternalError(str("cuDNN refuses ", attention_text(shape), ": ", refused));
    made.workspace = std::max(made.workspace, made.plans.back()->workspace());
  }
  return made;
}

void report(const AttentionShape& shape, const char* name, double ms, int64_t workspace, size_t pieces,
            const std::string& plan) {
  std::printf("| %s | %s | %.3f | %.0f | %s | %zu | %s |\n", attention_text(shape).c_str(), name, ms,
              attention_flops(shape) / ms * 1e-9, bytes_text(static_cast<double>(workspace)).c_str(), pieces,
              plan.c_str());
  std::fflush(stdout);
}

void measure(CudaDevice& device, Stream& stream, int64_t batch, int64_t heads, int64_t kv_heads,
             int64_t tokens, int64_t size, bool causal) {
  AttentionShape shape;
  shape.dtype = DType::bf16, shape.reads.causal = causal,
  shape.scale = 1.0 / std::sqrt(static_cast<double>(size));
  shape.batch = batch, shape.heads = heads, shape.kv_heads = kv_heads, shape.queries = shape.keys = tokens,
  shape.size = size;
  // q, k and v are views into one [batch, tokens, 3 heads, size], as a model has them where heads share no
  // keys.
  int64_t width = heads * size, all = batch * tokens * width;
  HeadView packed{tokens * 3 * width, 3 * width, size}, dense{tokens * width, width, size};
  shape.q = shape.k = shape.v = shape.dq = shape.dk = shape.dv = packed;
  shape.o = shape.grad = dense;
  Buffer qkv = random_bf16(device, 3 * all), grad = random_bf16(device, all),
         dqkv(static_cast<size_t>(6 * all), device.memory()),
         o(static_cast<size_t>(2 * all), device.memory()),
         lse(static_cast<size_t>(batch * heads * tokens * 4), device.memory());
  auto part = [&](const Buffer& buffer, int64_t i) { return buffer.data() + i * width * 2; };
  AttentionPointers p{part(qkv, 0), part(qkv, 1),  part(qkv, 2),  o.data(),     lse.data(),
                      grad.data(),  part(dqkv, 0), part(dqkv, 1), part(dqkv, 2)};

  struct Variant {
    const char* name;
    bool backward, deterministic;
    int64_t cap;
  };
  constexpr int64_t kNoCap = int64_t{1} << 50;
  for (const Variant& v : {Variant{"forward", false, true, kNoCap},
                           {"backward, not deterministic", true, false, kNoCap},
                           {"backward, deterministic", true, true, score_cap(device.memory_info().total)},
                           {"backward, deterministic, 1 GiB", true, true, kLeastScoreCap},
                           {"backward, deterministic, 256 MiB", true, true, kLeastScoreCap / 4},
                           {"backward, deterministic, whole", true, true, kNoCap}}) {
    shape.backward = v.backward;
    Pieces made = plan(device, shape, v.deterministic, v.cap);
    Buffer workspace(static_cast<size_t>(made.workspace), device.memory());
    double ms = time_ms(stream, [&] {
      for (size_t i = 0; i < made.pieces.size(); ++i)
        made.plans[i]->enqueue(pointers_of_piece(shape, made.pieces[i], p), workspace.data(), stream);
    });
    report(shape, v.name, ms, made.workspace, made.pieces.size(), made.plans[0]->name());
  }
  if (!unfit_for_hopper(shape, device.properties()).empty()) return;
  shape.reads.first = 1, shape.reads.inputs = 6;
  auto call = make_hopper_attention(device, shape, "");
  Buffer workspace(call->workspace(1), device.memory());
  void* args[] = {p.grad, p.q, p.k, p.v, p.o, p.lse, p.dq, p.dk, p.dv};
  double ms = time_ms(stream, [&] { call->enqueue(args, workspace.data(), stream, 1); });
  report(shape, "backward, deterministic, our own", ms, static_cast<int64_t>(workspace.bytes()), 1,
         "Hopper's tiles");
}
}  // namespace

int main() try {
  std::string why;
  if (!available(&why)) {
    std::fprintf(stderr, "bench-gpu-attention: no GPU: %s\n", why.c_str());
    return 0;
  }
  std::shared_ptr<CudaDevice> device = open_device(0);
  device->enter();
  std::unique_ptr<Stream> stream = device->make_stream();
  std::printf("%s, %s; medians of %d rounds of %d calls\n\n", device->describe().c_str(),
              cudnn_version().c_str(), kRounds, kCalls);
  std::printf(
      "| shape | pass | ms | TFLOP/s | workspace | pieces | plan |\n| --- | --- | ---: | ---: | ---: | ---: "
      "| --- |\n");
  measure(*device, *stream, 16, 12, 12, 1024, 64, true);
  measure(*device, *stream, 64, 12, 12, 1024, 64, true);
  measure(*device, *stream, 16, 25, 25, 1024, 64, true);
  measure(*device, *stream, 8, 12, 12, 2048, 64, true);
  measure(*device, *stream, 1, 8, 8, 2048, 64, true);
  measure(*device, *stream, 1, 8, 8, 4096, 64, true);
  measure(*device, *stream, 4, 32, 8, 4096, 64, true);
  measure(*device, *stream, 32, 12, 2, 1024, 128, true);
  measure(*device, *stream, 4, 16, 16, 2048, 128, true);
  measure(*device, *stream, 1, 4, 1, 4096, 128, true);
  measure(*device, *stream, 1, 32, 8, 4096, 128, true);
  measure(*device, *stream, 4, 16, 16, 4096, 128, true);
  measure(*device, *stream, 2, 16, 16, 8192, 128, true);
  measure(*device, *stream, 1, 32, 8, 8192, 128, true);
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "bench-gpu-attention: %s: %s\n", error.kind(), error.what());
  return error.exit_code();
}
