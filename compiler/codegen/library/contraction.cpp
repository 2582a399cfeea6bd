// dot and linear on oneDNN's sgemm. f16, and bf16 on processors without bf16 instructions, are widened first
// (the product of two is exact in f32), summed in f32 and rounded once, after the bias. f64 uses a plain loop
// with a fixed order.
#include <omp.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "compiler/codegen/library/product.h"
#include "compiler/codegen/sums/halves.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
class Contraction : public HostCall {
 public:
  Contraction(OperandSide a, OperandSide b, bool bias, DType dtype)
      : a_(std::move(a)), b_(std::move(b)), bias_(bias), dtype_(dtype) {
    m_ = a_.free.count(), n_ = b_.free.count(), k_ = a_.contract.count(), batch_ = a_.batch.count();
    lie_a_ = lie_of(a_.free, a_.contract);
    lie_b_ = lie_of(b_.contract, b_.free);
    // Blocks of at least about 8 Mflop: up to 4 of them, beyond that one per 1.2 Gflop. Each block packs the
    // other side again: 8 blocks cost 5 to 20 % more than 4 for products of 3 Gflop. They are cut along the
    // longer side at multiples of 48 (oneDNN's register tile).
    const ProductBlocks cut = product_blocks(batch_, m_, n_, k_, 8e6);
    along_m_ = cut.along_m, step_ = cut.step, blocks_ = cut.count;
  }

  size_t workspace(int threads) const override {
    if (dtype_ == DType::f64) return 0;
    if (is_half(dtype_))
      return static_cast<size_t>(batch_ * (m_ * k_ + k_ * n_) + threads * block_elements()) * 4 + 64;
    return ((lie_a_ ? 0 : batch_ * m_ * k_) + (lie_b_ ? 0 : batch_ * k_ * n_)) * 4 + 64;
  }
  std::string algorithm() const override {
    if (dtype_ == DType::f64) return "loop f64";
    std::string prefix = is_half(dtype_) ? str(name(dtype_), " as ") : "";
    return str(prefix, "sgemm m=", m_, " n=", n_, " k=", k_, " batch=", batch_, " blocks=", blocks_, "x",
               step_, along_m_ ? "m" : "n", " chunk=", chunk_k(lie_a_ && lie_a_->transposed),
               bias_ ? " +bias" : "");
  }
  double flops() const override {
    return 2.0 * static_cast<double>(batch_) * static_cast<double>(m_) * static_cast<double>(n_) *
           static_cast<double>(k_);
  }

  void run(void* const* args, void* workspace, int threads) const override {
    if (dtype_ == DType::f64) return loop(args);
    if (batch_ * m_ * n_ == 0) return;
    float* pack = static_cast<float*>(workspace);
    OperandSide sa = a_, sb = b_;
    MatrixLie la = lie_a_.value_or(MatrixLie{false, k_}), lb = lie_b_.value_or(MatrixLie{false, n_});
    if (is_half(dtype_)) {
      float *a = pack, *b = a + batch_ * m_ * k_;
      const DimsOfRole &a_rows = la.transposed ? sa.contract : sa.free,
                       &a_cols = la.transposed ? sa.free : sa.contract;
      const DimsOfRole &b_rows = lb.transposed ? sb.free : sb.contract,
                       &b_cols = lb.transposed ? sb.contract : sb.free;
      widened(args[0], sa.batch, a_rows, a_cols, a, threads);
      widened(args[1], sb.batch, b_rows, b_cols, b, threads);
      sa.batch = dense_batch(m_ * k_), sb.batch = dense_batch(k_ * n_);
      return blocks(args, a, sa, {la.transposed, la.transposed ? m_ : k_}, b, sb,
                    {lb.transposed, lb.transposed ? k_ : n_}, b + batch_ * k_ * n_, threads);
    }
    const float* a = static_cast<const float*>(args[0]);
    const float* b = static_cast<const float*>(args[1]);
    if (!lie_a_)
      a = packed(a, sa.batch, sa.free, sa.contract, pack), pack += batch_ * m_ * k_,
      sa.batch = dense_batch(m_ * k_);
    if (!lie_b_) b = packed(b, sb.batch, sb.contract, sb.free, pack), sb.batch = dense_batch(k_ * n_);
    blocks(args, a, sa, la, b, sb, lb, nullptr, threads);
  }

 private:
  int64_t block_elements() const {
    return (along_m_ ? std::min(step_, m_) : m_) * (along_m_ ? n_ : std::min(step_, n_));
  }

  // The product of f32 operands, block by block. `scratch`: a thread's block before it is rounded to bf16 or
  // f16.
  void blocks(void* const* args, const float* a, const OperandSide& sa, MatrixLie la, const float* b,
              const OperandSide& sb, MatrixLie lb, float* scratch, int threads) const {
    bool half = is_half(dtype_);
    float* c = half ? nullptr : static_cast<float*>(args[bias_ ? 3 : 2]);
    const float* bias = bias_ && !half ? static_cast<const float*>(args[2]) : nullptr;
#pragma omp parallel for num_threads(threads) schedule(static) if (batch_ * blocks_ > 1)
    for (int64_t task = 0; task < batch_ * blocks_; ++task) {
      int64_t batch = task / blocks_, block = task % blocks_;
      const float* pa = a + sa.batch.offset(batch);
      const float* pb = b + sb.batch.offset(batch);
      int64_t m0 = 0, m1 = m_, n0 = 0, n1 = n_;
      (along_m_ ? m0 : n0) = block * step_;
      (along_m_ ? m1 : n1) = std::min((along_m_ ? m_ : n_), (block + 1) * step_);
      int64_t ldc = half ? n1 - n0 : n_;
      float* block_c =
          half ? scratch + omp_get_thread_num() * block_elements() : c + batch * m_ * n_ + m0 * n_ + n0;
      if (k_ == 0) {
        for (int64_t i = 0; i < m1 - m0; ++i)
          std::memset(block_c + i * ldc, 0, static_cast<size_t>(n1 - n0) * 4);
      } else {
        // A transposed left side is read by columns. Chunks of k keep that data in the cache (measured 240 ->
        // 286 Gflop/s at k = 4096).
        int64_t chunk = chunk_k(la.transposed);
        for (int64_t k0 = 0; k0 < k_; k0 += chunk) {
          int64_t k1 = std::min(k_, k0 + chunk);
          const float* left = pa + (la.transposed ? m0 + k0 * la.ld : m0 * la.ld + k0);
          const float* right = pb + (lb.transposed ? n0 * lb.ld + k0 : n0 + k0 * lb.ld);
          sgemm(la.transposed, lb.transposed, m1 - m0, n1 - n0, k1 - k0, left, la.ld, right, lb.ld,
                k0 ? 1.0f : 0.0f, block_c, ldc);
        }
      }
      if (bias)
        for (int64_t i = 0; i < m1 - m0; ++i)
          for (int64_t j = n0; j < n1; ++j) block_c[i * ldc + j - n0] += bias[j];
      if (half) {
        for (int64_t i = 0; bias_ && i < m1 - m0; ++i)
          add_halves(static_cast<const uint16_t*>(args[2]) + n0, block_c + i * ldc, ldc);
        uint16_t* out = static_cast<uint16_t*>(args[bias_ ? 3 : 2]) + batch * m_ * n_ + m0 * n_ + n0;
        for (int64_t i = 0; i < m1 - m0; ++i) narrow(dtype_, block_c + i * ldc, out + i * n_, ldc);
      }
    }
  }

  void add_halves(const uint16_t* from, float* to, int64_t count) const {
    constexpr int64_t kRun = 256;
    float run[kRun];
    for (int64_t at = 0; at < count; at += kRun) {
      int64_t n = std::min(kRun, count - at);
      widen(dtype_, from + at, run, n);
      for (int64_t i = 0; i < n; ++i) to[at + i] += run[i];
    }
  }
  // [batch, rows, cols] as dense f32.
  void widened(const void* from, const DimsOfRole& batch, const DimsOfRole& rows, const DimsOfRole& cols,
               float* to, int threads) const {
    const uint16_t* halves = static_cast<const uint16_t*>(from);
    int64_t nr = rows.count(), nc = cols.count();
    bool dense = nc == 1 || cols.stride() == std::optional<int64_t>(1);
    std::vector<int64_t> at;
    for (int64_t c = 0; c < nc && !dense; ++c) at.push_back(cols.offset(c));
#pragma omp parallel for num_threads(threads) schedule(static) if (batch_ * nr * nc > 65536)
    for (int64_t i = 0; i < batch_ * nr; ++i) {
      const uint16_t* row = halves + batch.offset(i / nr) + rows.offset(i % nr);
      float* out = to + i * nc;
      if (dense) widen(dtype_, row, out, nc);
      for (int64_t c = 0; c < nc && !dense; ++c) widen(dtype_, row + at[c], out + c, 1);
    }
  }
  int64_t chunk_k(bool transposed) const { return transposed && k_ >= 1024 ? 256 : std::max<int64_t>(k_, 1); }
  DimsOfRole dense_batch(int64_t stride) const { return {{batch_}, {stride}}; }
  const float* packed(const float* from, const DimsOfRole& batch, const DimsOfRole& rows,
                      const DimsOfRole& cols, float* to) const {
    int64_t nr = rows.count(), nc = cols.count();
    for (int64_t i = 0; i < batch_; ++i)
      for (int64_t r = 0; r < nr; ++r) {
        const float* row = from + batch.offset(i) + rows.offset(r);
        float* out = to + (i * nr + r) * nc;
        for (int64_t c = 0; c < nc; ++c) out[c] = row[cols.offset(c)];
      }
    return to;
  }
  // f64, in order of k.
  void loop(void* const* args) const {
    double* c = static_cast<double*>(args[bias_ ? 3 : 2]);
    for (int64_t i = 0; i < batch_; ++i)
      for (int64_t m = 0; m < m_; ++m)
        for (int64_t n = 0; n < n_; ++n) {
          double sum = 0;
          for (int64_t k = 0; k < k_; ++k) {
            double x = static_cast<const double*>(
                args[0])[a_.batch.offset(i) + a_.free.offset(m) + a_.contract.offset(k)];
            double y = static_cast<const double*>(
                args[1])[b_.batch.offset(i) + b_.free.offset(n) + b_.contract.offset(k)];
            sum += x * y;
          }
          if (bias_) sum += static_cast<const double*>(args[2])[n];
          c[(i * m_ + m) * n_ + n] = sum;
        }
  }

  OperandSide a_, b_;
  bool bias_;
  DType dtype_;
  int64_t m_, n_, k_, batch_, step_, blocks_;
  bool along_m_;
  std::optional<MatrixLie> lie_a_, lie_b_;
};
}  // namespace

std::unique_ptr<LibraryCall> make_product(const OperandSide& a, const OperandSide& b, bool bias,
                                          DType dtype) {
  if (dtype == DType::bf16)
    if (auto own = make_bf16_product(a, b, bias)) return own;
  return std::make_unique<Contraction>(a, b, bias, dtype);
}

std::unique_ptr<LibraryCall> make_contraction(const Node& node, const std::vector<Operand>& in,
                                              const std::vector<Operand>& out) {
  LS_CHECK(is_dense(out[0]), node.op, " writes a dense output");
  const bool linear = node.op == ops::linear, bias = linear && in.size() > 2;
  const int64_t last = static_cast<int64_t>(in[0].shape.size()) - 1;
  const OperandSide a = linear
                            ? side_of(in[0], {}, {last})
                            : side_of(in[0], node.attrs.list("lhs_batch"), node.attrs.list("lhs_contract")),
                    b = linear
                            ? side_of(in[1], {}, {1})
                            : side_of(in[1], node.attrs.list("rhs_batch"), node.attrs.list("rhs_contract"));
  return make_product(a, b, bias, in[0].dtype);
}

}  // namespace lockstep::compiler
