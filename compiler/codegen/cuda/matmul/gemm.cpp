// Matrix products on cuBLASLt: descriptions, the choice of an algorithm, launches.
//
// cuBLASLt's matrices are column-major (the only order in which it has every epilogue). A row-major matrix is
// the column-major one of its transpose, so D = A B is computed as D^T = B^T A^T: our B is its A, our A its
// B, our n its rows.
//
// Determinism: cuBLAS gives the same bits at every run of one version on GPUs of one architecture and number
// of multiprocessors, if the caller provides the workspace (cuBLAS guide, "Results reproducibility"). Beyond
// that, split-k is only allowed with partial sums in the compute type in the workspace, added by a separate
// step; adding in place in the output type is not.
#include "compiler/codegen/cuda/matmul/gemm.h"

#include <algorithm>

#include "compiler/codegen/cuda/library/cublaslt.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::f64:
      return CUDA_R_64F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    case DType::f8_e4m3:
      return CUDA_R_8F_E4M3;
    case DType::f8_e5m2:
      return CUDA_R_8F_E5M2;
    default:
      throw InternalError(str("cuBLASLt has no matrix product of ", name(dtype)));
  }
}

cublasLtEpilogue_t native(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::gelu_bias_aux:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::gelu_grad:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::gelu_grad_sums:
      return CUBLASLT_EPILOGUE_DGELU_BGRAD;
    case Epilogue::sums_a:
      return CUBLASLT_EPILOGUE_BGRADB;  // operands are swapped
    case Epilogue::sums_b:
      return CUBLASLT_EPILOGUE_BGRADA;
  }
  throw InternalError("unknown epilogue");
}
bool has_bias(Epilogue e) { return e == Epilogue::bias || e == Epilogue::gelu_bias_aux; }
bool has_sums(Epilogue e) {
  return e == Epilogue::gelu_grad_sums || e == Epilogue::sums_a || e == Epilogue::sums_b;
}
bool has_aux(Epilogue e) {
  return e == Epilogue::gelu_bias_aux || e == Epilogue::gelu_grad || e == Epilogue::gelu_grad_sums;
}

DType b_type(const GemmOptions& o) { return o.in_b.value_or(o.in); }

// Descriptions are plain structs, so that a launch can copy the one that contains pointers.
struct Description {
  cublasLtMatmulDescOpaque_t matmul;
  cublasLtMatrixLayoutOpaque_t a, b, d;

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check(cublaslt().MatmulDescSetAttribute(&matmul, attribute, &value, sizeof value),
          str("cublasLtMatmulDescSetAttribute ", attribute));
  }
};

void set_batch(cublasLtMatrixLayoutOpaque_t& layout, int64_t batch, int64_t stride) {
  const CublasLt& lt = cublaslt();
  auto count = static_cast<int32_t>(batch);
  check(lt.MatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        "batch count");
  check(lt.MatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                    sizeof stride),
        "batch stride");
}

void set_layout(cublasLtMatrixLayoutOpaque_t& layout, DType dtype, int64_t rows, int64_t cols, int64_t ld,
                int64_t batch, int64_t stride) {
  check(cublaslt().MatrixLayoutInit_internal(&layout, sizeof layout, data_type(dtype),
                                             static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), ld),
        "cublasLtMatrixLayoutInit");
  if (batch > 1) set_batch(layout, batch, stride);
}

void check_gemm(const GemmOptions& o) {
  constexpr int64_t limit = INT32_MAX;  // the type of cuBLASLt's sizes
  LS_CHECK(o.m > 0 && o.n > 0 && o.k > 0 && o.batch > 0, text(o));
  LS_CHECK(o.m <= limit && o.n <= limit && o.k <= limit && o.batch <= limit, text(o));
  LS_CHECK(!has_aux(o.epilogue) || o.ld_aux >= o.n, text(o));
  const bool scaled = is_float8(o.in);
  LS_CHECK(o.in == o.out || (o.out == DType::f32 && (o.in == DType::bf16 || o.in == DType::f16)) ||
               (scaled && o.out == DType::bf16),
           text(o));
  LS_CHECK(b_type(o) == o.in || (scaled && is_float8(b_type(o))), text(o));
}

Description describe(const GemmOptions& o) {
  check_gemm(o);
  bool wide = o.in == DType::f64;
  auto compute = wide ? CUBLAS_COMPUTE_64F
                      : (o.tf32 && o.in == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F);
  Description out;
  check(cublaslt().MatmulDescInit_internal(&out.matmul, sizeof out.matmul, compute,
                                           wide ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescInit");
  int32_t op_a = o.tb ? CUBLAS_OP_T : CUBLAS_OP_N, op_b = o.ta ? CUBLAS_OP_T : CUBLAS_OP_N;
  out.set(CUBLASLT_MATMUL_DESC_TRANSA, op_a);
  out.set(CUBLASLT_MATMUL_DESC_TRANSB, op_b);
  auto epilogue = static_cast<uint32_t>(native(o.epilogue));
  out.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  // The choice of an algorithm only checks the alignment of these pointers and does not dereference them.
  void* aligned = reinterpret_cast<void*>(static_cast<uintptr_t>(o.alignment));
  if (has_bias(o.epilogue) || has_sums(o.epilogue)) out.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned);
  if (is_float8(o.in)) {
    out.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, aligned);
    out.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, aligned);
    out.set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<int8_t>(o.fast));
    if (o.rowwise)
      for (auto mode : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE})
        out.set(mode, static_cast<int32_t>(CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F));
    if (has_bias(o.epilogue))
      out.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(data_type(o.out)));
  }
  if (has_aux(o.epilogue)) {
    out.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aligned);
    out.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, o.ld_aux);
    if (o.batch > 1) out.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, o.stride_aux);
  }
  set_layout(out.a, b_type(o), o.tb ? o.k : o.n, o.tb ? o.n : o.k, o.ldb, o.batch, o.stride_b);
  set_layout(out.b, o.in, o.ta ? o.m : o.k, o.ta ? o.k : o.m, o.lda, o.batch, o.stride_a);
  set_layout(out.d, o.out, o.n, o.m, o.ldd, o.batch, o.stride_d);
  return out;
}

template <class T>
T config(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  T value{};
  size_t written = 0;
  auto status = cublaslt().MatmulAlgoConfigGetAttribute(&algo, attribute, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : T{};
}
std::string algorithm_text(const cublasLtMatmulAlgo_t& algo) {
  uint64_t numerics = 0;  // flags of units, accumulator and input types
  size_t written = 0;
  cublaslt().MatmulAlgoCapGetAttribute(&algo, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, &numerics,
                                       sizeof numerics, &written);
  std::ostringstream hex;
  hex << std::hex << numerics;
  return str("algo=", config<int32_t>(algo, CUBLASLT_ALGO_CONFIG_ID),
             " tile=", config<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_TILE_ID),
             " stages=", config<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_STAGES_ID),
             " splitk=", config<int32_t>(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
             " reduction=", config<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
             " swizzle=", config<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
             " custom=", config<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
             " inner=", config<uint16_t>(algo, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
             " cluster=", config<uint16_t>(algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID), " numerics=0x",
             hex.str());
}

class LtGemm : public Gemm {
 public:
  LtGemm(CudaDevice& device, const GemmOptions& options, const Description& description,
         const cublasLtMatmulHeuristicResult_t& choice)
      : handle_(cublaslt_handle(device)),
        options_(options),
        description_(description),
        algo_(choice.algo),
        workspace_(options.together > 1 ? std::max(choice.workspaceSize, kTogetherWorkspace)
                                        : choice.workspaceSize),
        text_(str("cublaslt ", text(options), " ", algorithm_text(choice.algo),
                  " workspace=", choice.workspaceSize)) {}

  size_t workspace() const override { return workspace_; }
  const std::string& algorithm() const override { return text_; }
  double flops() const override {
    return 2.0 * static_cast<double>(options_.batch) * static_cast<double>(options_.m) *
           static_cast<double>(options_.n) * static_cast<double>(options_.k);
  }
  void enqueue(const GemmArgs& args, void* workspace, Stream& stream) const override {
    Description call = description_;
    point(call, args);
    multiply(call, args, workspace, stream);
  }
  // The same algorithm, batched: a tile of each product is added in the same order as alone.
  bool enqueue_together(const GemmArgs& args, const Distances& apart, void* workspace,
                        Stream& stream) const override {
    if (options_.batch > 1 || has_aux(options_.epilogue) || has_sums(options_.epilogue) ||
        is_float8(options_.in) || apart.count > INT32_MAX)
      return false;
    const auto elements = [&](int64_t bytes, DType dtype) {
      return bytes / static_cast<int64_t>(size_of(dtype));
    };
    for (int64_t bytes : {apart.a, apart.b, apart.d})
      if (bytes % options_.alignment) return false;
    Description call = description_;
    set_batch(call.a, apart.count, elements(apart.b, b_type(options_)));
    set_batch(call.b, apart.count, elements(apart.a, options_.in));
    set_batch(call.d, apart.count, elements(apart.d, options_.out));
    point(call, args);
    cublasLtMatmulHeuristicResult_t result{};
    const auto status = cublaslt().MatmulAlgoCheck(handle_, &call.matmul, &call.a, &call.b, &call.d, &call.d,
                                                   &algo_, &result);
    if (status != CUBLAS_STATUS_SUCCESS || result.state != CUBLAS_STATUS_SUCCESS ||
        result.workspaceSize > workspace_)
      return false;
    multiply(call, args, workspace, stream);
    return true;
  }

 private:
  // Sets the pointers in a description.
  void point(Description& call, const GemmArgs& args) const {
    auto aligned = [&](const void* pointer, const char* which) {
      LS_CHECK(reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(options_.alignment) == 0, which,
               " lies at ", pointer, ", the product was made for multiples of ", options_.alignment,
               " bytes: ", text_);
    };
    aligned(args.a, "A"), aligned(args.b, "B"), aligned(args.d, "D");
    if (has_bias(options_.epilogue))
      aligned(args.bias, "bias"), call.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias);
    if (has_sums(options_.epilogue))
      aligned(args.sums, "sums"), call.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.sums);
    if (has_aux(options_.epilogue))
      aligned(args.aux, "aux"), call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, args.aux);
    if (is_float8(options_.in)) {  // operands are swapped
      if (options_.rowwise) aligned(args.scale_a, "scales of A"), aligned(args.scale_b, "scales of B");
      call.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, args.scale_b);
      call.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, args.scale_a);
    }
  }
  void multiply(Description& call, const GemmArgs& args, void* workspace, Stream& stream) const {
    const float one = 1, zero = 0;
    const double wide_one = 1, wide_zero = 0;
    bool wide = options_.in == DType::f64;
    check(
        cublaslt().Matmul(handle_, &call.matmul, wide ? static_cast<const void*>(&wide_one) : &one, args.b,
                          &call.a, args.a, &call.b, wide ? static_cast<const void*>(&wide_zero) : &zero,
                          args.d, &call.d, args.d, &call.d, &algo_, workspace, workspace_, stream_of(stream)),
        text_);
  }

  cublasLtHandle_t handle_;
  GemmOptions options_;
  Description description_;
  cublasLtMatmulAlgo_t algo_;
  size_t workspace_;
  std::string text_;
};
}  // namespace

const char* name(Epilogue epilogue) {
  static const char* const names[] = {"none",           "bias",   "gelu_bias_aux", "gelu_grad",
                                      "gelu_grad_sums", "sums_a", "sums_b"};
  return names[static_cast<size_t>(epilogue)];
}

std::string text(const GemmOptions& o) {
  std::string out = str("m=", o.m, " n=", o.n, " k=", o.k, " ", lockstep::name(o.in), ">",
                        lockstep::name(o.out), " A:", o.ta ? "[k,m]/" : "[m,k]/", o.lda,
                        " B:", o.tb ? "[n,k]/" : "[k,n]/", o.ldb, " D:[m,n]/", o.ldd);
  if (o.batch != 1) out += str(" batch=", o.batch, "(", o.stride_a, ",", o.stride_b, ",", o.stride_d, ")");
  if (o.tf32 && o.in == DType::f32) out += " tf32";
  if (o.in_b && *o.in_b != o.in) out += str(" B:", lockstep::name(*o.in_b));
  if (o.fast) out += " fast";
  if (o.rowwise) out += " rowwise";
  if (o.epilogue != Epilogue::none) out += str(" +", name(o.epilogue));
  if (has_aux(o.epilogue)) out += str(" aux/", o.ld_aux);
  if (o.together > 1) out += str(" together=", o.together, o.share_b ? " of one B" : "");
  if (o.alignment != 16) out += str(" align=", o.alignment);
  return out;
}

size_t preferred_choice(const GemmOptions& o, std::span<const int> clusters) {
  if (!o.tf32 || clusters.empty() || clusters[0] != CUBLASLT_CLUSTER_SHAPE_2x1x1) return 0;
  if (o.batch * o.m * o.n > kFewElements) return 0;
  for (size_t i = 1; i < clusters.size(); ++i)
    if (clusters[i] == CUBLASLT_CLUSTER_SHAPE_1x1x1 || clusters[i] == CUBLASLT_CLUSTER_SHAPE_1x2x1) return i;
  return 0;
}

namespace {
// The batched options of `together` products with these options, one after another in memory.
GemmOptions all_together(const GemmOptions& one) {
  GemmOptions out = one;
  out.batch = one.together, out.together = 1;
  out.stride_a = one.lda * (one.ta ? one.k : one.m), out.stride_d = one.ldd * one.m;
  out.stride_b = one.share_b ? 0 : one.ldb * (one.tb ? one.n : one.k);
  return out;
}

// cuBLASLt's choices for a product, in its order, with the preferred one first.
std::vector<cublasLtMatmulHeuristicResult_t> choices_for(CudaDevice& device, const GemmOptions& options,
                                                         int count, size_t workspace) {
  const CublasLt& lt = cublaslt();
  Description description = describe(options);
  cublasLtMatmulPreferenceOpaque_t preference;
  check(lt.MatmulPreferenceInit_internal(&preference, sizeof preference), "cublasLtMatmulPreferenceInit");
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(lt.MatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
          str("preference ", attribute));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{workspace});
  // Partial sums in the compute type, or none: with an epilogue, the sum would be rounded before the epilogue
  // reads it. In-place sums are added one after another in the output's dtype, which is allowed for f32.
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE;
  if (options.epilogue == Epilogue::none) reductions |= CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  if (options.epilogue == Epilogue::none && options.in == DType::f32)
    reductions |= CUBLASLT_REDUCTION_SCHEME_INPLACE;
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  for (auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(which, static_cast<uint32_t>(options.alignment));
  const int asked = options.tf32 ? std::max(count, kChoices) : count;
  std::vector<cublasLtMatmulHeuristicResult_t> found(asked);
  int returned = 0;
  auto status =
      lt.MatmulAlgoGetHeuristic(cublaslt_handle(device), &description.matmul, &description.a, &description.b,
                                &description.d, &description.d, &preference, asked, found.data(), &returned);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  check(status, str("cublasLtMatmulAlgoGetHeuristic for ", text(options)));
  found.resize(returned);
  std::erase_if(found, [](const auto& choice) { return choice.state != CUBLAS_STATUS_SUCCESS; });
  std::vector<int> clusters;
  for (const auto& choice : found)
    clusters.push_back(config<uint16_t>(choice.algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
  const auto first = found.begin() + static_cast<std::ptrdiff_t>(preferred_choice(options, clusters));
  if (first != found.end()) std::rotate(found.begin(), first, first + 1);
  if (found.size() > static_cast<size_t>(count)) found.resize(count);
  return found;
}
}  // namespace

std::vector<std::unique_ptr<Gemm>> gemm_candidates(CudaDevice& device, const GemmOptions& options,
                                                   int count) {
  device.enter();
  std::vector<cublasLtMatmulHeuristicResult_t> found;
  Description description = describe(options);
  if (options.together > 1) {  // and that a single product may use, too
    found = choices_for(device, all_together(options), count, kTogetherWorkspace);
    std::erase_if(found, [&](const auto& choice) {
      cublasLtMatmulHeuristicResult_t alone{};
      return cublaslt().MatmulAlgoCheck(cublaslt_handle(device), &description.matmul, &description.a,
                                        &description.b, &description.d, &description.d, &choice.algo,
                                        &alone) != CUBLAS_STATUS_SUCCESS ||
             alone.workspaceSize > kTogetherWorkspace;
    });
  }
  if (found.empty()) found = choices_for(device, options, count, kGemmWorkspace);
  std::vector<std::unique_ptr<Gemm>> out;
  for (const auto& choice : found)
    out.push_back(std::make_unique<LtGemm>(device, options, description, choice));
  return out;
}

std::unique_ptr<Gemm> make_gemm(CudaDevice& device, const GemmOptions& options) {
  auto found = gemm_candidates(device, options, 1);
  return found.empty() ? nullptr : std::move(found.front());
}

}  // namespace lockstep::compiler::cuda
