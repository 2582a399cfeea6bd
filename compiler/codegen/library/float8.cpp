// quantize, its halves and scaled_mm on the CPU, which has no float8 units: float8 numbers are exact in f32,
// and so are products of two.
#include <algorithm>

#include "compiler/codegen/library/library.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
constexpr float kLeast = 1e-12f;  // lower limit of a largest magnitude, the same on all devices
constexpr int64_t kTile = 16;     // divides all sizes

struct Scale {
  float by, inverse;
};
template <class F>
Scale scale_of(float most) {
  const float kept = most < kLeast ? kLeast : most;
  return {F::kMost / kept, kept / F::kMost};
}

template <class Element>
void each_tile(int64_t rows, int64_t columns, int threads, Element element) {
#pragma omp parallel for num_threads(threads) schedule(static) if (rows * columns > 65536)
  for (int64_t r0 = 0; r0 < rows; r0 += kTile)
    for (int64_t c0 = 0; c0 < columns; c0 += kTile)
      for (int64_t r = r0; r < r0 + kTile; ++r)
        for (int64_t c = c0; c < c0 + kTile; ++c) element(r, c);
}

// Calls `read` with the elements of a tensor of f32 or bf16.
template <class Read>
void with_elements(DType dtype, const void* x, Read read) {
  dtype == DType::f32 ? read(static_cast<const float*>(x)) : read(static_cast<const bf16*>(x));
}

template <class F>
class Quantize : public HostCall {
 public:
  Quantize(DType from, int64_t rows, int64_t columns, bool rowwise)
      : from_(from), rows_(rows), columns_(columns), rowwise_(rowwise) {}
  std::string algorithm() const override {
    return str("quantize ", rows_, "x", columns_, " ", name(from_), rowwise_ ? " rowwise" : "");
  }
  double flops() const override { return (rowwise_ ? 4.0 : 2.0) * static_cast<double>(rows_ * columns_); }
  void run(void* const* args, void*, int threads) const override {
    with_elements(from_, args[0], [&](const auto* x) { round(x, args, threads); });
  }

 private:
  // Scales of these largest magnitudes, and their inverses.
  static std::vector<float> scales(const void* magnitudes, int64_t count, void* inverses) {
    const auto* given = static_cast<const float*>(magnitudes);
    auto* inverse = static_cast<float*>(inverses);
    std::vector<float> out(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const Scale scale = scale_of<F>(given[i]);
      out[i] = scale.by, inverse[i] = scale.inverse;
    }
    return out;
  }
  template <class T>
  void round(const T* x, void* const* args, int threads) const {
    if (rowwise_)
      round_rowwise(x, args, threads);
    else
      round_tensorwise(x, args, threads);
  }
  template <class T>
  void round_tensorwise(const T* x, void* const* args, int threads) const {
    const float scale = scales(args[1], 1, args[4])[0];
    auto* out = static_cast<F*>(args[2]);
    auto* turned = static_cast<F*>(args[3]);
    each_tile(rows_, columns_, threads, [&](int64_t r, int64_t c) {
      out[r * columns_ + c] = turned[c * rows_ + r] = F(static_cast<float>(x[r * columns_ + c]) * scale);
    });
  }
  template <class T>
  void round_rowwise(const T* x, void* const* args, int threads) const {
    const std::vector<float> of_row = scales(args[1], rows_, args[5]),
                             of_column = scales(args[2], columns_, args[6]);
    auto* out = static_cast<F*>(args[3]);
    auto* turned = static_cast<F*>(args[4]);
    each_tile(rows_, columns_, threads, [&](int64_t r, int64_t c) {
      const auto value = static_cast<float>(x[r * columns_ + c]);
      out[r * columns_ + c] = F(value * of_row[r]), turned[c * rows_ + r] = F(value * of_column[c]);
    });
  }
  DType from_;
  int64_t rows_, columns_;
  bool rowwise_;
};

// The elements in order, by one scale.
template <class F>
class Cast : public HostCall {
 public:
  Cast(DType from, int64_t count) : from_(from), count_(count) {}
  std::string algorithm() const override { return str("cast_float8 ", count_, " ", name(from_)); }
  double flops() const override { return static_cast<double>(count_); }
  void run(void* const* args, void*, int threads) const override {
    with_elements(from_, args[0], [&](const auto* x) { round(x, args, threads); });
  }

 private:
  template <class T>
  void round(const T* x, void* const* args, int threads) const {
    const float scale = scale_of<F>(*static_cast<const float*>(args[1])).by;
    auto* out = static_cast<F*>(args[2]);
#pragma omp parallel for num_threads(threads) schedule(static) if (count_ > 65536)
    for (int64_t i = 0; i < count_; ++i) out[i] = F(static_cast<float>(x[i]) * scale);
  }

  DType from_;
  int64_t count_;
};

template <class F>
class Transpose : public HostCall {
 public:
  Transpose(int64_t rows, int64_t columns) : rows_(rows), columns_(columns) {}
  std::string algorithm() const override { return str("transpose_float8 ", rows_, "x", columns_); }
  double flops() const override { return static_cast<double>(rows_ * columns_); }
  void run(void* const* args, void*, int threads) const override {
    const auto* from = static_cast<const F*>(args[0]);
    auto* to = static_cast<F*>(args[2]);
    *static_cast<float*>(args[3]) = scale_of<F>(*static_cast<const float*>(args[1])).inverse;
    each_tile(rows_, columns_, threads,
              [&](int64_t r, int64_t c) { to[c * rows_ + r] = from[r * columns_ + c]; });
  }

 private:
  int64_t rows_, columns_;
};

// Widens both sides, multiplies in f32, then one pass scales, adds the bias and rounds.
class ScaledProduct : public HostCall {
 public:
  ScaledProduct(const std::vector<Operand>& in, int64_t m, int64_t n, int64_t k)
      : a_(in[0].dtype),
        b_(in[1].dtype),
        bias_(in.size() == 5),
        rowwise_(!in[2].shape.empty()),
        m_(m),
        n_(n),
        k_(k) {
    Node product;
    product.op = ops::dot;
    product.attrs = {
        {"lhs_batch", List{}}, {"rhs_batch", List{}}, {"lhs_contract", List{1}}, {"rhs_contract", List{1}}};
    product_ =
        make_contraction(product, {dense_operand(DType::f32, {m, k}), dense_operand(DType::f32, {n, k})},
                         {dense_operand(DType::f32, {m, n})});
  }
  size_t workspace(int threads) const override { return own_bytes() + product_->workspace(threads); }
  std::string algorithm() const override {
    return str(name(a_), " ", name(b_), " as ", product_->algorithm(), rowwise_ ? " rowwise" : "",
               bias_ ? " +bias" : "");
  }
  double flops() const override { return product_->flops(); }
  void run(void* const* args, void* workspace, int threads) const override {
    auto* a = static_cast<float*>(workspace);
    float *b = a + m_ * k_, *sums = b + n_ * k_;
    widen(a_, args[0], a, m_ * k_, threads);
    widen(b_, args[1], b, n_ * k_, threads);
    void* product_args[] = {a, b, sums};
    static_cast<const HostCall&>(*product_).run(product_args,
                                                static_cast<std::byte*>(workspace) + own_bytes(), threads);
    const auto *left = static_cast<const float*>(args[2]), *right = static_cast<const float*>(args[3]);
    const auto* bias = bias_ ? static_cast<const bf16*>(args[4]) : nullptr;
    auto* out = static_cast<bf16*>(args[bias_ ? 5 : 4]);
#pragma omp parallel for num_threads(threads) schedule(static) if (m_ * n_ > 65536)
    for (int64_t r = 0; r < m_; ++r)
      for (int64_t c = 0; c < n_; ++c) {
        const float sum = sums[r * n_ + c] * left[rowwise_ ? r : 0] * right[rowwise_ ? c : 0];
        out[r * n_ + c] = bf16(bias ? sum + static_cast<float>(bias[c]) : sum);
      }
  }

 private:
  using List = std::vector<int64_t>;
  size_t own_bytes() const {
    return (static_cast<size_t>(m_ * k_ + n_ * k_ + m_ * n_) * sizeof(float) + 255) / 256 * 256;
  }
  static void widen(DType dtype, const void* from, float* to, int64_t count, int threads) {
    float values[256];
    for (int bits = 0; bits < 256; ++bits) {
      const auto held = static_cast<uint8_t>(bits);
      values[bits] = dtype == DType::f8_e4m3 ? f8_e4m3::decode(held) : f8_e5m2::decode(held);
    }
    const auto* bytes = static_cast<const uint8_t*>(from);
#pragma omp parallel for num_threads(threads) schedule(static) if (count > 65536)
    for (int64_t i = 0; i < count; ++i) to[i] = values[bytes[i]];
  }

  DType a_, b_;
  bool bias_, rowwise_;
  int64_t m_, n_, k_;
  std::unique_ptr<LibraryCall> product_;
};
template <class F>
std::unique_ptr<LibraryCall> rounding(const Node& node, DType from, int64_t rows, int64_t columns,
                                      bool rowwise) {
  LS_CHECK(node.op == ops::quantize, node.op);
  const std::string half = node.attrs.has("half") ? node.attrs.word("half") : "";
  if (half == "cast") return std::make_unique<Cast<F>>(from, rows * columns);
  if (half == "transpose") return std::make_unique<Transpose<F>>(rows, columns);
  return std::make_unique<Quantize<F>>(from, rows, columns, rowwise);
}
}  // namespace

std::unique_ptr<LibraryCall> make_float8(const Node& node, const std::vector<Operand>& in,
                                         const std::vector<Operand>& out) {
  for (const auto& operand : in) LS_CHECK(is_dense(operand), node.op, " reads dense operands");
  const int64_t k = in[0].shape.back(), m = numel(in[0].shape) / k;
  if (node.op == ops::scaled_mm) return std::make_unique<ScaledProduct>(in, m, out[0].shape.back(), k);
  return out[0].dtype == DType::f8_e4m3 ? rounding<f8_e4m3>(node, in[0].dtype, m, k, in.size() == 3)
                                        : rounding<f8_e5m2>(node, in[0].dtype, m, k, in.size() == 3);
}

}  // namespace lockstep::compiler
