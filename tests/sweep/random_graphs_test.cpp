// Graphs drawn from a seed, forward and backward: native, eager and CUDA against the reference, the CPU's own
// ways against one another by their bits, gradients against a finite difference.
//
// TEST_SEED and TEST_GRAPHS in the environment draw others; a failure names both for its graph, and shows the
// shortest beginning of it that fails, too. How far a result may lie from the reference follows from the
// graph: roundings.h says how. ctest compiles kernels without optimization (quick_compiler), which changes no
// bit and is most of the test's time; run by hand, they are compiled as for a user.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>

#include "compiler/codegen/cuda/cuda_target.h"
#include "compiler/reference/evaluate.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "tests/support/tolerance.h"
#include "tests/sweep/backends.h"
#include "tests/sweep/cases.h"
#include "tests/sweep/random_graph.h"
#include "tests/sweep/roundings.h"

namespace lockstep::sweep {
namespace {

using compiler::HostTensor;
using Tensors = std::vector<HostTensor>;

uint64_t number_of(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::stoull(text) : otherwise;
}
uint64_t first_seed() { return number_of("TEST_SEED", 1100); }
uint64_t graphs() { return number_of("TEST_GRAPHS", 300); }

struct Evaluated {
  RandomGraph made;
  Roundings how;
};

Evaluated evaluated(RandomGraph made) {
  Roundings how = roundings(made.graph, made.inputs);
  return {std::move(made), std::move(how)};
}

const std::vector<Evaluated>& cases() {
  static const std::vector<Evaluated> all = [] {
    std::vector<Evaluated> out;
    std::cout << "TEST_SEED=" << first_seed() << " TEST_GRAPHS=" << graphs() << "\n";
    for (uint64_t i = 0; i < graphs(); ++i) {
      try {
        out.push_back(evaluated(random_graph(first_seed() + i)));
        if (const std::string& what = out.back().how.undecided; !what.empty())
          ADD_FAILURE() << "TEST_SEED=" << first_seed() + i << " TEST_GRAPHS=1: " << what
                        << " depends on roundings";
      } catch (const std::exception& error) {
        ADD_FAILURE() << "TEST_SEED=" << first_seed() + i << " TEST_GRAPHS=1: " << error.what();
      }
    }
    return out;
  }();
  return all;
}

// "" or the first output that lies too far off.
std::string difference(const Evaluated& is, const Tensors& given) {
  for (size_t o = 0; o < given.size(); ++o)
    if (auto words = testing::difference(given[o], is.how.right[o], {0, is.how.allowed[o]}); !words.empty())
      return str(is.made.graph.outputs[o].name, ": ", words, ", allowed ", is.how.allowed[o]);
  return "";
}

// A way to run graphs, on every so manieth of them.
struct Way {
  const char* name;
  size_t step;
  std::function<Backend()> make;
  bool same_bits = true;  // as the first way
};
Way cpu(const char* name, size_t step, compiler::Backend kind, int threads, bool fusion) {
  return {name, step, [=] { return compiled_backend(name, kind, compiler::cpu_target(), threads, fusion); }};
}
Way cuda(const char* name, size_t step, compiler::Backend kind) {
  return {name, step, [=] { return compiled_backend(name, kind, compiler::cuda_target(0)); }, false};
}
// Native first, on every second graph: its kernels take the longest to compile. The steps of the CPU's other
// ways are multiples of its step, which their bits are compared with.
constexpr size_t kNativeStep = 2;
std::vector<Way> ways() {
  using compiler::Backend::eager, compiler::Backend::native;
  std::vector<Way> out{cpu("native", kNativeStep, native, 2, true),
                       cpu("1 thread", kNativeStep, native, 1, true),
                       cpu("without fusion", 12, native, 2, false), cpu("eager", 12, eager, 2, true)};
  std::string why;
  if (compiler::cuda_available(&why)) {
    out.push_back(cuda("cuda native", 1, native));
    out.push_back(cuda("cuda eager", 6, eager));
  } else {
    std::cout << "left out: CUDA: " << why << "\n";
  }
  return out;
}

// The shortest beginning of the graph that differs, too.
std::string shortest(const Evaluated& is, const Way& way) {
  for (int steps = 0; steps < is.made.steps; ++steps) {
    const Evaluated part = evaluated(random_graph(is.made.seed, steps));
    const Backend backend = way.make();
    backend.prepare({part.made.graph});
    if (auto words = difference(part, backend.run(0, part.made.inputs)); !words.empty())
      return str("of its first ", steps, " functions ", words, "\n", part.made.text());
  }
  return is.made.text();
}

// The outputs of every so manieth case.
std::vector<Tensors> run_all(const Way& way) {
  std::vector<Graph> graphs;
  for (size_t i = 0; i < cases().size(); i += way.step) graphs.push_back(cases()[i].made.graph);
  const Backend backend = way.make();
  backend.prepare(graphs);
  std::vector<Tensors> out;
  for (size_t i = 0; i < graphs.size(); ++i) out.push_back(backend.run(i, cases()[i * way.step].made.inputs));
  return out;
}

TEST(RandomGraphs, AreOfAllKinds) {
  std::map<std::string, int> functions;
  int smooth = 0, wide = 0, policy = 0, halves = 0;
  size_t outputs = 0, loose = 0;  // of floats, and those that may lie a tenth of their largest element off
  for (const Evaluated& is : cases()) {
    smooth += is.made.smooth, wide += is.made.wide, policy += is.made.policy.has_value();
    bool half = false;
    for (const Value& value : is.made.graph.values)
      half |= value.dtype == DType::bf16 || value.dtype == DType::f16;
    halves += half;
    for (const Node& node : is.made.graph.nodes) ++functions[node.at.scope];
    for (size_t o = 0; o < is.how.right.size(); ++o) {
      outputs += is_float(is.how.right[o].dtype);
      loose += is.how.allowed[o] > 0.1 * is.how.largest[o];
      for (int64_t i = 0; i < is.how.right[o].size(); ++i)
        ASSERT_TRUE(std::isfinite(is.how.right[o].at(i)))
            << is.made.graph.outputs[o].name << " is not finite in " << is.made.text();
    }
  }
  std::cout << cases().size() << " graphs, " << smooth << " smooth, " << wide << " wide, " << policy
            << " under a policy, " << halves << " with bf16 or f16, " << functions.size() << " functions, "
            << outputs << " outputs of floats, " << loose << " of them loose\n";
  EXPECT_LE(loose, outputs / 10 + 1);
  if (graphs() < 300) return;
  EXPECT_EQ(cases().size(), graphs());
  EXPECT_GE(functions.size(), 150u);
  EXPECT_GE(smooth, 80);
  EXPECT_GE(wide, 5);
  EXPECT_GE(policy, 60);
  EXPECT_GE(halves, 100);
}

// Fused kernels, one thread, no fusion and eager give the same bits on the CPU.
TEST(RandomGraphs, EveryWayEqualsReference) {
  std::vector<Tensors> native;
  bool shown = false;  // one graph is shown in full, the others are named
  for (const Way& way : ways()) {
    const auto given = run_all(way);
    if (native.empty()) native = given;
    for (size_t i = 0; i < given.size(); ++i) {
      const Evaluated& is = cases()[i * way.step];
      const std::string title = str(way.name, ": TEST_SEED=", is.made.seed, " TEST_GRAPHS=1: ");
      if (const std::string words = difference(is, given[i]); !words.empty()) {
        ADD_FAILURE() << title << words << "\n" << (shown ? "" : shortest(is, way));
        shown = true;
      }
      for (size_t o = 0; way.same_bits && o < given[i].size(); ++o)
        if (const HostTensor& first = native[i * way.step / kNativeStep][o];
            !compiler::same_bytes(given[i][o], first)) {
          ADD_FAILURE() << title << is.made.graph.outputs[o].name << ": "
                        << testing::difference(given[i][o], first, {}) << ", not native's bits\n"
                        << (shown ? "" : is.made.text());
          shown = true;
        }
    }
  }
}

// The derivative of the loss along a random direction of all inputs, of more graphs: nothing is compiled.
TEST(RandomGraphs, GradientsEqualFiniteDifferences) {
  uint64_t checked = 0;
  for (uint64_t seed = first_seed(); seed < first_seed() + 4 * graphs(); ++seed) {
    const RandomGraph made = random_graph(seed);
    if (!made.smooth || made.wide) continue;
    const Graph graph = widened(made.graph), forward = widened(made.forward);
    Tensors at, direction;
    for (const HostTensor& input : made.inputs) {
      at.push_back(widened(input));
      direction.push_back(
          random_tensor({at.back().dtype, input.shape}, Sample{{}, {}, -1, 1, 0, 1}, 50 + at.size()));
    }
    auto loss = [&](double step) {
      Tensors moved = at;
      for (size_t i = 0; i < at.size(); ++i) {
        if (!is_float(at[i].dtype)) continue;
        moved[i] = compiler::make_tensor(DType::f64, at[i].shape);
        for (int64_t k = 0; k < at[i].size(); ++k) moved[i].set(k, at[i].at(k) + step * direction[i].at(k));
      }
      return compiler::evaluate(forward, moved)[0].at(0);
    };
    auto slope = [&](double h) {
      return (8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h);
    };
    const double right = slope(1e-4);
    const Tensors given = compiler::evaluate(graph, at);
    double sum = 0, scale = 1e-3;
    size_t next = given.size();
    for (size_t i = at.size(); i-- > 0;) {
      if (!is_float(at[i].dtype)) continue;
      const HostTensor& gradient = given[--next];
      for (int64_t k = 0; k < gradient.size(); ++k) {
        sum += gradient.at(k) * direction[i].at(k);
        scale += std::fabs(gradient.at(k) * direction[i].at(k));
      }
    }
    EXPECT_NEAR(sum, right, 1e-6 * scale + 1e-9 * std::fabs(loss(0))) << made.text();
    ++checked;
  }
  std::cout << "gradients checked: " << checked << "\n";
  if (graphs() < 300) return;
  EXPECT_GE(checked, graphs());
}

}  // namespace
}  // namespace lockstep::sweep
