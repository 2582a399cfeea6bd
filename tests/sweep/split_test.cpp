// Law four: every split that a row's placement rule allows gives the unsplit result, on 1, 2 and 3 ranks,
// balanced and uneven.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "compiler/reference/evaluate.h"
#include "core/base/error.h"
#include "core/mesh/layout.h"
#include "core/ops/localize.h"
#include "tests/support/tolerance.h"
#include "tests/sweep/cases.h"

namespace lockstep::sweep {
namespace {

// Elements [offset, offset + size) along `dim`.
compiler::HostTensor part_of(const compiler::HostTensor& whole, size_t dim, int64_t offset, int64_t size) {
  compiler::HostTensor part = compiler::make_tensor(whole.dtype, [&] {
    Shape shape = whole.shape;
    shape[dim] = size;
    return shape;
  }());
  const int64_t inner = row_major_strides(whole.shape)[dim];
  for (int64_t k = 0; k < part.size(); ++k) {
    int64_t from = (k / (size * inner) * whole.shape[dim] + offset) * inner + k % (size * inner);
    if (is_float(whole.dtype))
      part.set(k, whole.at(from));
    else
      part.set_int_at(k, whole.int_at(from));
  }
  return part;
}

void put_part(const compiler::HostTensor& part, compiler::HostTensor& whole, size_t dim, int64_t offset) {
  const int64_t inner = row_major_strides(whole.shape)[dim], size = part.shape[dim];
  for (int64_t k = 0; k < part.size(); ++k) {
    int64_t to = (k / (size * inner) * whole.shape[dim] + offset) * inner + k % (size * inner);
    if (is_float(whole.dtype))
      whole.set(to, part.at(k));
    else
      whole.set_int_at(to, part.int_at(k));
  }
}

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

std::set<char> free_letters(const SplitRule& rule) {
  std::set<char> letters;
  for (const auto* side : {&rule.in, &rule.out})
    for (const std::string& tensor : *side)
      for (char letter : tensor)
        if (rule.fixed.find(letter) == std::string::npos) letters.insert(letter);
  return letters;
}

int64_t size_of_letter(const SplitRule& rule, const std::vector<TypedShape>& in,
                       const std::vector<TypedShape>& out, char letter) {
  for (size_t i = 0; i < in.size(); ++i)
    if (size_t d = rule.in[i].find(letter); d != std::string::npos) return in[i].shape[d];
  for (size_t i = 0; i < out.size(); ++i)
    if (size_t d = rule.out[i].find(letter); d != std::string::npos) return out[i].shape[d];
  return 0;
}

// Parts of `size` on 1, 2 and 3 ranks: balanced, and with a first rank that holds one element.
std::vector<std::vector<int64_t>> partitions(int64_t size) {
  std::vector<std::vector<int64_t>> made;
  for (int64_t ranks = 1; ranks <= 3; ++ranks) {
    std::vector<int64_t> parts;
    for (int64_t r = 0; r < ranks; ++r) parts.push_back(balanced(size, ranks, r).second);
    made.push_back(parts);
  }
  if (size > 2) {
    made.push_back({1, size - 1});
    made.push_back({1, size - 2, 1});
  }
  return made;
}

bool exact_on_integers(OpKind kind) {
  return kind == OpKind::contract || kind == OpKind::reduce || kind == OpKind::index || kind == OpKind::view;
}

// One letter over these parts: evaluates each rank's part, and compares what the ranks hold together with the
// unsplit outputs.
void check_split(const Case& made, const Graph& graph, const std::vector<compiler::HostTensor>& inputs,
                 const SplitRule& rule, char letter, const std::vector<int64_t>& parts, bool exact) {
  const Node& node = graph.nodes[0];
  std::vector<TypedShape> in = types_of(made.graph, node.inputs), out = types_of(graph, node.outputs);
  std::vector<compiler::HostTensor> right = compiler::evaluate_node(graph, node, inputs);
  std::vector<std::vector<compiler::HostTensor>> given;
  for (size_t r = 0, offset = 0; r < parts.size(); offset += static_cast<size_t>(parts[r]), ++r) {
    std::vector<compiler::HostTensor> local;
    std::vector<TypedShape> local_types;
    for (size_t i = 0; i < inputs.size(); ++i) {
      size_t d = rule.in[i].find(letter);
      local.push_back(d == std::string::npos ? inputs[i]
                                             : part_of(inputs[i], d, static_cast<int64_t>(offset), parts[r]));
      local_types.push_back({in[i].dtype, local.back().shape});
    }
    Node mine = node;
    mine.attrs = localize_attrs(*made.op, node.attrs, rule, out, {{letter, parts[r]}});
    given.push_back(compiler::evaluate_node(graph, mine, local));
    std::vector<TypedShape> inferred = made.op->infer({made.op->id, local_types, mine.attrs, mine.at});
    for (size_t o = 0; o < out.size(); ++o) {
      Shape shape = localize_shape(out[o].shape, rule.out[o], {{letter, parts[r]}});
      ASSERT_EQ(given.back()[o].shape, shape) << "rank " << r << ", output " << o;
      ASSERT_EQ(inferred[o].shape, shape) << "inferred on rank " << r << ", output " << o;
    }
  }
  for (size_t o = 0; o < out.size(); ++o) {
    size_t d = rule.out[o].find(letter);
    compiler::HostTensor together = compiler::make_tensor(out[o].dtype, out[o].shape);
    std::vector<compiler::HostTensor> terms;
    for (size_t r = 0, offset = 0; r < parts.size(); offset += static_cast<size_t>(parts[r]), ++r) {
      if (d == std::string::npos)
        terms.push_back(given[r][o]);
      else
        put_part(given[r][o], together, d, static_cast<int64_t>(offset));
    }
    if (d == std::string::npos) together = total(terms);
    bool same = exact || d != std::string::npos;
    EXPECT_EQ(testing::difference(together, right[o],
                                  same ? testing::Tolerance{} : testing::tolerance(right[o].dtype)),
              "")
        << "output " << o;
  }
}

TEST(Sweep, EverySplitEqualsUnsplit) {
  size_t splits = 0;
  for_each_case([&](const Case& made) {
    std::vector<TypedShape> in = types_of(made.graph, made.node().inputs),
                            out = types_of(made.graph, made.node().outputs);
    SplitRule rule = parse_split_rule(
        made.op->split ? made.op->split({made.op->id, in, made.sample.attrs, made.node().at}) : "", in, out);
    bool exact = exact_on_integers(made.op->kind);
    bool composite = made.op->kind == OpKind::composite || made.op->kind == OpKind::update;
    std::vector<compiler::HostTensor>
        inputs;  // whole numbers where sums of them are exact; f64 where sums are rounded
    for (size_t i = 0; i < in.size(); ++i)
      inputs.push_back(exact       ? random_tensor(in[i], made.sample, 50 + i, true)
                       : composite ? widened(made.inputs[i])
                                   : made.inputs[i]);
    Graph graph = composite ? widened(made.graph) : made.graph;
    for (char letter : free_letters(rule))
      for (const auto& parts : partitions(size_of_letter(rule, in, out, letter))) {
        SCOPED_TRACE(str(made.title, ", letter ", letter, " of ", join(rule.in, ","), "->",
                         join(rule.out, ","), " in parts ", parts));
        check_split(made, graph, inputs, rule, letter, parts, exact);
        ++splits;
      }
  });
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
