// Attention as products on cuBLASLt with softmax of rows between them, for calls that cuDNN refuses.
#include <algorithm>

#include "compiler/codegen/cuda/attention/attention.h"
#include "compiler/codegen/cuda/matmul/gemm.h"
#include "compiler/codegen/cuda/source/module.h"
#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep::compiler::cuda {

namespace {
int64_t ld_of(const AttentionShape& s) { return (s.keys + 7) / 8 * 8; }
bool half(const AttentionShape& s) { return s.dtype == DType::bf16 || s.dtype == DType::f16; }
size_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// A matrix for each head of each batch: q, k, ... of the call by its view, or scores of the piece by their
// place.
struct Matrix {
  void* at = nullptr;
  HeadView view;
  DType dtype = DType::f32;
};
// Parameters of a piece; matches the kernels' `Piece`.
struct Rows {
  int64_t batch, batches, head, rows;
};

// One of the products for every head of every batch of a piece. The product's own batch dim runs over the
// larger of the two counts, batches or heads; the other one is a loop.
class HeadProduct {
 public:
  // m, n, k and transposes are as in GemmOptions.
  HeadProduct(CudaDevice& device, const AttentionPiece& piece, int64_t m, int64_t n, int64_t k, bool ta,
              bool tb, const Matrix& a, const Matrix& b, const Matrix& d, bool tf32)
      : by_batch_(piece.batches >= piece.kv_heads),
        times_(by_batch_ ? piece.kv_heads : piece.batches),
        views_{a.view, b.view, d.view},
        sizes_{size_of(a.dtype), size_of(b.dtype), size_of(d.dtype)} {
    GemmOptions o;
    o.m = m, o.n = n, o.k = k, o.batch = by_batch_ ? piece.batches : piece.kv_heads;
    o.ta = ta, o.tb = tb, o.in = a.dtype, o.out = d.dtype, o.tf32 = tf32;
    o.lda = a.view.token, o.ldb = b.view.token, o.ldd = d.view.token;
    o.stride_a = inner(a.view), o.stride_b = inner(b.view), o.stride_d = inner(d.view);
    gemm_ = make_gemm(device, o);
  }
  const Gemm* gemm() const { return gemm_.get(); }
  double flops() const { return gemm_->flops() * static_cast<double>(times_); }
  void enqueue(void* a, void* b, void* d, void* workspace, Stream& stream) const {
    auto moved = [&](void* base, int which, int64_t i) {
      const int64_t outer = by_batch_ ? views_[which].head : views_[which].batch;
      return static_cast<std::byte*>(base) + i * outer * static_cast<int64_t>(sizes_[which]);
    };
    for (int64_t i = 0; i < times_; ++i) {
      GemmArgs call;
      call.a = moved(a, 0, i), call.b = moved(b, 1, i), call.d = moved(d, 2, i);
      gemm_->enqueue(call, workspace, stream);
    }
  }

 private:
  int64_t inner(const HeadView& view) const { return by_batch_ ? view.batch : view.head; }
  bool by_batch_;
  int64_t times_;
  HeadView views_[3];
  size_t sizes_[3];
  std::unique_ptr<Gemm> gemm_;
};

// The products of a piece. Forward: scores, and weights times v. Backward: scores, dp, and the gradients of
// v, q and k.
struct PieceProducts {
  PieceProducts(CudaDevice& device, const AttentionShape& s, const AttentionPiece& piece, bool tf32) {
    const int64_t t = s.queries, u = s.keys, d = s.size, ld = ld_of(s);
    const HeadView place{t * ld, ld, piece.batches * t * ld};
    const Matrix scores{nullptr, place, DType::f32}, weights{nullptr, place, s.dtype};
    auto call = [&](const HeadView& view) { return Matrix{nullptr, view, s.dtype}; };
    auto add = [&](int64_t m, int64_t n, int64_t k, bool ta, bool tb, const Matrix& a, const Matrix& b,
                   const Matrix& to) { all.emplace_back(device, piece, m, n, k, ta, tb, a, b, to, tf32); };
    add(t, u, d, false, true, call(s.q), call(s.k), scores);
    if (!s.backward) {
      add(t, d, u, false, false, weights, call(s.v), call(s.o));
    } else {
      add(t, u, d, false, true, call(s.grad), call(s.v), scores);
      add(u, d, t, true, false, weights, call(s.grad), call(s.dv));
      add(t, d, u, false, false, weights, call(s.k), call(s.dq));
      add(u, d, t, true, false, weights, call(s.q), call(s.dk));
    }
  }
  bool complete() const {
    return std::all_of(all.begin(), all.end(), [](const HeadProduct& one) { return one.gemm(); });
  }
  size_t workspace() const {
    size_t most = 0;
    for (const HeadProduct& one : all) most = std::max(most, one.gemm()->workspace());
    return most;
  }
  std::vector<HeadProduct> all;
};

class ProductAttention : public LibraryCall {
 public:
  ProductAttention(const AttentionShape& shape, std::vector<AttentionPiece> pieces,
                   std::vector<PieceProducts> products, std::string why)
      : shape_(shape), pieces_(std::move(pieces)), products_(std::move(products)), why_(std::move(why)) {}
  void open(CudaDevice& device, const std::string& cache_dir) {
    device.enter();
    const std::string source = attention_rows_source(shape_);
    source_hash_ = hash_hex(source);
    kernel_ = {source_module(device, source, cache_dir), kernel()};
  }
  size_t workspace(int) const override {
    size_t gemms = 0;
    for (const PieceProducts& one : products_) gemms = std::max(gemms, one.workspace());
    return place(pieces_[0]).products + gemms;
  }
  void enqueue(void* const* args, void* workspace, Stream& stream, int) const override {
    const AttentionPointers whole = attention_pointers(shape_, args);
    for (size_t i = 0; i < pieces_.size(); ++i)
      run(pieces_[i], products_[i].all, whole, static_cast<std::byte*>(workspace), stream);
  }
  std::string algorithm() const override {
    std::string out = str("products ", attention_text(shape_), " ", source_hash_, " deterministic");
    if (pieces_.size() > 1) out += str(" in ", pieces_.size(), " pieces");
    for (const HeadProduct& one : products_[0].all) out += str("; ", one.gemm()->algorithm());
    return why_.empty() ? out : out + "; " + why_;
  }
  double flops() const override { return attention_flops(shape_); }

 private:
  // Places of a piece's parts in the workspace. For f32, the operands of products share the places of scores
  // and dp.
  struct Places {
    size_t dp, weights, dscores, products;
  };
  Places place(const AttentionPiece& piece) const {
    const int64_t count = piece.batches * piece.kv_heads * shape_.queries * ld_of(shape_);
    const size_t scores = aligned(count * 4), operands = half(shape_) ? aligned(count * 2) : 0;
    const size_t dp = scores, end = shape_.backward ? 2 * scores : scores;
    if (!half(shape_)) return {dp, 0, dp, end};
    return {dp, end, end + operands, end + operands * (shape_.backward ? 2 : 1)};
  }
  const char* kernel() const { return shape_.backward ? "sdpa_score_gradients" : "sdpa_weights"; }
  void run(const AttentionPiece& piece, const std::vector<HeadProduct>& products,
           const AttentionPointers& whole, std::byte* memory, Stream& stream) const {
    const Places at = place(piece);
    const AttentionPointers p = pointers_of_piece(shape_, piece, whole);
    void *scores = memory, *dp = memory + at.dp, *weights = memory + at.weights,
         *dscores = memory + at.dscores, *scratch = memory + at.products;
    products[0].enqueue(p.q, p.k, scores, scratch, stream);
    if (shape_.backward) products[1].enqueue(p.grad, p.v, dp, scratch, stream);
    AttentionArgs packed = attention_args(shape_, whole, nullptr);
    Rows rows{piece.batch, piece.batches, piece.kv_head, piece.batches * piece.kv_heads * shape_.queries};
    void* params[] = {&packed, &rows, &scores, shape_.backward ? &dp : &weights, &weights, &dscores};
    launch(kernel_, static_cast<unsigned>((rows.rows + 7) / 8), 1, 1, 256, 0, stream, params, kernel());
    if (!shape_.backward) return products[1].enqueue(weights, p.v, p.o, scratch, stream);
    products[2].enqueue(weights, p.grad, p.dv, scratch, stream);
    products[3].enqueue(dscores, p.k, p.dq, scratch, stream);
    products[4].enqueue(dscores, p.q, p.dk, scratch, stream);
  }

  AttentionShape shape_;
  std::vector<AttentionPiece> pieces_;
  std::vector<PieceProducts> products_;  // one per piece
  std::string why_, source_hash_;
  SourceKernel kernel_;
};
}  // namespace

int64_t product_bytes(const AttentionShape& s) {
  const int64_t operands = half(s) ? static_cast<int64_t>(size_of(s.dtype)) : 0;
  return s.queries * ld_of(s) * (4 + operands) * (s.backward ? 2 : 1);
}

std::string unfit_for_products(const AttentionShape& s, int64_t cap, bool tf32) {
  if (s.dtype == DType::f64) return "f64";
  // Without tensor cores, computing the masked half of a causal call costs more than our own kernel, which
  // skips it.
  if (s.dtype == DType::f32 && !tf32 && s.reads.causal) return "causal in f32";
  if (s.heads != s.kv_heads) return str(s.heads, " heads share ", s.kv_heads, " key heads");
  const auto each = static_cast<int64_t>(16 / size_of(s.dtype));
  if (s.size % each != 0) return str("head size ", s.size, " is no multiple of 16 bytes");
  for (const HeadView& view : {s.q, s.k, s.v, s.o, s.grad, s.dq, s.dk, s.dv})
    if (view.batch % each || view.token % each || view.head % each)
      return "strides are no multiples of 16 bytes";
  if (product_bytes(s) > cap) return str("the scores of one head take ", product_bytes(s), " bytes");
  // Operations that our own kernel performs in the time of a launch.
  constexpr double kOperationsOfALaunch = 4e7;
  const int64_t launches = std::min(s.batch, s.heads) * (s.backward ? 5 : 2);
  if (attention_flops(s) < kOperationsOfALaunch * static_cast<double>(launches)) return "it is small";
  return "";
}

std::unique_ptr<LibraryCall> make_product_attention(CudaDevice& device, const AttentionShape& shape,
                                                    int64_t cap, bool tf32, const std::string& why,
                                                    const std::string& cache_dir) {
  const std::vector<AttentionPiece> pieces = cut_attention(shape, product_bytes(shape), cap);
  std::vector<PieceProducts> products;
  for (const AttentionPiece& piece : pieces) {
    products.emplace_back(device, shape, piece, tf32 && shape.dtype == DType::f32);
    if (!products.back().complete()) return nullptr;
  }
  auto call = std::make_unique<ProductAttention>(shape, pieces, std::move(products), why);
  call->open(device, cache_dir);
  return call;
}

}  // namespace lockstep::compiler::cuda
