// float8 on the GPU: quantize to the bit, products against a double reference, over odd tiles.
#include <cmath>

#include "compiler/codegen/cuda/library/library.h"
#include "tests/gpu/library_case.h"

namespace lockstep::compiler::cuda {
namespace {

class float8 : public LibraryCase {
 protected:
  void SetUp() override {
    LibraryCase::SetUp();
    if (device_ && 10 * device_->properties().major + device_->properties().minor < 89)
      GTEST_SKIP() << device_->properties().name << " has no units for float8";
  }
  static double decoded(const Array& array, int64_t i) { return array.at(i); }
  Array amax_of(const Array& x) {
    Array out = poisoned(DType::f32, 1);
    double most = 0;
    for (int64_t i = 0; i < x.size(); ++i) most = std::max(most, std::fabs(x.at(i)));
    set_double(DType::f32, out.host.data(), 0, most);
    upload(out);
    return out;
  }
  struct Made {
    Array rows, turned, inverse;
  };
  // Twice, over poisoned outputs; the bits are equal.
  Made quantized(const Array& x, const Array& most, int64_t rows, int64_t columns, DType dtype) {
    Node node;
    node.op = ops::quantize;
    node.attrs = {{"dtype", dtype}};
    auto call =
        make_float8(*device_, node, {dense_operand(x.dtype, {rows, columns}), dense_operand(DType::f32, {})},
                    {dense_operand(dtype, {rows, columns}), dense_operand(dtype, {columns, rows}),
                     dense_operand(DType::f32, {})},
                    {});
    std::vector<Made> made;
    for (int pass = 0; pass < 2; ++pass) {
      made.push_back(
          {poisoned(dtype, rows * columns), poisoned(dtype, rows * columns), poisoned(DType::f32, 1)});
      Made& to = made.back();
      void* args[] = {x.device.data(), most.device.data(), to.rows.device.data(), to.turned.device.data(),
                      to.inverse.device.data()};
      call->enqueue(args, nullptr, *stream_, 1);
      stream_->synchronize();
      download(to.rows), download(to.turned), download(to.inverse);
    }
    EXPECT_TRUE(same_bits(made[0].rows, made[1].rows) && same_bits(made[0].turned, made[1].turned));
    return std::move(made[0]);
  }
  Made quantized(const Array& x, int64_t rows, int64_t columns, DType dtype) {
    const Array most = amax_of(x);
    return quantized(x, most, rows, columns, dtype);
  }
  // The same in two halves: cast where it lies, then turned.
  Made cast_and_turned(const Array& x, const Array& most, int64_t rows, int64_t columns, DType dtype) {
    Node cast, turn;
    cast.op = turn.op = ops::quantize;
    cast.attrs = {{"dtype", dtype}, {"half", std::string("cast")}};
    turn.attrs = {{"dtype", dtype}, {"half", std::string("transpose")}};
    const Operand one = dense_operand(DType::f32, {}), lying = dense_operand(dtype, {rows, columns});
    auto first = make_float8(*device_, cast, {dense_operand(x.dtype, {rows, columns}), one}, {lying}, {});
    auto second = make_float8(*device_, turn, {lying, one}, {dense_operand(dtype, {columns, rows}), one}, {});
    Made to{poisoned(dtype, rows * columns), poisoned(dtype, rows * columns), poisoned(DType::f32, 1)};
    void* cast_args[] = {x.device.data(), most.device.data(), to.rows.device.data()};
    first->enqueue(cast_args, nullptr, *stream_, 1);
    void* turn_args[] = {to.rows.device.data(), most.device.data(), to.turned.device.data(),
                         to.inverse.device.data()};
    second->enqueue(turn_args, nullptr, *stream_, 1);
    stream_->synchronize();
    download(to.rows), download(to.turned), download(to.inverse);
    return to;
  }
  // A scale for each row, and turned for each column.
  struct MadeRowwise {
    Array rows, turned, inverse, inverse_turned;
  };
  // The largest of each row, or column.
  Array amax_of(const Array& x, int64_t rows, int64_t columns, bool of_rows) {
    Array out = poisoned(DType::f32, of_rows ? rows : columns);
    for (int64_t i = 0; i < out.size(); ++i) {
      double most = 0;
      for (int64_t j = 0; j < (of_rows ? columns : rows); ++j)
        most = std::max(most, std::fabs(x.at(of_rows ? i * columns + j : j * columns + i)));
      set_double(DType::f32, out.host.data(), i, most);
    }
    upload(out);
    return out;
  }
  MadeRowwise quantized_rowwise(const Array& x, const Array& of_rows, const Array& of_columns, int64_t rows,
                                int64_t columns, DType dtype) {
    Node node;
    node.op = ops::quantize;
    node.attrs = {{"dtype", dtype}};
    auto call = make_float8(*device_, node,
                            {dense_operand(x.dtype, {rows, columns}), dense_operand(DType::f32, {rows}),
                             dense_operand(DType::f32, {columns})},
                            {dense_operand(dtype, {rows, columns}), dense_operand(dtype, {columns, rows}),
                             dense_operand(DType::f32, {rows}), dense_operand(DType::f32, {columns})},
                            {});
    std::vector<MadeRowwise> made;
    for (int pass = 0; pass < 2; ++pass) {
      made.push_back({poisoned(dtype, rows * columns), poisoned(dtype, rows * columns),
                      poisoned(DType::f32, rows), poisoned(DType::f32, columns)});
      MadeRowwise& to = made.back();
      void* args[] = {x.device.data(),
                      of_rows.device.data(),
                      of_columns.device.data(),
                      to.rows.device.data(),
                      to.turned.device.data(),
                      to.inverse.device.data(),
                      to.inverse_turned.device.data()};
      call->enqueue(args, nullptr, *stream_, 1);
      stream_->synchronize();
      download(to.rows), download(to.turned), download(to.inverse), download(to.inverse_turned);
    }
    EXPECT_TRUE(same_bits(made[0].rows, made[1].rows) && same_bits(made[0].turned, made[1].turned));
    return std::move(made[0]);
  }
  // Random, each row by a factor of its own, and each column, so that no scale stands in for another; the
  // last row and column of zeros.
  Array uneven(DType dtype, int64_t rows, int64_t columns, double scale) {
    Array out = random(dtype, rows * columns, scale);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        const bool last = r + 1 == rows || c + 1 == columns;
        const double by = last ? 0 : std::ldexp(1.0, static_cast<int>(r % 7 - c % 5));
        set_double(dtype, out.host.data(), r * columns + c, out.at(r * columns + c) * by);
      }
    upload(out);
    return out;
  }
  bool multiplies_by_rows() const {
    return device_->properties().major == 9 && device_->properties().minor == 0;
  }
  MadeRowwise quantized_rowwise(const Array& x, int64_t rows, int64_t columns, DType dtype) {
    const Array of_rows = amax_of(x, rows, columns, true), of_columns = amax_of(x, rows, columns, false);
    return quantized_rowwise(x, of_rows, of_columns, rows, columns, dtype);
  }
  // The product, and the worst error beside a sum in double, relative to the sum of magnitudes.
  double error_of(int64_t m, int64_t n, int64_t k, DType left, DType right, bool bias, bool fast) {
    const Array a = random(DType::bf16, m * k, 3), b = random(DType::bf16, n * k, 0.1);
    return error_of(m, n, k, left, right, bias, fast, quantized(a, m, k, left), quantized(b, n, k, right));
  }
  double rowwise_error_of(int64_t m, int64_t n, int64_t k, DType left, DType right, bool bias, bool fast) {
    const Array a = uneven(DType::bf16, m, k, 3), b = uneven(DType::bf16, n, k, 0.1);
    return error_of(m, n, k, left, right, bias, fast, quantized_rowwise(a, m, k, left),
                    quantized_rowwise(b, n, k, right));
  }
  template <class Rounded>
  double error_of(int64_t m, int64_t n, int64_t k, DType left, DType right, bool bias, bool fast,
                  const Rounded& qa, const Rounded& qb) {
    const Array added = random(DType::bf16, n, 2);
    const bool rowwise = qa.inverse.size() > 1;
    auto inverses = [&](int64_t size) { return dense_operand(DType::f32, rowwise ? Shape{size} : Shape{}); };
    Node node;
    node.op = ops::scaled_mm;
    node.attrs = {{"fast", fast}};
    std::vector<Operand> in{dense_operand(left, {m, k}), dense_operand(right, {n, k}), inverses(m),
                            inverses(n)};
    std::vector<const Array*> args{&qa.rows, &qb.rows, &qa.inverse, &qb.inverse};
    if (bias) in.push_back(dense_operand(DType::bf16, {n})), args.push_back(&added);
    auto call = make_float8(*device_, node, in, {dense_operand(DType::bf16, {m, n})}, {});
    const Array got = run(*call, args, DType::bf16, m * n);
    double worst = 0;
    for (int64_t i = 0; i < m; i += 1 + m / 40)
      for (int64_t j = 0; j < n; j += 1 + n / 40) {
        const double scale = qa.inverse.at(rowwise ? i : 0) * qb.inverse.at(rowwise ? j : 0);
        double sum = bias ? added.at(j) : 0, size = std::fabs(sum);
        for (int64_t l = 0; l < k; ++l) {
          const double term = decoded(qa.rows, i * k + l) * decoded(qb.rows, j * k + l) * scale;
          sum += term, size += std::fabs(term);
        }
        const double rounding = std::fabs(sum) * 0x1p-8;  // of bf16
        if (size == 0)
          EXPECT_EQ(got.at(i * n + j), 0) << i << " " << j;
        else
          worst = std::max(worst, (std::fabs(got.at(i * n + j) - sum) - rounding) / size);
      }
    return worst;
  }
};

TEST_F(float8, QuantizeIsTheHostsToTheBit) {
  for (DType from : {DType::bf16, DType::f32})
    for (DType to : {DType::f8_e4m3, DType::f8_e5m2})
      for (auto [rows, columns] :
           {std::pair<int64_t, int64_t>{16, 16}, {48, 144}, {128, 128}, {1040, 272}, {16, 4096}}) {
        const Array x = random(from, rows * columns, 7);
        const Array most = amax_of(x);
        const Made made = quantized(x, most, rows, columns, to);
        const float largest = static_cast<float>(most.at(0)), top = to == DType::f8_e4m3 ? 448 : 57344;
        EXPECT_EQ(static_cast<float>(made.inverse.at(0)), largest / top);
        int wrong = 0;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < columns; ++c) {
            std::byte want{};
            set_double(to, &want, 0, static_cast<float>(x.at(r * columns + c)) * (top / largest));
            wrong += made.rows.host.data()[r * columns + c] != want;
            wrong += made.turned.host.data()[c * rows + r] != want;
          }
        EXPECT_EQ(wrong, 0) << name(from) << " to " << name(to) << " " << rows << "x" << columns;
        const Made halves = cast_and_turned(x, most, rows, columns, to);
        EXPECT_TRUE(same_bits(halves.rows, made.rows) && same_bits(halves.turned, made.turned) &&
                    same_bits(halves.inverse, made.inverse))
            << name(from) << " to " << name(to) << " " << rows << "x" << columns;
      }
}

TEST_F(float8, QuantizeRowwiseIsTheHostsToTheBit) {
  for (DType from : {DType::bf16, DType::f32})
    for (DType to : {DType::f8_e4m3, DType::f8_e5m2})
      for (auto [rows, columns] :
           {std::pair<int64_t, int64_t>{16, 16}, {48, 144}, {128, 128}, {1040, 272}, {16, 4096}}) {
        const Array x = uneven(from, rows, columns, 7);
        const Array of_rows = amax_of(x, rows, columns, true), of_columns = amax_of(x, rows, columns, false);
        const MadeRowwise made = quantized_rowwise(x, of_rows, of_columns, rows, columns, to);
        const float top = to == DType::f8_e4m3 ? 448 : 57344;
        auto kept = [](const Array& most, int64_t i) {
          return std::max(static_cast<float>(most.at(i)), 1e-12f);
        };
        int wrong = 0;
        for (int64_t r = 0; r < rows; ++r)
          wrong += static_cast<float>(made.inverse.at(r)) != kept(of_rows, r) / top;
        for (int64_t c = 0; c < columns; ++c)
          wrong += static_cast<float>(made.inverse_turned.at(c)) != kept(of_columns, c) / top;
        auto code = [&](float value, const Array& most, int64_t i) {
          std::byte out{};
          set_double(to, &out, 0, value * (top / kept(most, i)));
          return out;
        };
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < columns; ++c) {
            const auto value = static_cast<float>(x.at(r * columns + c));
            wrong += made.rows.host.data()[r * columns + c] != code(value, of_rows, r);
            wrong += made.turned.host.data()[c * rows + r] != code(value, of_columns, c);
          }
        EXPECT_EQ(wrong, 0) << name(from) << " to " << name(to) << " " << rows << "x" << columns;
      }
}

TEST_F(float8, ProductsAreNearADoubleReference) {
  constexpr DType e4 = DType::f8_e4m3, e5 = DType::f8_e5m2;
  double exact = 0, fast = 0;
  for (auto [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{16, 16, 16},
                         {48, 80, 144},
                         {512, 768, 3072},
                         {4096, 1600, 1600}}) {
    for (auto [left, right] : {std::pair(e4, e4), {e5, e4}})
      for (bool bias : {false, true}) {
        exact = std::max(exact, error_of(m, n, k, left, right, bias, false));
        fast = std::max(fast, error_of(m, n, k, left, right, bias, true));
        if (!multiplies_by_rows()) continue;
        exact = std::max(exact, rowwise_error_of(m, n, k, left, right, bias, false));
        fast = std::max(fast, rowwise_error_of(m, n, k, left, right, bias, true));
      }
  }
  std::cout << "worst error of a sum: " << exact << ", fast " << fast << "\n";
  EXPECT_LT(exact, 2e-4);
  EXPECT_LT(fast, 2e-3);
}

}  // namespace
}  // namespace lockstep::compiler::cuda
