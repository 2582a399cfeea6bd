// bench-gpu-contractions: every matrix product of a GPT-2, Llama, BERT or LSTM training step alone, as
// a step makes it: the floor that a step cannot go below. Products: forward, gradient of the input (dx),
// gradient of the weight (dw); in bf16 (sums in fp32), or by --precision in float8, tf32 or fp32. With --tune
// also the fastest of the first 8 algorithms. Where dims are no multiples of 8, the same padded up to them.
// Then the gradient of the embedding.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/library/cublaslt.h"
#include "compiler/codegen/cuda/library/library.h"
#include "compiler/codegen/cuda/matmul/gemm.h"
#include "compiler/codegen/cuda/matmul/gemm_bf16x6.h"
#include "core/base/error.h"

namespace {
using namespace lockstep;
using compiler::cuda::Epilogue;
using compiler::cuda::GemmOptions;

struct Model {
  const char* name;
  int64_t layers, width, tokens, vocabulary;
  int64_t kv_width = 0, hidden = 0;  // of a llama; 0: gpt
  int64_t steps = 0;                 // of an LSTM, each of tokens / steps rows
};
constexpr int64_t kMultiple = 8;  // of dims that are padded
// Of all products.
DType precision = DType::bf16;
bool tf32 = false, float8 = false;
struct Product {
  std::string name;
  int64_t count = 0;
  GemmOptions options;
};

// In float8 both operands lie by rows of what is summed.
GemmOptions product(int64_t m, int64_t n, int64_t k, bool ta, bool tb, Epilogue epilogue) {
  const bool forward = tb;
  if (float8)
    return {.m = m,
            .n = n,
            .k = k,
            .tb = true,
            .lda = k,
            .ldb = k,
            .ldd = n,
            .in = forward ? DType::f8_e4m3 : DType::f8_e5m2,
            .out = DType::bf16,
            .in_b = DType::f8_e4m3,
            .fast = forward,
            .epilogue = epilogue};
  bool aux = epilogue == Epilogue::gelu_bias_aux || epilogue == Epilogue::gelu_grad_sums;
  return {.m = m,
          .n = n,
          .k = k,
          .ta = ta,
          .tb = tb,
          .lda = ta ? m : k,
          .ldb = tb ? k : n,
          .ldd = n,
          .in = precision,
          .out = precision,
          .tf32 = tf32,
          .epilogue = epilogue,
          .ld_aux = aux ? n : 0};
}

// The products of one step; `fused`: bias, gelu and their gradients as epilogues where GPT-2 has them; in a
// llama weights that read the same rows as one product.
std::vector<Product> products(const Model& model, bool fused) {
  std::vector<Product> out;
  auto linear = [&](const std::string& name, int64_t count, int64_t in, int64_t of, Epilogue forward,
                    Epilogue dx, Epilogue dw) {
    if (!fused)
      forward = forward == Epilogue::none ? Epilogue::none : Epilogue::bias, dx = dw = Epilogue::none;
    out.push_back({name + " forward", count, product(model.tokens, of, in, false, true, forward)});
    out.push_back({name + " dx", count, product(model.tokens, in, of, false, false, dx)});
    out.push_back({name + " dw", count, product(of, in, model.tokens, true, false, dw)});
  };
  int64_t c = model.width;
  if (model.steps) {
    for (int64_t tokens : {model.tokens, model.tokens / model.steps}) {
      const bool step = tokens != model.tokens;
      const int64_t count = model.layers * (step ? model.steps : 1);
      out.push_back({step ? "step forward" : "input forward", count,
                     product(tokens, 4 * c, c, false, true, Epilogue::none)});
      out.push_back(
          {step ? "step dx" : "input dx", count, product(tokens, c, 4 * c, false, false, Epilogue::none)});
    }
    out.push_back({"dw", 2 * model.layers, product(4 * c, c, model.tokens, true, false, Epilogue::none)});
    linear("head", 1, c, model.vocabulary, Epilogue::bias, Epilogue::none, Epilogue::none);
    return out;
  }
  if (model.hidden) {
    auto plain = [&](const std::string& name, int64_t count, int64_t in, int64_t of) {
      linear(name, count, in, of, Epilogue::none, Epilogue::none, Epilogue::none);
    };
    if (fused) {
      plain("q, k and v", model.layers, c, c + 2 * model.kv_width);
      plain("gate and up", model.layers, c, 2 * model.hidden);
    } else {
      plain("q, attention out", 2 * model.layers, c, c);
      plain("k, v", 2 * model.layers, c, model.kv_width);
      plain("gate, up", 2 * model.layers, c, model.hidden);
    }
    if (fused) plain("attention out", model.layers, c, c);
    plain("down", model.layers, model.hidden, c);
    plain("head", 1, c, model.vocabulary);
    return out;
  }
  linear("attention in", model.layers, c, 3 * c, Epilogue::bias, Epilogue::none, Epilogue::sums_a);
  linear("attention out", model.layers, c, c, Epilogue::bias, Epilogue::none, Epilogue::sums_a);
  linear("mlp in", model.layers, c, 4 * c, Epilogue::gelu_bias_aux, Epilogue::none,
         Epilogue::none);  // its bias gradient: from mlp out dx
  linear("mlp out", model.layers, 4 * c, c, Epilogue::bias, Epilogue::gelu_grad_sums, Epilogue::sums_a);
  linear("head", 1, c, model.vocabulary, Epilogue::none, Epilogue::none, Epilogue::none);
  return out;
}

double measure(cuda::CudaDevice& device, const Model& model, bool fused, bool tune) {
  std::printf("\n%s, %lld tokens, %s\n%-22s %5s %9s %9s %9s %8s\n", model.name,
              static_cast<long long>(model.tokens),
              model.hidden ? (fused ? "merged" : "product by product")
              : fused      ? "epilogues fused"
                           : "bias only",
              "product", "count", "ms each", "ms all", "TFLOP/s", tune ? "tuned ms" : "");
  double total = 0, flops = 0, tuned_total = 0;
  for (const Product& row : products(model, fused)) {
    auto gemm = compiler::cuda::make_product(device, row.options, "");
    if (!gemm) {
      std::printf("%-22s cuBLASLt has no algorithm for %s\n", row.name.c_str(),
                  compiler::cuda::text(row.options).c_str());
      continue;
    }
    double ms = compiler::cuda::time_gemm(device, *gemm, row.options), tuned = 0;
    total += ms * static_cast<double>(row.count), flops += gemm->flops() * static_cast<double>(row.count);
    std::string others;
    if (tune) {
      std::vector<std::byte> first;
      tuned = ms;
      for (const auto& candidate : compiler::cuda::gemm_candidates(device, row.options, 8)) {
        const double time = first.empty() ? ms : compiler::cuda::time_gemm(device, *candidate, row.options);
        const auto bits = compiler::cuda::gemm_sample(device, *candidate, row.options, size_t{16} << 20);
        if (first.empty()) first = bits;
        const bool same = bits == first;
        if (same) tuned = std::min(tuned, time);
        const std::string& text = candidate->algorithm();
        const size_t at = text.find("tile="), end = text.find(" numerics");
        others += str("      ", time, same ? " same bits " : " OTHER BITS ", text.substr(at, end - at), "\n");
      }
      tuned_total += tuned * static_cast<double>(row.count);
    }
    std::printf("%-22s %5lld %9.4f %9.3f %9.1f ", row.name.c_str(), static_cast<long long>(row.count), ms,
                ms * static_cast<double>(row.count), gemm->flops() / ms * 1e-9);
    if (tune) std::printf("%8.4f", tuned);
    // Memory of 256-byte alignment may be answered by another algorithm than the 16 bytes that a program
    // promises.
    GemmOptions aligned = row.options;
    aligned.alignment = 256;
    auto other = compiler::cuda::make_gemm(device, aligned);
    GemmOptions padded = row.options;
    for (int64_t* of : {&padded.m, &padded.n, &padded.k, &padded.lda, &padded.ldb, &padded.ldd})
      *of = (*of + kMultiple - 1) / kMultiple * kMultiple;
    if (!(padded == row.options))
      if (auto gemm_padded = compiler::cuda::make_gemm(device, padded))
        std::printf(" padded %.4f ms", compiler::cuda::time_gemm(device, *gemm_padded, padded));
    auto tail = [](const compiler::cuda::Gemm& g) {
      return g.algorithm().substr(g.algorithm().find("algo="));
    };
    std::printf(" %s%s\n", tail(*gemm).c_str(),
                other && tail(*other) != tail(*gemm) ? "  (differs at 256-byte alignment)" : "");
    std::fputs(others.c_str(), stdout);
    std::fflush(stdout);
  }
  std::printf("%-22s %5s %9s %9.3f %9.1f", "sum", "", "", total, flops / total * 1e-9);
  if (tune) std::printf("  tuned %.3f", tuned_total);
  std::printf("\n");
  return total;
}

// The gradient of the embedding: random ids, and ids of which 1 in 20 is the same (as a space is in text).
void measure_rows(cuda::CudaDevice& device, int64_t count, int64_t table, int64_t width, DType dtype) {
  for (bool frequent : {false, true}) {
    Buffer host(static_cast<size_t>(count) * 4), ids(host.bytes(), device.memory());
    std::mt19937 random(1);
    for (int64_t i = 0; i < count; ++i)
      host.as<int32_t>()[i] =
          frequent && i % 20 == 0 ? 198 : static_cast<int32_t>(random() % static_cast<unsigned>(table));
    copy_to_device(device, ids.data(), host.data(), host.bytes());
    Node node;
    node.op = "embedding_grad";
    compiler::Operand dy = compiler::dense_operand(dtype, {count, width}),
                      rows = compiler::dense_operand(DType::i32, {count}),
                      out = compiler::dense_operand(dtype, {table, width});
    auto call = compiler::cuda::make_row_sums(device, node, {dy, rows}, {out}, {});
    Buffer from(static_cast<size_t>(count * width) * size_of(dtype), device.memory()),
        to(static_cast<size_t>(table * width) * size_of(dtype), device.memory()),
        workspace(call->workspace(1), device.memory());
    void* args[] = {from.data(), ids.data(), to.data()};
    auto stream = device.make_stream();
    constexpr int launches = 50;
    std::chrono::steady_clock::time_point start;
    for (int i = -5; i < launches; ++i) {
      if (i == 0) stream->synchronize(), start = std::chrono::steady_clock::now();
      call->enqueue(args, workspace.data(), *stream, 1);
    }
    stream->synchronize();
    double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() /
                launches;
    std::printf("embedding gradient %lld into %lldx%lld %s, %s ids: %.4f ms, %.0f GB/s, workspace %s\n",
                static_cast<long long>(count), static_cast<long long>(table), static_cast<long long>(width),
                std::string(name(dtype)).c_str(), frequent ? "1 in 20 equal" : "random", ms,
                static_cast<double>(from.bytes() + to.bytes()) / ms * 1e-6,
                bytes_text(static_cast<double>(workspace.bytes())).c_str());
  }
}
}  // namespace

int main(int argc, char** argv) try {
  bool tune = false;
  std::string only, wanted = "bf16";
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--tune") == 0)
      tune = true;
    else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc)
      only = argv[++i];
    else if (std::strcmp(argv[i], "--precision") == 0 && i + 1 < argc)
      wanted = argv[++i];
    else
      throw UserError(
          str("unknown argument ", argv[i],
              "; usage: bench-gpu-contractions [--tune] [--only \"Llama 8B\"] [--precision float8]"));
  }
  if (wanted != "bf16" && wanted != "float8" && wanted != "tf32" && wanted != "fp32")
    throw UserError(str("--precision is bf16, float8, tf32 or fp32, not ", wanted));
  float8 = wanted == "float8", tf32 = wanted == "tf32";
  precision = float8 || wanted == "bf16" ? DType::bf16 : DType::f32;
  auto device = cuda::open_device(0);
  std::printf("%s, cuBLASLt %s\n", device->describe().c_str(), compiler::cuda::cublaslt_version().c_str());
  for (const Model& model :
       {Model{"GPT-2 124M", 12, 768, 64 * 1024, 50304}, Model{"GPT-2 1558M", 48, 1600, 16 * 1024, 50304},
        Model{"Llama 8B", 32, 4096, 8192, 128256, 1024, 14336}, Model{"BERT base", 12, 768, 128 * 128, 30522},
        Model{.name = "LSTM",
              .layers = 2,
              .width = 650,
              .tokens = 128 * 128,
              .vocabulary = 10000,
              .steps = 128}})
    for (bool fused : {false, true})
      if (!(float8 && fused) && (only.empty() || only == model.name)) measure(*device, model, fused, tune);
  std::printf("\n");
  if (!only.empty()) return 0;
  for (DType dtype : {DType::bf16, DType::f32}) measure_rows(*device, 65536, 50304, 768, dtype);
  return 0;
} catch (const lockstep::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
