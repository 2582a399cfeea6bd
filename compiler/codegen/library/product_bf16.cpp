// bf16 products on AMX or AVX-512 bf16: oneDNN's matmul, one primitive per block, made for one thread and run
// on one.
#include <omp.h>

#include <algorithm>

#include "compiler/codegen/library/primitives.h"
#include "compiler/codegen/library/product.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
using dnnl::memory;

// A matrix of a batch: dense rows or columns, or packed into that form before the product.
struct Matrix {
  DimsOfRole batch, rows, cols;
  MatrixLie lie;
  bool packed;
  int64_t elements() const { return rows.count() * cols.count(); }
  memory::dims strides() const { return lie.transposed ? memory::dims{1, lie.ld} : memory::dims{lie.ld, 1}; }
};
Matrix matrix_of(const DimsOfRole& batch, const DimsOfRole& rows, const DimsOfRole& cols) {
  const auto lie = lie_of(rows, cols);
  return {batch, rows, cols, lie.value_or(MatrixLie{false, std::max<int64_t>(1, cols.count())}), !lie};
}

class Bf16Product : public HostCall {
 public:
  Bf16Product(const OperandSide& a, const OperandSide& b, bool bias)
      : a_(matrix_of(a.batch, a.free, a.contract)), b_(matrix_of(b.batch, b.contract, b.free)), bias_(bias) {
    m_ = a.free.count(), n_ = b.free.count(), k_ = a.contract.count(), batch_ = a.batch.count();
    blocks_ = product_blocks(batch_, m_, n_, k_, 32e6);
    ForThreads one(1);
    const int64_t side = blocks_.along_m ? m_ : n_, last = side - (blocks_.count - 1) * blocks_.step;
    last_ = plan(last);
    whole_ = blocks_.count > 1 ? plan(blocks_.step) : last_;
  }

  size_t workspace(int threads) const override {
    return static_cast<size_t>(aligned_bytes(packed_bytes()) + threads * scratch_bytes());
  }
  std::string algorithm() const override {
    return str("bf16 ", kind_, " m=", m_, " n=", n_, " k=", k_, " batch=", batch_, " blocks=", blocks_.count,
               "x", blocks_.step, blocks_.along_m ? "m" : "n", bias_ ? " +bias" : "");
  }
  double flops() const override {
    return 2.0 * static_cast<double>(batch_) * static_cast<double>(m_) * static_cast<double>(n_) *
           static_cast<double>(k_);
  }

  void run(void* const* args, void* workspace, int threads) const override {
    auto* pack = static_cast<uint16_t*>(workspace);
    const auto* a = static_cast<const uint16_t*>(args[0]);
    const auto* b = static_cast<const uint16_t*>(args[1]);
    const uint16_t* left = a_.packed ? packed(a_, a, pack, threads) : a;
    const uint16_t* right =
        b_.packed ? packed(b_, b, pack + (a_.packed ? batch_ * a_.elements() : 0), threads) : b;
    auto* c = static_cast<uint16_t*>(args[bias_ ? 3 : 2]);
    auto* scratch = static_cast<char*>(workspace) + aligned_bytes(packed_bytes());
#pragma omp parallel for num_threads(threads) schedule(static) if (batch_ * blocks_.count > 1)
    for (int64_t task = 0; task < batch_ * blocks_.count; ++task) {
      const int64_t batch = task / blocks_.count, block = task % blocks_.count, at = block * blocks_.step;
      const Plan& plan = block + 1 == blocks_.count ? last_ : whole_;
      const int64_t m0 = blocks_.along_m ? at : 0, n0 = blocks_.along_m ? 0 : at;
      ForThreads one(1);
      execute(plan.matmul,
              {{DNNL_ARG_SRC, plan.a, place(a_, left, batch, m0, 0)},
               {DNNL_ARG_WEIGHTS, plan.b, place(b_, right, batch, 0, n0)},
               {DNNL_ARG_BIAS, plan.bias, bias_ ? static_cast<uint16_t*>(args[2]) + n0 : nullptr},
               {DNNL_ARG_DST, plan.c, c + (batch * m_ + m0) * n_ + n0},
               {DNNL_ARG_SCRATCHPAD, plan.scratch, scratch + omp_get_thread_num() * scratch_bytes()}});
    }
  }

 private:
  struct Plan {
    memory::desc a, b, c, bias, scratch;
    dnnl::matmul matmul;
  };
  // For a block of `size` along the side that is cut.
  Plan plan(int64_t size) {
    const int64_t m = blocks_.along_m ? size : m_, n = blocks_.along_m ? n_ : size;
    constexpr auto type = memory::data_type::bf16;
    Plan out{{{m, k_}, type, a_.strides()},
             {{k_, n}, type, b_.strides()},
             {{m, n}, type, memory::dims{n_, 1}},
             {},
             {},
             {}};
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (bias_) out.bias = memory::desc({1, n}, type, memory::dims{n, 1});
    const dnnl::matmul::desc desc =
        bias_ ? dnnl::matmul::desc(out.a, out.b, out.bias, out.c) : dnnl::matmul::desc(out.a, out.b, out.c);
    const dnnl::matmul::primitive_desc chosen(desc, attr, onednn_engine());
    kind_ = chosen.impl_info_str();
    out.scratch = chosen.scratchpad_desc();
    out.matmul = dnnl::matmul(chosen);
    return out;
  }

  static void* place(const Matrix& matrix, const uint16_t* from, int64_t batch, int64_t row, int64_t col) {
    const int64_t start = matrix.packed ? batch * matrix.elements() : matrix.batch.offset(batch);
    const MatrixLie& lie = matrix.lie;
    return const_cast<uint16_t*>(from) + start + (lie.transposed ? row + col * lie.ld : row * lie.ld + col);
  }
  const uint16_t* packed(const Matrix& matrix, const uint16_t* from, uint16_t* to, int threads) const {
    const int64_t rows = matrix.rows.count(), cols = matrix.cols.count();
    std::vector<int64_t> at;
    for (int64_t c = 0; c < cols; ++c) at.push_back(matrix.cols.offset(c));
#pragma omp parallel for num_threads(threads) schedule(static) if (batch_ * rows * cols > 65536)
    for (int64_t i = 0; i < batch_ * rows; ++i) {
      const uint16_t* row = from + matrix.batch.offset(i / rows) + matrix.rows.offset(i % rows);
      for (int64_t c = 0; c < cols; ++c) to[i * cols + c] = row[at[c]];
    }
    return to;
  }
  size_t packed_bytes() const {
    return static_cast<size_t>(batch_) * 2 *
           static_cast<size_t>((a_.packed ? a_.elements() : 0) + (b_.packed ? b_.elements() : 0));
  }
  int64_t scratch_bytes() const {
    return aligned_bytes(std::max(whole_.scratch.get_size(), last_.scratch.get_size()));
  }

  Matrix a_, b_;
  bool bias_;
  int64_t m_, n_, k_, batch_;
  ProductBlocks blocks_;
  std::string kind_;  // oneDNN's name of the implementation
  Plan whole_, last_;
};
}  // namespace

std::unique_ptr<LibraryCall> make_bf16_product(const OperandSide& a, const OperandSide& b, bool bias) {
  constexpr double kLeast = 1 << 18;  // below this a primitive costs more than it saves
  const double m = static_cast<double>(a.free.count()), n = static_cast<double>(b.free.count()),
               k = static_cast<double>(a.contract.count());
  if (!multiplies_bf16() || a.batch.count() == 0 || 2 * m * n * k < kLeast) return nullptr;
  return std::make_unique<Bf16Product>(a, b, bias);
}

}  // namespace lockstep::compiler
