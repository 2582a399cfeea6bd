// Runs that go together: generated kernels and products give each the bits that it has alone.
#include <array>
#include <cstring>
#include <functional>
#include <iostream>

#include "compiler/codegen/cuda/library/library.h"
#include "compiler/codegen/cuda/loops/kernels.h"
#include "tests/gpu/kernel_bodies.h"
#include "tests/gpu/library_case.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::compiler::cuda {
namespace {

class together : public LibraryCase {
 protected:
  static constexpr int64_t kRuns = 3;

  // Arguments of all runs: each has kRuns parts at a distance, or one for all.
  struct Argument {
    Buffer memory;
    int64_t stride = 0, bytes = 0;
  };
  Argument argument(int64_t bytes, bool shared) {
    const int64_t each = (bytes + 255) / 256 * 256 + 512;
    Argument out{Buffer(static_cast<size_t>(shared ? each : kRuns * each), device_->memory()),
                 shared ? 0 : each, bytes};
    fill(out, 0xcd);
    return out;
  }
  void fill(Argument& argument, int byte) {
    const std::vector<char> poison(argument.memory.bytes(), static_cast<char>(byte));
    copy_to_device(*device_, argument.memory.data(), poison.data(), poison.size());
  }
  void put(Argument& to, int64_t run, const void* from) {
    if (to.bytes)
      copy_to_device(*device_, to.memory.data() + run * to.stride, from, static_cast<size_t>(to.bytes));
  }
  std::vector<char> contents(const Argument& from) {
    std::vector<char> out(from.memory.bytes());
    copy_to_host(*device_, out.data(), from.memory.data(), out.size());
    return out;
  }
  // What the outputs, behind `inputs` of the arguments, hold after enqueue.
  std::vector<std::vector<char>> outputs_of(std::vector<Argument>& all, size_t inputs, size_t workspace,
                                            const std::function<void(void**, void*, Repeats)>& enqueue) {
    std::vector<void*> args;
    std::vector<int64_t> strides;
    for (size_t i = inputs; i < all.size(); ++i) fill(all[i], 0xcd);
    for (const Argument& one : all) args.push_back(one.memory.data()), strides.push_back(one.stride);
    Argument room = argument(static_cast<int64_t>(workspace), false);
    enqueue(args.data(), room.memory.data(), {kRuns, strides.data(), strides.size(), room.stride});
    stream_->synchronize();
    std::vector<std::vector<char>> out;
    for (size_t i = inputs; i < all.size(); ++i) out.push_back(contents(all[i]));
    return out;
  }
  template <class Call>
  auto one_by_one(const Call& call) {
    return [this, &call](void** args, void* workspace, const Repeats& repeats) {
      for (int64_t j = 0; j < repeats.count; ++j) {
        if (j > 0) repeats.step(args);
        call.enqueue(args, static_cast<char*>(workspace) + j * repeats.workspace, *stream_, 1);
      }
    };
  }

  void expect_bodies(const std::vector<BodyCase>& bodies) {
    std::vector<KernelSource> plain, joined;
    for (const auto& one : bodies) {
      plain.push_back(generate_kernel(one.body)), joined.push_back(generate_kernel(one.body, kRuns));
    }
    const auto alone = compile_kernels(*device_, plain, cache_.path("")),
               set = compile_kernels(*device_, joined, cache_.path(""));
    for (size_t k = 0; k < bodies.size(); ++k) {
      const Graph& body = bodies[k].body;
      const size_t inputs = body.inputs.size();
      std::vector<Argument> all;
      for (size_t i = 0; i < inputs + body.outputs.size(); ++i) {
        const Value& value = body[i < inputs ? body.inputs[i].value : body.outputs[i - inputs].value];
        all.push_back(argument(numel(value.shape) * static_cast<int64_t>(size_of(value.dtype)),
                               i > 0 && i < inputs && i % 3 == 0));
      }
      for (int64_t run = 0; run < kRuns; ++run) {
        const auto random = inputs_of(bodies[k], 100 * k + static_cast<size_t>(run));
        for (size_t i = 0; i < inputs; ++i) put(all[i], run, random[i].data.data());
      }
      const auto moved = [&](const auto& enqueue) {
        return [&, enqueue](void** args, void* workspace, const Repeats& repeats) {
          for (size_t i = 0; i < plain[k].begins.size(); ++i)
            args[i] = static_cast<char*>(args[i]) +
                      plain[k].begins[i] * static_cast<int64_t>(size_of(body[body.inputs[i].value].dtype));
          enqueue(args, workspace, repeats);
        };
      };
      const Kernel &one = alone->find(plain[k].name), &many = set->find(joined[k].name);
      const auto each = outputs_of(all, inputs, many.workspace(), moved(one_by_one(many)));
      const auto at_once = [&](void** args, void* workspace, const Repeats& repeats) {
        EXPECT_TRUE(many.enqueue_together(args, workspace, repeats, *stream_, 1));
      };
      EXPECT_EQ(outputs_of(all, inputs, many.workspace(), moved(at_once)), each) << bodies[k].title;
      // One that sums over columns has an order of its own.
      if (plain[k].name == joined[k].name)
        EXPECT_EQ(outputs_of(all, inputs, one.workspace(), moved(one_by_one(one))), each) << bodies[k].title;
    }
  }

  // Whether the products went together; of `shared` inputs there is one for all.
  bool expect_product(const Node& node, const std::vector<Operand>& in, const Operand& out,
                      const std::vector<bool>& shared, const TargetOptions& options) {
    const auto call = make_contraction(*device_, node, in, {out}, options);
    SCOPED_TRACE(call->algorithm());
    EXPECT_TRUE(call->runs_side_by_side() || call->algorithm().starts_with("loop"));
    std::vector<Argument> all;
    for (size_t i = 0; i < in.size(); ++i) {
      const int64_t count = numel(in[i].shape);
      all.push_back(argument(count * static_cast<int64_t>(size_of(in[i].dtype)), shared[i]));
      for (int64_t run = 0; run < kRuns; ++run) put(all[i], run, random(in[i].dtype, count).host.data());
    }
    all.push_back(argument(numel(out.shape) * static_cast<int64_t>(size_of(out.dtype)), false));
    const auto each = outputs_of(all, in.size(), call->workspace(1), one_by_one(*call));
    bool went = false;
    const auto at_once = outputs_of(all, in.size(), call->workspace(1),
                                    [&](void** args, void* workspace, const Repeats& repeats) {
                                      went = call->enqueue_together(args, workspace, repeats, *stream_, 1);
                                    });
    if (went) EXPECT_EQ(at_once, each);
    if (!went) std::cout << "apart: " << call->algorithm() << "\n";
    return went;
  }

  ScratchFolder cache_;
};

TEST_F(together, kernels_of_the_sweep) { expect_bodies(sweep_bodies()); }
TEST_F(together, kernels_of_layers) { expect_bodies(layer_bodies(true)); }
TEST_F(together, kernels_of_large_bodies) { expect_bodies(large_bodies()); }

// Forward, the gradient of the input and that of the weight, in sizes of GPT-2 1558M and odd ones; algorithms
// for one, and for as many as run.
TEST_F(together, products) {
  const std::vector<int64_t> none;
  auto dims = [&](const std::vector<int64_t>& left, const std::vector<int64_t>& right) {
    return Attrs{{"lhs_batch", none}, {"rhs_batch", none}, {"lhs_contract", left}, {"rhs_contract", right}};
  };
  struct Kind {
    DType dtype;
    bool tf32;
  };
  for (const Kind& kind : {Kind{DType::bf16, false}, Kind{DType::f32, false}, Kind{DType::f32, true}})
    for (const int64_t chosen_for : {int64_t{1}, kRuns}) {
      int joined = 0, all = 0;
      for (const auto& [rows, inner, columns] : {std::array<int64_t, 3>{1024, 1600, 6400},
                                                 {1024, 6400, 1600},
                                                 {4096, 1600, 1600},
                                                 {96, 24, 40},
                                                 {33, 65, 17}}) {
        TargetOptions options;
        options.tf32 = kind.tf32, options.together = chosen_for;
        Node linear, dot;
        linear.op = "linear", dot.op = "dot";
        const Operand x = dense_operand(kind.dtype, {rows, inner}),
                      w = dense_operand(kind.dtype, {columns, inner}),
                      y = dense_operand(kind.dtype, {rows, columns}),
                      bias = dense_operand(kind.dtype, {columns});
        joined += expect_product(linear, {x, w, bias}, y, {false, true, true}, options);
        joined += expect_product(linear, {x, w}, y, {false, true}, options);
        dot.attrs = dims({1}, {0});
        joined += expect_product(dot, {y, w}, x, {false, true}, options);
        dot.attrs = dims({0}, {0});
        joined += expect_product(dot, {y, x}, w, {false, false}, options);
        all += 4;
      }
      std::cout << joined << " of " << all << " products of " << name(kind.dtype)
                << (kind.tf32 ? " in tf32" : "") << " went together, chosen for " << chosen_for << "\n";
      if (kind.dtype == DType::bf16) EXPECT_GT(joined, 0);
    }
}

}  // namespace
}  // namespace lockstep::compiler::cuda
