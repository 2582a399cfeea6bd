// Multi-tensor updates: one launch over tensors of many sizes equals the update row on each, with a weight
// decay per tensor.
#include "core/table/updates.h"
#include "tests/unit/compiler/kernel_case.h"

namespace lockstep {

using namespace compiler;

namespace {

struct Update {
  OpId op;
  Attrs attrs;
  size_t tensors;  // per-element inputs
  std::vector<double> scalars;
};

TEST(multi_tensor, updates_every_tensor_as_the_row_does) {
  const Update updates[] = {
      {"adamw", {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}}, 4, {3e-3, 0.1, 0.05, 0.7}},
      {"sgd", {{"momentum", 0.9}}, 3, {1e-2, 0.5}}};
  const std::vector<int64_t> sizes{1, 15, 16, 17, 0, 1000, 16384, 40001};
  const std::vector<float> decays{0.1f, 0, 0.1f, 0, 0.5f, 0.01f, 0.1f, 0};
  ScratchFolder cache;
  for (const Update& update : updates) {
    KernelSource source = generate_multi_tensor(multi_tensor_body(update.op, update.attrs, DType::f32));
    KernelLibrary library = compile_kernels({source}, {.cache_dir = cache.path("")});
    std::vector<HostTensor> scalars;
    std::vector<void*> scalar_pointers;
    for (double value : update.scalars) {
      scalars.push_back(from_values(DType::f32, {}, {value}));
      scalar_pointers.push_back(scalars.back().data.data());
    }
    std::vector<std::vector<HostTensor>> first;
    for (int threads : {1, 2, 3}) {
      std::vector<std::vector<HostTensor>> in(sizes.size()), out(sizes.size());
      std::vector<void*> table;
      for (size_t i = 0; i < sizes.size(); ++i) {
        for (size_t k = 0; k < update.tensors; ++k)
          in[i].push_back(random_tensor(DType::f32, {sizes[i]}, 10 * i + k, 0.1, 1));
        for (size_t k = 0; k + 1 < update.tensors; ++k) out[i].push_back(make_tensor(DType::f32, {sizes[i]}));
        for (auto& t : in[i]) table.push_back(t.data.data());
        for (auto& t : out[i]) table.push_back(t.data.data());
      }
      library.find_multi_tensor(source.name)(table.data(), sizes.data(), decays.data(),
                                             static_cast<int64_t>(sizes.size()), scalar_pointers.data(),
                                             threads);
      if (threads == 1) first = out;
      for (size_t i = 0; i < sizes.size(); ++i) {
        for (size_t k = 0; k < out[i].size(); ++k)
          EXPECT_TRUE(same_bytes(out[i][k], first[i][k]))
              << update.op << " tensor " << i << ", " << threads << " threads";
        Graph graph;
        graph.mesh = Mesh{{}, {}};
        std::vector<ValueId> ids;
        std::vector<std::pair<DType, Shape>> types;
        for (size_t k = 0; k < update.tensors; ++k)
          ids.push_back(graph.add_input(InputKind::value, str("t", k), DType::f32, {sizes[i]}));
        for (size_t k = 0; k < scalars.size(); ++k)
          ids.push_back(graph.add_input(InputKind::scalar, str("s", k), DType::f32, {}));
        for (size_t k = 0; k + 1 < update.tensors; ++k) types.emplace_back(DType::f32, Shape{sizes[i]});
        Attrs attrs = update.attrs;
        attrs.set("weight_decay", static_cast<double>(decays[i]));
        for (ValueId v : graph.append(update.op, ids, attrs, types))
          graph.add_output(OutputKind::value, str("y", v), v);
        auto inputs = in[i];
        inputs.insert(inputs.end(), scalars.begin(), scalars.end());
        auto want = evaluate(graph, inputs);
        for (size_t k = 0; k < want.size(); ++k)
          expect_near(out[i][k], want[k], str(update.op, " tensor ", i, " output ", k));
      }
    }
    // In place: outputs in the buffers of parameter and moments.
    std::vector<HostTensor> in;
    for (size_t k = 0; k < update.tensors; ++k)
      in.push_back(random_tensor(DType::f32, {40001}, 70 + k, 0.1, 1));
    std::vector<void*> table;
    for (auto& t : in) table.push_back(t.data.data());
    for (size_t k = 0; k < update.tensors; ++k)
      if (k != 1) table.push_back(in[k].data.data());
    int64_t size = 40001;
    library.find_multi_tensor(source.name)(table.data(), &size, decays.data() + 7, 1, scalar_pointers.data(),
                                           2);
    for (size_t k = 0; k < first[7].size(); ++k)
      EXPECT_TRUE(same_bytes(in[k == 0 ? 0 : k + 1], first[7][k])) << update.op << " in place, output " << k;
  }
}

// An input that lies in bf16 is as good as what it is in f32, bit by bit.
TEST(multi_tensor, widens_halves) {
  const Graph body = multi_tensor_body("adamw", {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}}, DType::f32);
  const KernelSource full = generate_multi_tensor(body),
                     half = generate_multi_tensor(body_of_halves(body, {1}));
  EXPECT_NE(half.name, full.name);
  ScratchFolder cache;
  KernelLibrary library = compile_kernels({full, half}, {.cache_dir = cache.path("")});
  const float decay = 0.1f;
  std::vector<float> scalars{3e-3f, 0.1f, 0.05f, 0.7f};
  std::vector<void*> scalar_pointers;
  for (float& scalar : scalars) scalar_pointers.push_back(&scalar);
  for (int64_t size : {1, 15, 17, 40001}) {
    const HostTensor gradient = random_tensor(DType::bf16, {size}, 71, 0.1, 1);
    auto run = [&](const KernelSource& source, DType dtype) {
      std::vector<HostTensor> in;
      for (size_t k = 0; k < 4; ++k) in.push_back(random_tensor(DType::f32, {size}, 70 + k, 0.1, 1));
      in[1] = from_values(dtype, {size}, to_doubles(gradient));
      std::vector<void*> table;
      for (auto& t : in) table.push_back(t.data.data());
      for (size_t k : {0, 2, 3}) table.push_back(in[k].data.data());
      library.find_multi_tensor(source.name)(table.data(), &size, &decay, 1, scalar_pointers.data(), 2);
      in.erase(in.begin() + 1);
      return in;
    };
    const auto want = run(full, DType::f32), got = run(half, DType::bf16);
    for (size_t k = 0; k < want.size(); ++k) EXPECT_TRUE(same_bytes(got[k], want[k])) << size << ", " << k;
  }
}

// With a gate beyond its limit, or no number, everything stays as it was; else the bits are those of the
// update without gates.
TEST(multi_tensor, a_gated_update_is_made_or_not) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN(),
                  most = std::numeric_limits<float>::max();
  const Update updates[] = {
      {"adamw", {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}}, 4, {3e-3, 0.1, 0.05, 0.7}},
      {"sgd", {{"momentum", 0.9}}, 3, {1e-2, 0.5}}};
  ScratchFolder cache;
  for (const Update& update : updates) {
    const Graph body = multi_tensor_body(update.op, update.attrs, DType::f32);
    const KernelSource plain = generate_multi_tensor(body),
                       gated = generate_multi_tensor(
                           gated_body(body, update.tensors == 4 ? std::vector{0, 2, 3} : std::vector{0, 2},
                                      {DType::f32, DType::f32}));
    KernelLibrary library = compile_kernels({plain, gated}, {.cache_dir = cache.path("")});
    int64_t size = 1003;
    const float decay = 0.1f;
    auto run = [&](const KernelSource& source, std::vector<float> gates, float poison) {
      std::vector<HostTensor> in;
      for (size_t k = 0; k < update.tensors; ++k)
        in.push_back(random_tensor(DType::f32, {size}, 70 + k, 0.1, 1));
      if (poison != 0) set_double(DType::f32, in[1].data.data(), 5, poison);
      std::vector<void*> table, scalars;
      for (auto& t : in) table.push_back(t.data.data());
      for (size_t k = 0; k < update.tensors; ++k)
        if (k != 1) table.push_back(in[k].data.data());
      std::vector<float> values(update.scalars.begin(), update.scalars.end());
      for (float& value : values) scalars.push_back(&value);
      for (float& gate : gates) scalars.push_back(&gate);
      library.find_multi_tensor(source.name)(table.data(), &size, &decay, 1, scalars.data(), 2);
      return in;
    };
    auto equal = [&](const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
      for (size_t k = 0; k < a.size(); ++k)
        if (!same_bytes(a[k], b[k])) return false;
      return true;
    };
    std::vector<HostTensor> before;
    for (size_t k = 0; k < update.tensors; ++k)
      before.push_back(random_tensor(DType::f32, {size}, 70 + k, 0.1, 1));
    const auto want = run(plain, {}, 0);
    EXPECT_FALSE(equal(want, before));
    for (std::vector<float> gates :
         {std::vector<float>{1, most, 2, most}, {most, most, -3, most}, {2, 2, 0, 0}, {1, most, -3, 2}})
      EXPECT_TRUE(equal(run(gated, gates, 0), want)) << update.op;
    for (std::vector<float> gates : {std::vector<float>{nan, most, 2, most},
                                     {1, most, nan, most},
                                     {inf, most, 1, most},
                                     {1, most, -inf, most},
                                     {2.5f, 2, 1, most},
                                     {1, most, 3, 2}}) {
      EXPECT_TRUE(equal(run(gated, gates, 0), before)) << update.op;
      auto poisoned = run(gated, gates, nan);  // a gradient that is no number reaches nothing
      poisoned[1] = before[1];
      EXPECT_TRUE(equal(poisoned, before)) << update.op;
    }
  }
}

// In float8 by a scale of each tensor: the update's result in bf16 times the scale, or times the one before
// where nothing is made; and the largest magnitude in bf16, which stays where it is smaller than what there
// is.
TEST(multi_tensor, rounds_by_the_scale_of_each_tensor) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), most = std::numeric_limits<float>::max();
  const Graph plain =
      gated_body(multi_tensor_body("adamw", {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}}, DType::f32),
                 {0, 2, 3}, {DType::f32, DType::f32});
  const std::vector<int64_t> sizes{1, 15, 16, 17, 1000, 16384, 40001};
  const std::vector<float> decays(sizes.size(), 0.1f);
  ScratchFolder cache;
  for (DType dtype : {DType::f8_e4m3, DType::f8_e5m2}) {
    const KernelSource source = generate_multi_tensor(body_by_scale(plain, dtype, 2));
    const KernelLibrary library = compile_kernels({source}, {.cache_dir = cache.path("")});
    for (const float gate : {1.0f, nan})
      for (const bool poisoned : {false, true})
        for (int threads : {1, 3}) {
          std::vector<std::vector<HostTensor>> in(sizes.size()), out(sizes.size());
          std::vector<float> scales, largest(sizes.size(), 0.0f);
          largest[1] = 1e30f;
          for (size_t i = 0; i < 2 * sizes.size(); ++i) scales.push_back(3.0f + static_cast<float>(i));
          std::vector<void*> table;
          for (size_t i = 0; i < sizes.size(); ++i) {
            for (size_t k = 0; k < 4; ++k)
              in[i].push_back(random_tensor(DType::f32, {sizes[i]}, 10 * i + k, 0.1, 1));
            if (poisoned) set_double(DType::f32, in[i][0].data.data(), sizes[i] - 1, nan);
            for (auto& t : in[i]) table.push_back(t.data.data());
            table.push_back(&scales[2 * i]), table.push_back(&scales[2 * i + 1]);
            for (size_t k = 0; k < 3; ++k) out[i].push_back(make_tensor(DType::f32, {sizes[i]}));
            out[i].push_back(make_tensor(dtype, {sizes[i]}));
            for (auto& t : out[i]) table.push_back(t.data.data());
            table.push_back(&largest[i]);
          }
          std::vector<float> values{3e-3f, 0.1f, 0.05f, 0.7f, gate, most, 1.0f, most};
          std::vector<void*> scalars;
          for (float& value : values) scalars.push_back(&value);
          library.find_multi_tensor(source.name)(table.data(), sizes.data(), decays.data(),
                                                 static_cast<int64_t>(sizes.size()), scalars.data(), threads);
          for (size_t i = 0; i < sizes.size(); ++i) {
            const float scale = scales[2 * i + (gate == 1 ? 0 : 1)];
            float magnitude = 0;
            for (int64_t e = 0; e < sizes[i]; ++e) {
              const float half = static_cast<float>(bf16(static_cast<float>(out[i][0].at(e))));
              const HostTensor want = from_values(dtype, {1}, {half * scale});
              if (std::isnan(half))
                magnitude = half;
              else
                ASSERT_EQ(out[i][3].at(e), want.at(0)) << i << " " << e;
              if (!std::isnan(magnitude)) magnitude = std::max(magnitude, std::fabs(half));
            }
            if (i == 1 && !std::isnan(magnitude)) magnitude = 1e30f;
            if (std::isnan(magnitude))
              EXPECT_TRUE(std::isnan(largest[i])) << i;
            else
              EXPECT_EQ(largest[i], magnitude) << i;
          }
        }
  }
}

// Beside what it writes in bf16 a kernel leaves the largest magnitude of it; NaNs of either sign are larger.
TEST(multi_tensor, leaves_the_largest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Graph convert;
  const ValueId wide = convert.add_input(InputKind::value, "x", DType::f32, {kUpdateElements});
  convert.add_output(
      OutputKind::value, "y",
      convert.append(ops::convert, {wide}, {{"dtype", DType::bf16}}, {{DType::bf16, {kUpdateElements}}})[0]);
  const KernelSource source = generate_multi_tensor(body_with_largest(convert));
  ScratchFolder cache;
  const KernelLibrary library = compile_kernels({source}, {.cache_dir = cache.path("")});
  for (int64_t size : {1, 15, 16, 40001})
    for (const float last : {0.5f, -7.03f, nan, -nan}) {
      HostTensor in = random_tensor(DType::f32, {size}, 3, -1, 1), out = make_tensor(DType::bf16, {size});
      in.set(size - 1, last);
      float largest = 0, want = 0;
      std::vector<void*> table{in.data.data(), out.data.data(), &largest};
      library.find_multi_tensor(source.name)(table.data(), &size, nullptr, 1, nullptr, 3);
      for (int64_t e = 0; e < size && !std::isnan(want); ++e) {
        const auto magnitude = static_cast<float>(std::fabs(out.at(e)));
        want = std::isnan(magnitude) ? magnitude : std::max(want, magnitude);
      }
      EXPECT_EQ(std::isnan(largest), std::isnan(last)) << size;
      if (!std::isnan(last)) EXPECT_EQ(largest, want) << size;
    }
}

}  // namespace
}  // namespace lockstep
