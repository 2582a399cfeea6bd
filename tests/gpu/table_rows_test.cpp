// Rows of sparse tables on the GPU: the CPU's bits, at any size and in a captured graph; ids outside of a
// table are told, and gates are read where they lie.
#include "compiler/codegen/cuda/sums/table_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "compiler/codegen/cuda/sums/reductions.h"
#include "compiler/codegen/sums/cpu_reductions.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {
namespace {

// Ids and rows of one call, and where what it makes lies.
struct Case {
  int64_t count = 0, width = 0, table_rows = 0;
  std::vector<int32_t> ids = {};
  std::vector<float> rows = {};
};
struct Made {
  std::vector<int32_t> ids;
  std::vector<float> rows;
  std::vector<double> squares;
  // Bits, so that -0 and NaN count.
  bool operator==(const Made& o) const {
    auto same = [](const auto& a, const auto& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
    };
    return same(ids, o.ids) && same(rows, o.rows) && same(squares, o.squares);
  }
};

class GpuTableRows : public ::testing::Test {
 protected:
  // Memory of a call on the GPU, poisoned.
  struct Held {
    Buffer ids, rows, out_ids, out_rows, squares;
  };
  void SetUp() override {
    std::string why;
    if (!available(&why)) GTEST_SKIP() << why;
    device_ = open_device(0);
    device_->enter();
    stream_ = device_->make_stream();
    gpu_ = make_reductions(*device_);
  }
  template <class T>
  void upload(const Buffer& to, const std::vector<T>& values) {
    if (!values.empty()) copy_to_device(*device_, to.data(), values.data(), values.size() * sizeof(T));
  }
  template <class T>
  Buffer buffer_of(const std::vector<T>& values) {
    Buffer buffer(std::max<size_t>(values.size() * sizeof(T), 8), device_->memory());
    upload(buffer, values);
    return buffer;
  }
  template <class T>
  std::vector<T> download(const Buffer& from, int64_t count) {
    stream_->synchronize();
    std::vector<T> values(static_cast<size_t>(count));
    if (count) copy_to_host(*device_, values.data(), from.data(), values.size() * sizeof(T));
    return values;
  }

  // One id is that of `hot` in 100 places.
  Case random(int64_t count, int64_t width, int64_t table_rows, unsigned hot) {
    Case c{count, width, table_rows};
    std::normal_distribution<float> normal;
    const auto hottest = static_cast<int32_t>(rng_() % table_rows);
    for (int64_t i = 0; i < count; ++i)
      c.ids.push_back(rng_() % 100 < hot ? hottest : static_cast<int32_t>(rng_() % table_rows));
    for (int64_t i = 0; i < count * width; ++i)
      c.rows.push_back(rng_() % 50 == 0 ? -0.0f
                                        : std::ldexp(normal(rng_), static_cast<int>(rng_() % 40) - 20));
    return c;
  }
  Held hold(const Case& c) {
    return {buffer_of(c.ids), buffer_of(c.rows), buffer_of(std::vector<int32_t>(c.count, -77)),
            buffer_of(std::vector<float>(c.count * c.width, -77.25f)),
            buffer_of(std::vector<double>(c.count, -77.25))};
  }
  static Reductions::Rows rows_of(const Case& c, const Held& at) {
    return {.ids = at.ids.as<int32_t>(),
            .rows = at.rows.as<float>(),
            .count = c.count,
            .width = c.width,
            .table_rows = c.table_rows,
            .out_ids = at.out_ids.as<int32_t>(),
            .out_rows = at.out_rows.as<float>(),
            .squares = at.squares.as<double>()};
  }
  Made made(const Case& c, const Held& at) {
    return {download<int32_t>(at.out_ids, c.count), download<float>(at.out_rows, c.count * c.width),
            download<double>(at.squares, c.count)};
  }
  Made wanted(const Case& c) {
    Made out{std::vector<int32_t>(c.count), std::vector<float>(c.count * c.width),
             std::vector<double>(c.count)};
    cpu_->sum_rows({.ids = c.ids.data(),
                    .rows = c.rows.data(),
                    .count = c.count,
                    .width = c.width,
                    .table_rows = c.table_rows,
                    .out_ids = out.ids.data(),
                    .out_rows = out.rows.data(),
                    .squares = out.squares.data()},
                   *host_);
    return out;
  }

  std::shared_ptr<CudaDevice> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Reductions> gpu_, cpu_ = make_cpu_reductions(4);
  std::unique_ptr<Stream> host_ = inline_stream();
  std::mt19937 rng_{5};
};

TEST_F(GpuTableRows, sums_have_the_bits_of_the_cpu) {
  std::vector<Case> cases{random(0, 4, 7, 0), random(1, 1, 1, 0), random(3, 5, 1, 0)};
  for (int64_t width : {1, 3, 16, 17, 32, 40, 64, 65, 128, 300, 2049, 5000})
    cases.push_back(random(width > 1000 ? 50 : 1000, width, 300, 10));
  for (int64_t count : {2, 31, 33, 1023, 1024, 1025, 2048, 2049, 16383, 16384, 16385, 20481, 100003})
    for (int64_t rows : {7, 255, 256, 70000, 2000000}) cases.push_back(random(count, 16, rows, 5));
  cases.push_back(random(3000, 16, INT32_MAX - 1, 0));
  cases.push_back(random(5000, 16, 40, 100));  // one id
  cases.push_back(random(40000, 8, 40, 100));
  cases.push_back(random(1000003, 4, 5000000, 1));
  for (const Case& c : cases) {
    const Held held = hold(c);
    const Made want = wanted(c);
    for (int again = 0; again < 2; ++again) {
      gpu_->sum_rows(rows_of(c, held), *stream_);
      EXPECT_EQ(made(c, held), want) << c.count << " ids of " << c.table_rows << " x " << c.width;
    }
  }
  EXPECT_NO_THROW(gpu_->check());
}

TEST_F(GpuTableRows, a_stray_id_is_told_once_and_changes_no_row) {
  for (int64_t count : {100, 20000})
    for (int32_t strange : {-1, 50, INT32_MIN, INT32_MAX}) {
      Case c = random(count, 16, 50, 5);
      c.ids[17] = strange, c.ids[30] = 51;
      const Held held = hold(c);
      gpu_->sum_rows(rows_of(c, held), *stream_);
      const Made got = made(c, held);
      std::string said, wanted_words;
      try {
        gpu_->check();
      } catch (const UserError& error) { said = error.what(); }
      try {
        wanted(c);
      } catch (const UserError& error) { wanted_words = error.what(); }
      EXPECT_EQ(said, wanted_words);
      EXPECT_NE(said.find(" at position 17 is outside the table of 50 rows"), std::string::npos) << said;
      EXPECT_NO_THROW(gpu_->check());
      for (int64_t k = 0; k < count; ++k) {
        ASSERT_EQ(got.ids[k], -1);
        ASSERT_TRUE(std::isnan(got.squares[k]));
      }
      const std::vector<float> before(50 * 16, 3.0f);
      const Buffer table = buffer_of(before);
      gpu_->put_rows(
          {table.as<float>(), held.out_ids.as<int32_t>(), held.out_rows.as<float>(), count, 16, 50, {}},
          *stream_);
      EXPECT_EQ(download<float>(table, 50 * 16), before);
    }
}

TEST_F(GpuTableRows, rows_are_put_where_no_gate_is_closed) {
  constexpr int64_t kTable = 5000, kWidth = 21;
  const Case c = random(3000, kWidth, kTable, 5);
  const Made summed = wanted(c);
  const Case whole = random(kTable, kWidth, kTable, 0);
  const std::vector<float>& before = whole.rows;
  const Buffer ids = buffer_of(summed.ids), rows = buffer_of(summed.rows), table = buffer_of(before);
  std::vector<float> after = before;
  cpu_->put_rows({after.data(), summed.ids.data(), summed.rows.data(), c.count, kWidth, kTable, {}}, *host_);
  const Buffer limit = buffer_of(std::vector<float>{2.0f}), open = buffer_of(std::vector<float>{0.0f});
  const double inf = std::numeric_limits<double>::infinity();
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (double value : {0.0, 2.0, -2.0, 2.015625, -3.0, inf, -inf, std::nan("")}) {
      std::vector<std::byte> word(8);
      set_double(dtype, word.data(), 0, value);
      const Buffer gate = buffer_of(word);
      upload(table, before);
      gpu_->put_rows(
          {table.as<float>(),
           ids.as<int32_t>(),
           rows.as<float>(),
           c.count,
           kWidth,
           kTable,
           {{open.data(), DType::f32, limit.as<float>()}, {gate.data(), dtype, limit.as<float>()}}},
          *stream_);
      EXPECT_EQ(download<float>(table, kTable * kWidth), std::isfinite(value) && value <= 2 ? after : before)
          << value << " as " << name(dtype);
    }
}

TEST_F(GpuTableRows, replays_from_a_graph) {
  for (int64_t count : {2048, 30000}) {
    const Held held = hold(random(count, 16, 2000, 5));
    const Buffer table = buffer_of(std::vector<float>(2000 * 16, 0.0f));
    auto graph = device_->capture(*stream_, [&] {
      gpu_->sum_rows(rows_of({count, 16, 2000}, held), *stream_);
      gpu_->put_rows(
          {table.as<float>(), held.out_ids.as<int32_t>(), held.out_rows.as<float>(), count, 16, 2000, {}},
          *stream_);
    });
    ASSERT_TRUE(graph);
    std::vector<float> want(2000 * 16);
    for (int replay = 0; replay < 3; ++replay) {
      const Case c = random(count, 16, 2000, 30);
      upload(held.ids, c.ids), upload(held.rows, c.rows);
      graph->launch(*stream_);
      const Made summed = wanted(c);
      EXPECT_EQ(made(c, held), summed) << replay;
      cpu_->put_rows({want.data(), summed.ids.data(), summed.rows.data(), count, 16, 2000, {}}, *host_);
      EXPECT_EQ(download<float>(table, 2000 * 16), want) << replay;
    }
    Case c = random(count, 16, 2000, 0);
    c.ids[count - 1] = 2000;
    upload(held.ids, c.ids);
    graph->launch(*stream_);
    stream_->synchronize();
    EXPECT_THROW(gpu_->check(), UserError);
    EXPECT_EQ(download<float>(table, 2000 * 16), want);
  }
}

}  // namespace
}  // namespace lockstep::compiler::cuda
