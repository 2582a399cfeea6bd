// index_add and embedding_grad on the GPU: the order of the sums to the bit, ids outside the table, long
// runs.
#include <cmath>
#include <functional>

#include "compiler/codegen/cuda/library/library.h"
#include "tests/gpu/library_case.h"

namespace lockstep::compiler::cuda {
namespace {

class rows : public LibraryCase {
 protected:
  // The sums as library.h defines them, in T: pieces of kRowPiece addends in order, then the pieces in order.
  template <class T>
  static T ordered(const std::vector<T>& addends) {
    if (addends.size() <= kRowPiece) return plain(addends, 0, addends.size());
    T sum = 0;
    for (size_t from = 0; from < addends.size(); from += kRowPiece)
      sum += plain(addends, from, std::min(addends.size(), from + kRowPiece));
    return sum;
  }
  template <class T>
  static T plain(const std::vector<T>& addends, size_t from, size_t to) {
    T sum = 0;
    for (size_t i = from; i < to; ++i) sum += addends[i];
    return sum;
  }
  template <class T, class Read, class Write>
  void compare(const std::vector<std::vector<int64_t>>& places, int64_t width, const Array& got, Read read,
               Write write) {
    Buffer want(static_cast<size_t>(16));
    int wrong = 0;
    for (int64_t r = 0; r < static_cast<int64_t>(places.size()); ++r)
      for (int64_t c = 0; c < width && wrong < 3; ++c) {
        std::vector<T> addends;
        for (int64_t i : places[static_cast<size_t>(r)]) addends.push_back(read(i * width + c));
        write(want.data(), ordered(addends));
        size_t size = size_of(got.dtype);
        if (std::memcmp(want.data(), got.host.data() + static_cast<size_t>(r * width + c) * size, size) !=
            0) {
          ADD_FAILURE() << "row " << r << " (" << addends.size() << " addends), column " << c << " is "
                        << got.at(r * width + c) << ", right is " << get_double(got.dtype, want.data(), 0);
          ++wrong;
        }
      }
  }
  void expect_right(DType dtype, int64_t count, int64_t table, int64_t width,
                    const std::function<int32_t(int64_t)>& id, bool embedding = true) {
    Array ids = poisoned(DType::i32, count), u = random(dtype, count * width);
    std::vector<std::vector<int64_t>> places(static_cast<size_t>(table));
    for (int64_t i = 0; i < count; ++i) {
      int32_t row = id(i);
      ids.host.as<int32_t>()[i] = row;
      if (row >= 0 && row < table) places[static_cast<size_t>(row)].push_back(i);
    }
    upload(ids);
    Node node;
    node.op = embedding ? ops::embedding_grad : ops::index_add;
    node.attrs = {{"rows", table}};
    Operand oi = dense_operand(DType::i32, {count}), ou = dense_operand(dtype, {count, width});
    auto call = make_row_sums(*device_, node, embedding ? std::vector{ou, oi} : std::vector{oi, ou},
                              {dense_operand(dtype, {table, width})}, {});
    SCOPED_TRACE(call->algorithm());
    Array got =
        run(*call, embedding ? std::vector<const Array*>{&u, &ids} : std::vector<const Array*>{&ids, &u},
            dtype, table * width);
    const void* from = u.host.data();
    if (dtype == DType::f64) {
      compare<double>(
          places, width, got, [&](int64_t i) { return get_double(dtype, from, i); },
          [&](void* to, double x) { set_double(dtype, to, 0, x); });
    } else if (is_float(dtype)) {
      compare<float>(
          places, width, got, [&](int64_t i) { return static_cast<float>(get_double(dtype, from, i)); },
          [&](void* to, float x) { set_double(dtype, to, 0, x); });
    } else {
      compare<uint64_t>(
          places, width, got, [&](int64_t i) { return static_cast<uint64_t>(get_int(dtype, from, i)); },
          [&](void* to, uint64_t x) { set_int(dtype, to, 0, static_cast<int64_t>(x)); });
    }
  }
  std::function<int32_t(int64_t)> anywhere(int64_t table) {
    return [this, table](int64_t) { return static_cast<int32_t>(engine_() % static_cast<unsigned>(table)); };
  }
};

TEST_F(rows, every_type_to_the_bit) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8,
                      DType::u16, DType::u32, DType::u64})
    for (bool embedding : {true, false}) {
      expect_right(dtype, 9, 4, 1, anywhere(4), embedding);
      expect_right(dtype, 300, 7, 5, anywhere(7), embedding);
      expect_right(dtype, 1000, 257, 64, anywhere(257), embedding);
    }
}
TEST_F(rows, sizes_zero_one_and_odd) {
  expect_right(DType::f32, 0, 5, 3, anywhere(5));
  expect_right(DType::f32, 1, 1, 1, anywhere(1));
  expect_right(DType::f32, 5, 1, 7, anywhere(1));
  expect_right(DType::bf16, 31, 3, 129, anywhere(3));
  expect_right(DType::bf16, 2047, 255, 24, anywhere(255));
  expect_right(DType::bf16, 2049, 256, 24, anywhere(256));  // 256 is the key of ids outside: a second pass
  expect_right(DType::f32, 4097, 65535, 4, anywhere(65535));
  expect_right(DType::f32, 4097, 70000, 4, anywhere(70000));  // three passes
}
TEST_F(rows, ids_outside_the_table_add_nothing) {
  const int32_t strange[] = {-1, INT32_MIN, 50, INT32_MAX, 51, 256, 65536};
  expect_right(DType::f32, 3000, 50, 33,
               [&](int64_t i) { return i % 3 ? static_cast<int32_t>(engine_() % 50) : strange[i / 3 % 7]; });
  expect_right(DType::f32, 100, 50, 8, [&](int64_t i) { return strange[i % 7]; });
}
TEST_F(rows, long_runs) {
  for (int64_t length : {63, 64, 65, 127, 128, 129, 1000}) {
    expect_right(DType::f32, length, 3, 20, [](int64_t) { return 1; });
    expect_right(DType::bf16, 4 * length, 3, 16, [&](int64_t i) {
      return static_cast<int32_t>(i / length % 3);
    });  // neighbours in sorted order
    expect_right(DType::f32, 3 * length + 64, 40, 12,
                 [&](int64_t i) { return static_cast<int32_t>(i % 3 ? 17 : engine_() % 40); });
  }
  expect_right(DType::f32, 20000, 5, 4, [](int64_t) { return 4; });
}
TEST_F(rows, an_embedding_table) {
  expect_right(DType::bf16, 4096, 50304, 64,
               [this](int64_t i) { return i % 20 ? static_cast<int32_t>(engine_() % 50304) : 198; });
  expect_right(DType::f32, 8192, 50304, 32, [this](int64_t) {
    double x = std::uniform_real_distribution<double>(0, 1)(engine_);
    return static_cast<int32_t>(std::pow(50303.0, x));  // as words are: few are frequent
  });
}

}  // namespace
}  // namespace lockstep::compiler::cuda
