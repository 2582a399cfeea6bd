// Generated CUDA kernels on a device: against the reference evaluator, twice with equal bits, in place, in
// other fusions, and as bytes.
#include "compiler/codegen/cuda/loops/kernels.h"

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "compiler/codegen/cache/kernel_cache.h"
#include "compiler/fuse/fuse.h"
#include "core/device/cuda/cuda_device.h"
#include "tests/gpu/kernel_bodies.h"
#include "tests/unit/compiler/fuse_case.h"
#include "tests/unit/compiler/kernel_case.h"

namespace lockstep {

using namespace compiler;

namespace {

class CudaKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!lockstep::cuda::available(&why)) GTEST_SKIP() << "no CUDA device: " << why;
    device_ = lockstep::cuda::open_device(0);
    device_->enter();
    stream_ = device_->make_stream();
    arena_ = Buffer(size_t{16} << 20, device_->memory());
  }
  std::shared_ptr<const KernelSet> compiled(const std::vector<KernelSource>& sources) {
    return compiler::cuda::compile_kernels(*device_, sources, cache_.path(""));
  }

  // Device memory with these bytes, or with every byte 0xcd, `offset` bytes behind an aligned address.
  struct Place {
    Buffer buffer;
    std::byte* at = nullptr;
  };
  Place place(const void* bytes, size_t count, size_t offset = 0) {
    std::vector<unsigned char> poison((count + offset + 511) / 256 * 256, 0xcd);
    if (bytes && count) std::memcpy(poison.data() + offset, bytes, count);
    Place out;
    if (poison.size() <= arena_.bytes() - used_) {
      out = {arena_, arena_.data() + used_ + offset};
      used_ += poison.size();
    } else {
      out.buffer = Buffer(poison.size(), device_->memory());
      out.at = out.buffer.data() + offset;
    }
    device_->copy(out.at - offset, poison.data(), poison.size(), *stream_);
    stream_->synchronize();
    return out;
  }
  Place place(const HostTensor& tensor, size_t offset = 0) {
    return place(tensor.data.data(), tensor.bytes(), offset);
  }
  HostTensor fetched(const Place& from, DType dtype, const Shape& shape) {
    HostTensor out = make_tensor(dtype, shape);
    if (out.bytes()) device_->copy(out.data.data(), from.at, out.bytes(), *stream_);
    stream_->synchronize();
    return out;
  }

  // `over[o]`: the input whose buffer output o takes, or -1.
  std::vector<HostTensor> run(const KernelSet& set, const std::string& name, const Graph& body,
                              const std::vector<HostTensor>& inputs, const std::vector<int>& over = {}) {
    const Kernel& kernel = set.find(name);
    used_ = 0;
    std::vector<Place> places;
    std::vector<void*> args;
    const std::vector<int64_t> begins = compiler::cuda::generate_kernel(body).begins;
    for (size_t i = 0; i < inputs.size(); ++i) {
      places.push_back(place(inputs[i]));
      const size_t begin = begins.empty() ? 0 : begins[i] * size_of(inputs[i].dtype);
      args.push_back(static_cast<std::byte*>(places.back().at) + begin);
    }
    for (size_t o = 0; o < body.outputs.size(); ++o) {
      if (!over.empty() && over[o] >= 0) {
        args.push_back(places[over[o]].at);
        places.push_back(places[over[o]]);
        continue;
      }
      const Value& value = body[body.outputs[o].value];
      places.push_back(place(nullptr, static_cast<size_t>(numel(value.shape)) * size_of(value.dtype)));
      args.push_back(places.back().at);
    }
    Place workspace = place(nullptr, kernel.workspace());
    kernel.enqueue(args.data(), workspace.at, *stream_, 1);
    stream_->synchronize();
    std::vector<HostTensor> out;
    for (size_t o = 0; o < body.outputs.size(); ++o) {
      const Value& value = body[body.outputs[o].value];
      out.push_back(fetched(places[inputs.size() + o], value.dtype, value.shape));
    }
    return out;
  }
  // A graph node by node: fused nodes by their kernels, all else by the reference evaluator.
  std::vector<HostTensor> run_fused(const Graph& graph, const KernelSet& set,
                                    const std::vector<HostTensor>& inputs) {
    PerValue<HostTensor> values(graph.values.size());
    for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs[i].value] = inputs[i];
    for (const Node& node : graph.nodes) {
      std::vector<HostTensor> in;
      for (ValueId v : node.inputs) in.push_back(values[v]);
      auto out = node.body ? run(set, compiler::cuda::generate_kernel(*node.body).name, *node.body, in)
                           : evaluate_node(graph, node, in);
      for (size_t i = 0; i < out.size(); ++i) values[node.outputs[i]] = out[i];
    }
    std::vector<HostTensor> outputs;
    for (const auto& output : graph.outputs) outputs.push_back(values[output.value]);
    return outputs;
  }

  void expect_bodies(const std::vector<BodyCase>& bodies) {
    std::vector<KernelSource> sources;
    for (const auto& one : bodies) sources.push_back(compiler::cuda::generate_kernel(one.body));
    auto set = compiled(sources);
    std::vector<std::vector<HostTensor>> inputs(bodies.size()), want(bodies.size());
    std::vector<std::string> errors(bodies.size());
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
      threads.emplace_back([&] {
        for (size_t k = next++; k < bodies.size(); k = next++) {
          inputs[k] = inputs_of(bodies[k], 1000 * k + 1);
          try {
            want[k] = evaluate(bodies[k].body, inputs[k]);
          } catch (const std::exception& error) { errors[k] = error.what(); }
        }
      });
    for (auto& thread : threads) thread.join();
    for (size_t k = 0; k < bodies.size(); ++k) {
      const BodyCase& one = bodies[k];
      ASSERT_EQ(errors[k], "") << one.title;
      auto got = run(*set, sources[k].name, one.body, inputs[k]),
           again = run(*set, sources[k].name, one.body, inputs[k]);
      for (size_t o = 0; o < want[k].size(); ++o) {
        expect_near(got[o], want[k][o], str(one.title, " output ", o), one.scale);
        EXPECT_TRUE(same_bytes(got[o], again[o])) << one.title << " output " << o << ": two runs differ";
      }
      std::vector<int> over(got.size(), -1);
      std::set<int> taken;
      for (size_t o = 0; o < got.size(); ++o)
        for (int i = 0; i < static_cast<int>(inputs[k].size()) && over[o] < 0; ++i)
          if (!taken.count(i) && can_alias(one.body, static_cast<int>(o), i)) taken.insert(over[o] = i);
      if (taken.empty()) continue;
      auto placed = run(*set, sources[k].name, one.body, inputs[k], over);
      for (size_t o = 0; o < got.size(); ++o)
        EXPECT_TRUE(same_bytes(got[o], placed[o])) << one.title << " output " << o << ": in place differs";
    }
  }

  ScratchFolder cache_;
  std::shared_ptr<lockstep::cuda::CudaDevice> device_;
  std::unique_ptr<Stream> stream_;
  Buffer arena_;     // of small arrays: run() begins anew
  size_t used_ = 0;  // of the arena
};

TEST_F(CudaKernels, agree_with_the_reference_on_the_sweep) { expect_bodies(sweep_bodies()); }
TEST_F(CudaKernels, agree_with_the_reference_on_layers) {
  expect_bodies(layer_bodies(true));
  expect_bodies(layer_bodies(false));
}
TEST_F(CudaKernels, agree_with_the_reference_on_large_bodies) { expect_bodies(large_bodies()); }

TEST_F(CudaKernels, have_the_same_bits_with_and_without_fusion) {
  auto cases = fuse_cases();
  std::vector<KernelSource> sources;
  std::vector<Graph> on, off;
  for (const auto& one : cases) {
    Graph primitives = expanded(one.graph);
    on.push_back(fuse(primitives));
    FuseOptions apart;
    apart.enabled = false;
    off.push_back(fuse(primitives, apart));
    for (const Graph* graph : {&on.back(), &off.back()})
      for (const Node& node : graph->nodes)
        if (node.body) sources.push_back(compiler::cuda::generate_kernel(*node.body));
  }
  auto set = compiled(sources);
  for (size_t k = 0; k < cases.size(); ++k) {
    BodyCase one{cases[k].name, cases[k].graph, {}, 1};
    one.ranges.lo = 0.2, one.ranges.hi = 2, one.ranges.int_lo = 0, one.ranges.int_hi = 5;
    auto inputs = inputs_of(one, 100 * k + 1);
    auto fused = run_fused(on[k], *set, inputs), apart = run_fused(off[k], *set, inputs);
    for (size_t o = 0; o < fused.size(); ++o)
      EXPECT_TRUE(same_bytes(fused[o], apart[o])) << cases[k].name << " output " << o;
  }
}

// Row and column sums of x*y: alone, and beside each other and the stored product, in the sizes of every
// form.
TEST_F(CudaKernels, sums_have_one_order_in_every_kernel) {
  for (Shape shape : {Shape{1000, 768}, Shape{33, 24}, Shape{300, 1600}, Shape{77, 1001}, Shape{2049, 64},
                      Shape{70, 12288}, Shape{9, 50304}}) {
    for (DType dtype : {DType::f32, DType::bf16}) {
      auto body = [&](bool rows, bool columns, bool product) {
        CaseBuilder b;
        Tensor x = convert(b.in(dtype, shape), DType::f32), y = convert(b.in(dtype, shape), DType::f32),
               z = x * y;
        if (rows) b.out(sum(z, {1}));
        if (columns) b.out(sum(z, {0}));
        if (product) b.out(z - broadcast_dims(sum(z, {1}), shape, {0}));
        return b.take();
      };
      Graph all = body(true, true, true), rows = body(true, false, false), columns = body(false, true, false);
      auto a = compiler::cuda::generate_kernel(all), r = compiler::cuda::generate_kernel(rows),
           c = compiler::cuda::generate_kernel(columns);
      auto set = compiled({a, r, c});
      BodyCase one{"sums", all, {}, 1};
      one.ranges.lo = -2, one.ranges.hi = 2;
      auto inputs = inputs_of(one, 5);
      auto together = run(*set, a.name, all, inputs);
      EXPECT_TRUE(same_bytes(together[0], run(*set, r.name, rows, inputs)[0]))
          << "row sums " << shape_text(dtype, shape);
      EXPECT_TRUE(same_bytes(together[1], run(*set, c.name, columns, inputs)[0]))
          << "column sums " << shape_text(dtype, shape);
    }
  }
}

// Row sums of exp(x - max) and of one chosen element: alone, and in the kernel that keeps rows of the logits
// for their gradient.
TEST_F(CudaKernels, a_loss_has_the_same_bits_beside_its_gradient) {
  for (Shape shape : {Shape{270, 50304}, Shape{33, 50257}, Shape{300, 256}}) {
    auto body = [&](bool gradient) {
      CaseBuilder b;
      const Attrs attrs{{"ignore_index", int64_t{2}}};
      Tensor x = b.in(DType::bf16, shape), targets = b.in(DType::i32, {shape[0]});
      auto loss = apply("cross_entropy", {x, targets}, attrs);
      for (auto& one : loss) b.out(one);
      if (gradient) b.out(apply1("cross_entropy_grad", {b.in({}), x, targets, loss[2]}, attrs));
      return expanded(b.take());
    };
    Graph alone = fuse(body(false)), beside = fuse(body(true));
    std::vector<KernelSource> sources;
    for (const Graph* graph : {&alone, &beside})
      for (const Node& node : graph->nodes)
        if (node.body) sources.push_back(compiler::cuda::generate_kernel(*node.body));
    auto set = compiled(sources);
    BodyCase one{"loss", beside, {}, 1};
    one.ranges.lo = -4, one.ranges.hi = 4, one.ranges.int_lo = -3, one.ranges.int_hi = shape[1] + 3;
    auto inputs = inputs_of(one, 9);
    auto together = run_fused(beside, *set, inputs);
    inputs.pop_back();
    auto apart = run_fused(alone, *set, inputs);
    for (size_t o = 0; o < apart.size(); ++o)
      EXPECT_TRUE(same_bytes(together[o], apart[o]))
          << "output " << o << " of " << shape_text(DType::bf16, shape);
  }
}

TEST_F(CudaKernels, dropout_has_the_bits_of_the_reference) {
  CaseBuilder b;
  Tensor x = b.in({37, 1000});
  b.out(apply1("dropout", {x, b.in(DType::i64, {}), b.in(DType::i64, {}), b.in(DType::i64, {})},
               {{"p", 0.25}, {"stream", int64_t{77}}}));
  Graph body = expanded(b.take());
  KernelSource source = compiler::cuda::generate_kernel(body);
  auto set = compiled({source});
  for (int64_t sample : {0, 1, 3}) {
    std::vector<HostTensor> in{random_tensor(DType::f32, {37, 1000}, 3), from_values(DType::i64, {}, {42}),
                               from_values(DType::i64, {}, {7}),
                               from_values(DType::i64, {}, {static_cast<double>(sample)})};
    EXPECT_TRUE(same_bytes(run(*set, source.name, body, in)[0], evaluate(body, in)[0]))
        << "sample " << sample;
  }
}

TEST_F(CudaKernels, travel_as_bytes) {
  CaseBuilder b;
  b.out(sum(b.in({40, 24}), {0}));
  Graph body = b.take();
  KernelSource source = compiler::cuda::generate_kernel(body);
  auto set = compiled({source}), again = compiled({source}),
       other = compiler::cuda::load_kernels(*device_, set->binary());
  EXPECT_FALSE(set->from_cache());
  EXPECT_TRUE(again->from_cache());
  EXPECT_EQ(set->hash(), other->hash());
  std::vector<HostTensor> in{random_tensor(DType::f32, {40, 24}, 1)};
  EXPECT_TRUE(same_bytes(run(*set, source.name, body, in)[0], run(*other, source.name, body, in)[0]));
  std::string damaged = set->binary();
  damaged[damaged.size() / 2] ^= 1;
  EXPECT_THROW(compiler::cuda::load_kernels(*device_, damaged), InternalError);
  EXPECT_THROW(set->find("c_none"), InternalError);
  try {
    compiler::cuda::load_kernels(*device_, cpu::seal("code", "sm_10"));
    FAIL() << "kernels for another device were loaded";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what())
                  .find(str("compiled for \"sm_10\", and this device is \"", device_->target(), "\"")),
              std::string::npos)
        << error.what();
  }
}

struct Update {
  OpId op;
  Attrs attrs;
  size_t tensors;  // per-element inputs
  std::vector<double> scalars;
};
const Update kUpdates[] = {
    {"adamw", {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}}, 4, {3e-3, 0.1, 0.05, 0.7}},
    {"sgd", {{"momentum", 0.9}}, 3, {1e-2, 0.5}}};

// With a gate beyond its limit, or no number, a gated update changes nothing; else its bits are those of the
// update without gates.
TEST_F(CudaKernels, a_gated_update_is_made_or_not) {
  using Limits = std::numeric_limits<float>;
  using Gates = std::vector<float>;
  const float inf = Limits::infinity(), nan = Limits::quiet_NaN(), most = Limits::max(), decay = 0.1f;
  const int64_t size = 10007;
  for (const Update& update : kUpdates) {
    const Graph body = multi_tensor_body(update.op, update.attrs, DType::f32);
    const KernelSource plain = compiler::cuda::generate_multi_tensor(body),
                       gated = compiler::cuda::generate_multi_tensor(
                           gated_body(body, update.tensors == 4 ? std::vector{0, 2, 3} : std::vector{0, 2},
                                      {DType::f32, DType::f32}));
    auto set = compiled({plain, gated});
    auto run = [&](const KernelSource& source, std::vector<float> gates) {
      std::vector<Place> places;
      std::vector<void*> table, scalars;
      for (size_t k = 0; k < update.tensors; ++k) {
        HostTensor tensor = random_tensor(DType::f32, {size}, 70 + k, 0.1, 1);
        if (k == 1 && !gates.empty() && !(std::abs(gates[0]) <= gates[1]))
          set_double(DType::f32, tensor.data.data(), 5, nan);
        places.push_back(place(tensor)), table.push_back(places.back().at);
      }
      for (size_t k = 0; k < update.tensors; ++k)
        if (k != 1) table.push_back(places[k].at);
      std::vector<Place> kept;
      std::vector<double> values = update.scalars;
      values.insert(values.end(), gates.begin(), gates.end());
      for (double value : values)
        kept.push_back(place(from_values(DType::f32, {}, {value}))), scalars.push_back(kept.back().at);
      set->find_multi_tensor(source.name)
          .enqueue(table.data(), &size, &decay, 1, scalars.data(), *stream_, 1);
      stream_->synchronize();
      std::vector<HostTensor> out;
      for (size_t k = 0; k < update.tensors; ++k)
        if (k != 1) out.push_back(fetched(places[k], DType::f32, {size}));
      return out;
    };
    const auto want = run(plain, {});
    for (const Gates& gates : {Gates{1, most, 2, most},
                               {most, most, -3, most},
                               {2, 2, 0, 0},
                               {1, most, -3, 2},
                               {nan, most, 2, most},
                               {1, most, nan, most},
                               {inf, most, 1, most},
                               {2.5f, 2, 1, most}}) {
      const bool made = std::isfinite(gates[0]) && gates[0] <= gates[1] && gates[2] <= gates[3];
      const auto got = run(gated, gates);
      for (size_t k = 0; k < want.size(); ++k)
        EXPECT_TRUE(same_bytes(
            got[k], made ? want[k] : random_tensor(DType::f32, {size}, 70 + (k == 0 ? 0 : k + 1), 0.1, 1)))
            << update.op;
    }
  }
}

// In float8 by scales of the tensors: what the CPU rounds by the same formula of what the update leaves, at
// any offset; and the largest magnitude, over many blocks of a tensor.
TEST_F(CudaKernels, a_multi_tensor_update_rounds_by_scales) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), most = std::numeric_limits<float>::max();
  const Update& adamw = kUpdates[0];
  const Graph plain =
      gated_body(multi_tensor_body(adamw.op, adamw.attrs, DType::f32), {0, 2, 3}, {DType::f32, DType::f32});
  const std::vector<int64_t> sizes{1, 15, 8192, 40001, 1 << 20};
  const std::vector<float> decays(sizes.size(), 0.1f);
  for (DType dtype : {DType::f8_e4m3, DType::f8_e5m2}) {
    const KernelSource source = compiler::cuda::generate_multi_tensor(body_by_scale(plain, dtype, 2));
    auto set = compiled({source});
    for (const float gate : {1.0f, nan})
      for (const bool poisoned : {false, true})
        for (size_t offset : {0, 3}) {
          std::vector<Place> places;
          std::vector<void*> table;
          auto add = [&](const HostTensor& tensor, size_t by = 0) {
            places.push_back(place(tensor, by));
            table.push_back(places.back().at);
          };
          for (size_t i = 0; i < sizes.size(); ++i) {
            for (size_t k = 0; k < 4; ++k) {
              HostTensor in = random_tensor(DType::f32, {sizes[i]}, 10 * i + k, 0.1, 1);
              if (k == 0 && poisoned) in.set(sizes[i] - 1, nan);
              add(in);
            }
            for (const double scale : {3.0 + static_cast<double>(i), 20.0})
              add(from_values(DType::f32, {}, {scale}));
            for (size_t k = 0; k < 3; ++k) add(make_tensor(DType::f32, {sizes[i]}));
            add(make_tensor(dtype, {sizes[i]}), offset);
            add(from_values(DType::f32, {}, {i == 1 ? 1e30 : 0.0}));
          }
          std::vector<Place> scalars;
          std::vector<void*> pointers;
          for (double value : {3e-3, 0.1, 0.05, 0.7, static_cast<double>(gate), static_cast<double>(most),
                               1.0, static_cast<double>(most)})
            scalars.push_back(place(from_values(DType::f32, {}, {value}))),
                pointers.push_back(scalars.back().at);
          set->find_multi_tensor(source.name)
              .enqueue(table.data(), sizes.data(), decays.data(), static_cast<int64_t>(sizes.size()),
                       pointers.data(), *stream_, 1);
          stream_->synchronize();
          for (size_t i = 0; i < sizes.size(); ++i) {
            const size_t first = 11 * i;
            const HostTensor made = fetched(places[first + 6], DType::f32, {sizes[i]}),
                             copy = fetched(places[first + 9], dtype, {sizes[i]}),
                             largest = fetched(places[first + 10], DType::f32, {});
            const float scale = gate == 1 ? 3.0f + static_cast<float>(i) : 20.0f;
            float magnitude = 0;
            for (int64_t e = 0; e < sizes[i]; ++e) {
              const auto half = static_cast<float>(bf16(static_cast<float>(made.at(e))));
              if (std::isnan(half)) {
                magnitude = half;
                continue;
              }
              ASSERT_EQ(copy.at(e), from_values(dtype, {1}, {half * scale}).at(0)) << i << " " << e;
              if (!std::isnan(magnitude)) magnitude = std::max(magnitude, std::fabs(half));
            }
            if (i == 1 && !std::isnan(magnitude)) magnitude = 1e30f;
            EXPECT_EQ(std::isnan(largest.at(0)), std::isnan(magnitude)) << i;
            if (!std::isnan(magnitude)) EXPECT_EQ(largest.at(0), magnitude) << i;
          }
        }
  }
}

// An input that lies in bf16 is as good as what it is in f32, bit by bit; at any offset.
TEST_F(CudaKernels, a_multi_tensor_update_widens_halves) {
  const Update& adamw = kUpdates[0];
  const Graph body = multi_tensor_body(adamw.op, adamw.attrs, DType::f32);
  const KernelSource full = compiler::cuda::generate_multi_tensor(body),
                     half = compiler::cuda::generate_multi_tensor(body_of_halves(body, {1}));
  auto set = compiled({full, half});
  const float decay = 0.1f;
  std::vector<Place> scalars;
  std::vector<void*> scalar_pointers;
  for (double value : adamw.scalars)
    scalars.push_back(place(from_values(DType::f32, {}, {value}))),
        scalar_pointers.push_back(scalars.back().at);
  for (int64_t size : {1, 15, 8192, 40001}) {
    const HostTensor gradient = random_tensor(DType::bf16, {size}, 71, 0.1, 1);
    auto run = [&](const KernelSource& source, DType dtype, size_t offset) {
      std::vector<Place> places;
      std::vector<void*> table;
      for (size_t k = 0; k < adamw.tensors; ++k) {
        places.push_back(k == 1 ? place(from_values(dtype, {size}, to_doubles(gradient)), offset)
                                : place(random_tensor(DType::f32, {size}, 70 + k, 0.1, 1)));
        table.push_back(places.back().at);
      }
      for (size_t k : {0, 2, 3}) table.push_back(places[k].at);
      set->find_multi_tensor(source.name)
          .enqueue(table.data(), &size, &decay, 1, scalar_pointers.data(), *stream_, 1);
      stream_->synchronize();
      std::vector<HostTensor> out;
      for (size_t k : {0, 2, 3}) out.push_back(fetched(places[k], DType::f32, {size}));
      return out;
    };
    const auto want = run(full, DType::f32, 0);
    for (size_t offset : {0, 2, 8}) {
      const auto got = run(half, DType::bf16, offset);
      for (size_t k = 0; k < want.size(); ++k)
        EXPECT_TRUE(same_bytes(got[k], want[k])) << size << " elements, offset " << offset << ", " << k;
    }
  }
}

TEST_F(CudaKernels, multi_tensor_updates_every_tensor_as_the_row_does) {
  std::vector<int64_t> sizes{1, 15, 16, 17, 0, 1000, 16384, 40001, 8192, 8193};
  while (sizes.size() < 133) sizes.push_back(static_cast<int64_t>(sizes.size()) * 7 % 50);  // several tables
  for (const Update& update : kUpdates) {
    KernelSource source =
        compiler::cuda::generate_multi_tensor(multi_tensor_body(update.op, update.attrs, DType::f32));
    auto set = compiled({source});
    const MultiTensorKernel& kernel = set->find_multi_tensor(source.name);
    std::vector<HostTensor> scalars;
    std::vector<Place> scalar_places;
    std::vector<void*> scalar_pointers;
    for (double value : update.scalars) {
      scalars.push_back(from_values(DType::f32, {}, {value}));
      scalar_places.push_back(place(scalars.back()));
      scalar_pointers.push_back(scalar_places.back().at);
    }
    std::vector<float> decays;
    std::vector<std::vector<HostTensor>> in(sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      decays.push_back(static_cast<float>(i % 3) * 0.1f);
      for (size_t k = 0; k < update.tensors; ++k)
        in[i].push_back(random_tensor(DType::f32, {sizes[i]}, 10 * i + k, 0.1, 1));
    }
    std::vector<std::vector<HostTensor>> aligned;
    for (size_t offset : {0, 4, 12}) {  // bytes behind an aligned address
      std::vector<Place> places;
      std::vector<void*> table;
      for (size_t i = 0; i < sizes.size(); ++i) {
        for (const auto& tensor : in[i])
          places.push_back(place(tensor, offset)), table.push_back(places.back().at);
        for (size_t k = 0; k + 1 < update.tensors; ++k)
          places.push_back(place(nullptr, static_cast<size_t>(sizes[i]) * 4, k == 0 ? 0 : offset)),
              table.push_back(places.back().at);
      }
      kernel.enqueue(table.data(), sizes.data(), decays.data(), static_cast<int64_t>(sizes.size()),
                     scalar_pointers.data(), *stream_, 1);
      stream_->synchronize();
      std::vector<std::vector<HostTensor>> out(sizes.size());
      const size_t columns = 2 * update.tensors - 1;
      for (size_t i = 0; i < sizes.size(); ++i)
        for (size_t k = 0; k + 1 < update.tensors; ++k)
          out[i].push_back(fetched(places[i * columns + update.tensors + k], DType::f32, {sizes[i]}));
      if (offset == 0) aligned = out;
      for (size_t i = 0; i < sizes.size(); ++i)
        for (size_t k = 0; k < out[i].size(); ++k)
          EXPECT_TRUE(same_bytes(out[i][k], aligned[i][k]))
              << update.op << " tensor " << i << ", offset " << offset;
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
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
        expect_near(aligned[i][k], want[k], str(update.op, " tensor ", i, " output ", k));
    }
    // In place, from a captured piece of work.
    std::vector<Place> places;
    std::vector<void*> table;
    for (size_t k = 0; k < update.tensors; ++k)
      places.push_back(place(in[7][k])), table.push_back(places.back().at);
    for (size_t k = 0; k < update.tensors; ++k)
      if (k != 1) table.push_back(places[k].at);
    const int64_t size = sizes[7];
    auto work = device_->capture(*stream_, [&] {
      kernel.enqueue(table.data(), &size, &decays[7], 1, scalar_pointers.data(), *stream_, 1);
    });
    ASSERT_TRUE(work);
    work->launch(*stream_);
    stream_->synchronize();
    for (size_t k = 0, o = 0; k < update.tensors; ++k) {
      if (k == 1) continue;
      EXPECT_TRUE(same_bytes(fetched(places[k], DType::f32, {size}), aligned[7][o++]))
          << update.op << " in place, tensor " << k;
    }
  }
}

}  // namespace
}  // namespace lockstep
