// Law four: every split that a row's placement rule allows gives the unsplit result, on 1, 2 and 3 ranks,
// balanced and uneven.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "compiler/laws/laws.h"
#include "compiler/reference/evaluate.h"
#include "core/base/error.h"
#include "tests/support/tolerance.h"
#include "tests/sweep/cases.h"

namespace lockstep::sweep {
namespace {

// Partial terms of all ranks, added in double (int64) and rounded once.
compiler::HostTensor total(const std::vector<compiler::HostTensor>& terms) {
  compiler::HostTensor out = compiler::make_tensor(terms[0].dtype, terms[0].shape);
  for (int64_t k = 0; k < out.size(); ++k) {
    double real = 0;
    int64_t whole = 0;
    for (const compiler::HostTensor& term : terms) {
      if (is_float(out.dtype))
        real += term.at(k);
      else
        whole += term.int_at(k);
    }
    if (is_float(out.dtype))
      out.set(k, real);
    else
      out.set_int_at(k, whole);
  }
  return out;
}

TEST(Sweep, EverySplitEqualsUnsplit) {
  size_t splits = 0;
  for_each_case([&](const Case& made) { holds(made, splits_equal_whole(made, &splits)); });
  std::cout << "splits checked: " << splits << "\n";
  EXPECT_GE(splits, 300u);
}

// What lets a Partial(sum) through a node: f(a + b) = f(a) + f(b) in each linear argument alone, or in all of
// them when the row is joint.
TEST(Sweep, LinearArgumentsAreLinear) {
  size_t checked = 0;
  for_each_case([&](const Case& made) {
    std::vector<std::vector<int>> groups;
    if (made.op->joint)
      groups.push_back(made.op->linear);
    else
      for (int argument : made.op->linear) groups.push_back({argument});
    Graph graph = widened(made.graph);
    const Node& node = graph.nodes[0];
    for (const auto& group : groups) {
      std::vector<compiler::HostTensor> first, second, both;
      bool real = true;
      for (size_t i = 0; i < made.inputs.size(); ++i) {
        compiler::HostTensor a = widened(made.inputs[i]), b = a, sum = a;
        bool linear = std::find(group.begin(), group.end(), static_cast<int>(i)) != group.end();
        if (linear && !is_float(a.dtype)) real = false;
        if (linear && real) {
          b = random_tensor({DType::f64, a.shape}, made.sample, 700 + i);
          sum = compiler::make_tensor(DType::f64, a.shape);
          for (int64_t k = 0; k < a.size(); ++k) sum.set(k, a.at(k) + b.at(k));
        }
        first.push_back(a);
        second.push_back(b);
        both.push_back(sum);
      }
      if (!real) continue;
      std::vector<compiler::HostTensor> x = compiler::evaluate_node(graph, node, first),
                                        y = compiler::evaluate_node(graph, node, second),
                                        right = compiler::evaluate_node(graph, node, both);
      for (size_t o = 0; o < right.size(); ++o) {
        if (!is_float(right[o].dtype)) continue;
        EXPECT_EQ(testing::difference(total({x[o], y[o]}), right[o]), "")
            << made.title << ": not linear in arguments " << str(group) << ", output " << o;
      }
      ++checked;
    }
  });
  EXPECT_GE(checked, 20u);
}

}  // namespace
}  // namespace lockstep::sweep
