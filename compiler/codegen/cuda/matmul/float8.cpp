// quantize, its halves and scaled_mm. Products in float8 need compute capability 8.9.
#include <algorithm>

#include "compiler/codegen/cuda/library/cublaslt.h"
#include "compiler/codegen/cuda/library/library.h"
#include "compiler/codegen/cuda/matmul/gemm.h"
#include "compiler/codegen/cuda/source/module.h"
#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep::compiler::cuda {

namespace {
constexpr int64_t kTile = 128;  // of the kernel quantize

class Quantize : public LibraryCall {
 public:
  Quantize(CudaDevice& device, DType from, DType to, int64_t rows, int64_t columns, bool rowwise,
           const std::string& cache_dir)
      : kernel_(source_module(device, quantize_source(from, to), cache_dir),
                rowwise ? "quantize_rowwise" : "quantize"),
        rows_(rows),
        columns_(columns),
        rowwise_(rowwise),
        text_(str(rowwise ? "quantize_rowwise " : "quantize ", rows, "x", columns, " ", name(from), " ",
                  hash_hex(quantize_source(from, to)))) {
    LS_CHECK(rows < INT32_MAX && columns < INT32_MAX, text_);
  }
  std::string algorithm() const override { return text_; }
  double flops() const override { return (rowwise_ ? 4.0 : 2.0) * static_cast<double>(rows_ * columns_); }
  // The operands in the order of the op, then the sizes.
  void enqueue(void* const* args, void*, Stream& stream, int) const override {
    int rows = static_cast<int>(rows_), columns = static_cast<int>(columns_),
        across = static_cast<int>((columns_ + kTile - 1) / kTile);
    const auto blocks = static_cast<unsigned>((rows_ + kTile - 1) / kTile * across);
    std::vector<void*> operands(args, args + (rowwise_ ? 7 : 5)), params;
    for (void*& operand : operands) params.push_back(&operand);
    params.insert(params.end(), {&rows, &columns, &across});
    launch(kernel_, blocks, 1, 1, 256, 0, stream, params.data(), text_);
  }

 private:
  SourceKernel kernel_;
  int64_t rows_, columns_;
  bool rowwise_;
  std::string text_;
};

// Eight elements per thread.
class Cast : public LibraryCall {
 public:
  Cast(CudaDevice& device, DType from, DType to, int64_t count, const std::string& cache_dir)
      : kernel_(source_module(device, quantize_source(from, to), cache_dir), "cast_float8"),
        count_(count),
        text_(str("cast_float8 ", count, " ", name(from), " ", hash_hex(quantize_source(from, to)))) {}
  std::string algorithm() const override { return text_; }
  double flops() const override { return static_cast<double>(count_); }
  void enqueue(void* const* args, void*, Stream& stream, int) const override {
    long long groups = count_ / 8;
    void *x = args[0], *most = args[1], *out = args[2];
    void* params[] = {&x, &most, &out, &groups};
    launch(kernel_, static_cast<unsigned>(std::min<int64_t>((groups + 255) / 256, kMostBlocks)), 1, 1, 256, 0,
           stream, params, text_);
  }

 private:
  static constexpr int64_t kMostBlocks = 4096;
  SourceKernel kernel_;
  int64_t count_;
  std::string text_;
};

class Transpose : public LibraryCall {
 public:
  Transpose(CudaDevice& device, DType of, int64_t rows, int64_t columns, const std::string& cache_dir)
      : kernel_(source_module(device, quantize_source(DType::bf16, of), cache_dir), "transpose_float8"),
        rows_(rows),
        columns_(columns),
        text_(str("transpose_float8 ", rows, "x", columns, " ", hash_hex(quantize_source(DType::bf16, of)))) {
    LS_CHECK(rows < INT32_MAX && columns < INT32_MAX, text_);
  }
  std::string algorithm() const override { return text_; }
  double flops() const override { return static_cast<double>(rows_ * columns_); }
  void enqueue(void* const* args, void*, Stream& stream, int) const override {
    int rows = static_cast<int>(rows_), columns = static_cast<int>(columns_),
        across = static_cast<int>((columns_ + kTile - 1) / kTile);
    const auto blocks = static_cast<unsigned>((rows_ + kTile - 1) / kTile * across);
    void *from = args[0], *most = args[1], *turned = args[2], *inverse = args[3];
    void* params[] = {&from, &most, &turned, &inverse, &rows, &columns, &across};
    launch(kernel_, blocks, 1, 1, 256, 0, stream, params, text_);
  }

 private:
  SourceKernel kernel_;
  int64_t rows_, columns_;
  std::string text_;
};

class ScaledProduct : public LibraryCall {
 public:
  ScaledProduct(std::unique_ptr<Gemm> gemm, bool bias) : gemm_(std::move(gemm)), bias_(bias) {}
  size_t workspace(int) const override { return gemm_->workspace(); }
  std::string algorithm() const override { return gemm_->algorithm(); }
  double flops() const override { return gemm_->flops(); }
  void enqueue(void* const* args, void* workspace, Stream& stream, int) const override {
    GemmArgs call;
    call.a = args[0], call.b = args[1], call.scale_a = args[2], call.scale_b = args[3];
    if (bias_) call.bias = args[4];
    call.d = args[bias_ ? 5 : 4];
    gemm_->enqueue(call, workspace, stream);
  }

 private:
  std::unique_ptr<Gemm> gemm_;
  bool bias_;
};

// Scales of rows: cuBLASLt supports them only on compute capability 9.0, from libcublas 12.9 on.
void check_rowwise(const Properties& gpu, const Node& node) {
  const std::string here = str("[", node.op, "] ", node.at.text(), ": "),
                    out = "; choose train.float8.recipe=tensorwise, or call float8 without a recipe";
  if (gpu.major != 9 || gpu.minor != 0)
    throw UserError(str(here, gpu.name, " has compute capability ", gpu.major, ".", gpu.minor,
                        ", and cuBLASLt multiplies with scales of rows only on 9.0", out));
  if (cublaslt().GetVersion() < 120900)
    throw UserError(str(here, "cuBLASLt ", cublaslt_version(),
                        " has no scales of rows, which came with 12.9; install a newer libcublas", out));
}

std::unique_ptr<LibraryCall> make_scaled_mm(CudaDevice& device, const Node& node,
                                            const std::vector<Operand>& in, const std::vector<Operand>& out) {
  GemmOptions o;
  o.k = in[0].shape.back(), o.m = numel(in[0].shape) / o.k, o.n = out[0].shape.back();
  o.tb = true;
  o.lda = o.ldb = o.k, o.ldd = o.n;
  o.in = in[0].dtype, o.in_b = in[1].dtype, o.out = out[0].dtype;
  o.fast = node.attrs.flag("fast");
  o.rowwise = !in[2].shape.empty();
  if (o.rowwise) check_rowwise(device.properties(), node);
  o.epilogue = in.size() == 5 ? Epilogue::bias : Epilogue::none;
  auto gemm = make_gemm(device, o);
  if (!gemm)
    throw UserError(str("[", node.op, "] ", node.at.text(), ": cuBLASLt ", cublaslt_version(),
                        " has no product for ", text(o), "; train in bf16"));
  return std::make_unique<ScaledProduct>(std::move(gemm), in.size() == 5);
}
}  // namespace

std::unique_ptr<LibraryCall> make_float8(CudaDevice& device, const Node& node, const std::vector<Operand>& in,
                                         const std::vector<Operand>& out, const TargetOptions& options) {
  for (const auto& operand : in) LS_CHECK(is_dense(operand), node.op, " reads dense operands");
  const Properties& gpu = device.properties();
  if (10 * gpu.major + gpu.minor < 89)
    throw UserError(str("[", node.op, "] ", node.at.text(), ": ", gpu.name, " has compute capability ",
                        gpu.major, ".", gpu.minor, ", and float8 needs 8.9 or higher; train in bf16"));
  if (node.op == ops::scaled_mm) return make_scaled_mm(device, node, in, out);
  const int64_t count = numel(in[0].shape), columns = in[0].shape.back(), rows = count / columns;
  const DType from = in[0].dtype, to = out[0].dtype;
  LS_CHECK(node.op == ops::quantize, node.op);
  const std::string half = node.attrs.has("half") ? node.attrs.word("half") : "";
  if (half == "cast") return std::make_unique<Cast>(device, from, to, count, options.cache_dir);
  if (half == "transpose") return std::make_unique<Transpose>(device, from, rows, columns, options.cache_dir);
  return std::make_unique<Quantize>(device, from, to, rows, columns, in.size() == 3, options.cache_dir);
}

}  // namespace lockstep::compiler::cuda
