// Products of the CPU in each way an operand lies, over several blocks, against sums in double: f32, bf16 and
// f16, the same bits on any number of threads.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/codegen/library/library.h"
#include "compiler/codegen/library/primitives.h"
#include "core/base/philox.h"
#include "core/device/device.h"
#include "core/types/half.h"

namespace lockstep::compiler {
namespace {

// A product of batched matrices; an operand is stored as rows, as columns, or as rows with a gap that no
// matrix of a library may have (each element two apart).
enum class Stored { rows, columns, apart };
struct Product {
  int64_t batch, m, n, k;
  Stored a = Stored::rows, b = Stored::rows;
};

class Tensors {
 public:
  Tensors(const Product& p, DType dtype) : p_(p), dtype_(dtype) {
    in_.push_back(operand({p.batch, p.m, p.k}, p.a, 1));
    in_.push_back(operand({p.batch, p.k, p.n}, p.b, 2));
    out_ = dense_operand(dtype, {p.batch, p.m, p.n});
  }

  std::vector<double> run(int threads, std::string* algorithm = nullptr) const {
    Node node;
    node.op = ops::dot;
    node.attrs = {{"lhs_batch", std::vector<int64_t>{0}},
                  {"rhs_batch", std::vector<int64_t>{0}},
                  {"lhs_contract", std::vector<int64_t>{2}},
                  {"rhs_contract", std::vector<int64_t>{1}}};
    auto call = make_library_call(node, in_, {out_});
    if (algorithm) *algorithm = call->algorithm();
    std::vector<std::byte> workspace(call->workspace(threads) + 256, std::byte{0xff});
    std::vector<std::byte> c(static_cast<size_t>(numel(out_.shape)) * size_of(dtype_), std::byte{0xff});
    std::vector<void*> args{const_cast<std::byte*>(bytes_[0].data()),
                            const_cast<std::byte*>(bytes_[1].data()), c.data()};
    void* at = workspace.data() + (256 - reinterpret_cast<uintptr_t>(workspace.data()) % 256) % 256;
    call->enqueue(args.data(), at, *cpu_device().make_stream(), threads);
    std::vector<double> out;
    for (int64_t i = 0; i < numel(out_.shape); ++i) out.push_back(get(c, i));
    return out;
  }

  // The largest difference to sums in double, over the sum of magnitudes.
  double error(const std::vector<double>& c) const {
    double worst = 0;
    for (int64_t i = 0; i < numel(out_.shape); i += 7) {
      const int64_t col = i % p_.n, row = i / p_.n % p_.m, batch = i / p_.n / p_.m;
      double sum = 0, size = 0;
      for (int64_t k = 0; k < p_.k; ++k) {
        const double x = at(0, {batch, row, k}) * at(1, {batch, k, col});
        sum += x, size += std::abs(x);
      }
      worst = std::max(worst, std::abs(c[static_cast<size_t>(i)] - sum) / std::max(size, 1e-30));
    }
    return worst;
  }

 private:
  Operand operand(const Shape& shape, Stored how, uint64_t stream) {
    Operand out = dense_operand(dtype_, shape);
    if (how == Stored::columns) out.strides = {shape[1] * shape[2], 1, shape[1]};
    if (how == Stored::apart) out.strides = {2 * shape[1] * shape[2], 2 * shape[2], 2};
    std::vector<std::byte> bytes(static_cast<size_t>(2 * numel(shape)) * size_of(dtype_));
    for (int64_t i = 0; i < 2 * numel(shape); ++i)
      put(bytes, i,
          static_cast<float>(philox::uniform(philox::bits(1, stream, 0, static_cast<uint64_t>(i)))) - 0.5f);
    bytes_.push_back(std::move(bytes));
    return out;
  }
  void put(std::vector<std::byte>& bytes, int64_t i, float value) const {
    if (dtype_ == DType::f32) reinterpret_cast<float*>(bytes.data())[i] = value;
    if (dtype_ == DType::bf16) reinterpret_cast<bf16*>(bytes.data())[i] = bf16(value);
    if (dtype_ == DType::f16) reinterpret_cast<f16*>(bytes.data())[i] = f16(value);
  }
  double get(const std::vector<std::byte>& bytes, int64_t i) const {
    if (dtype_ == DType::bf16) return static_cast<float>(reinterpret_cast<const bf16*>(bytes.data())[i]);
    if (dtype_ == DType::f16) return static_cast<float>(reinterpret_cast<const f16*>(bytes.data())[i]);
    return reinterpret_cast<const float*>(bytes.data())[i];
  }
  double at(size_t operand, const std::vector<int64_t>& index) const {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * in_[operand].strides[d];
    return get(bytes_[operand], offset);
  }

  Product p_;
  DType dtype_;
  std::vector<Operand> in_;
  Operand out_;
  std::vector<std::vector<std::byte>> bytes_;
};

const Product kProducts[] = {
    {1, 300, 200, 97},
    {1, 1100, 64, 130, Stored::rows, Stored::columns},
    {1, 70, 900, 256, Stored::columns, Stored::rows},
    {1, 129, 131, 300, Stored::columns, Stored::columns},
    {3, 90, 80, 64, Stored::apart, Stored::rows},
    {9, 65, 66, 67, Stored::rows, Stored::apart},
    {2, 513, 48, 1500, Stored::columns, Stored::apart},
    {1, 5, 7, 3},
    {1, 2000, 1, 400},
};

TEST(Contraction, ProductsHoweverTheirOperandsLie) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const Product& p : kProducts) {
      const Tensors tensors(p, dtype);
      std::string algorithm;
      const auto one = tensors.run(1, &algorithm), three = tensors.run(3);
      SCOPED_TRACE(str(name(dtype), " ", algorithm));
      EXPECT_TRUE(one == three) << "1 and 3 threads differ";
      // Rounded once, relative to the largest that the sum may be.
      EXPECT_LT(tensors.error(one), dtype == DType::f32 ? 3e-7 : dtype == DType::f16 ? 5e-4 : 4e-3);
    }
}

// x [70, 96] of ones, weight [150, 96] of 1/4, bias [150]: 24 + bias, rounded once.
TEST(Contraction, Bf16AddsABiasBeforeItRounds) {
  const Operand x = dense_operand(DType::bf16, {70, 96}), weight = dense_operand(DType::bf16, {150, 96}),
                bias = dense_operand(DType::bf16, {150}), y = dense_operand(DType::bf16, {70, 150});
  std::vector<bf16> one(70 * 96, bf16(1.0f)), quarter(150 * 96, bf16(0.25f)), added, out(70 * 150);
  for (int i = 0; i < 150; ++i) added.push_back(bf16(static_cast<float>(i) / 8));
  Node node;
  node.op = ops::linear;
  auto call = make_library_call(node, {x, weight, bias}, {y});
  std::vector<std::byte> workspace(call->workspace(2) + 256);
  void* at = workspace.data() + (256 - reinterpret_cast<uintptr_t>(workspace.data()) % 256) % 256;
  void* args[] = {one.data(), quarter.data(), added.data(), out.data()};
  call->enqueue(args, at, *cpu_device().make_stream(), 2);
  for (int i = 0; i < 70 * 150; ++i)
    ASSERT_EQ(static_cast<float>(out[static_cast<size_t>(i)]),
              static_cast<float>(bf16(24.0f + static_cast<float>(bf16(static_cast<float>(i % 150) / 8)))))
        << i;
}

TEST(Contraction, Bf16TakesTheProcessorsOwnProducts) {
  std::string large, small;
  Tensors({1, 300, 200, 97}, DType::bf16).run(1, &large);
  Tensors({1, 5, 7, 3}, DType::bf16).run(1, &small);
  EXPECT_EQ(small.rfind("bf16 as sgemm m=5 n=7 k=3", 0), 0u) << small;
  if (multiplies_bf16())
    EXPECT_EQ(large.find("sgemm"), std::string::npos) << large;
  else
    EXPECT_EQ(large.rfind("bf16 as sgemm m=300", 0), 0u) << large;
}

}  // namespace
}  // namespace lockstep::compiler
