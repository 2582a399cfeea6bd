// Law four: every split that a row's placement rule allows gives the unsplit result.
#include <cstring>
#include <set>

#include "compiler/laws/laws.h"
#include "compiler/laws/tolerance.h"
#include "compiler/reference/evaluate.h"
#include "core/base/error.h"
#include "core/mesh/layout.h"
#include "core/ops/localize.h"

namespace lockstep::compiler::laws {

namespace {
// Copies the elements of one index along `dim`.
void copy_element(const HostTensor& from, int64_t at, HostTensor& to, int64_t there) {
  const size_t bytes = size_of(from.dtype);
  std::memcpy(to.data.data() + static_cast<size_t>(there) * bytes,
              from.data.data() + static_cast<size_t>(at) * bytes, bytes);
}
HostTensor part_of(const HostTensor& whole, size_t dim, int64_t offset, int64_t size) {
  HostTensor part = make_tensor(whole.dtype, [&] {
    Shape shape = whole.shape;
    shape[dim] = size;
    return shape;
  }());
  const int64_t inner = row_major_strides(whole.shape)[dim];
  for (int64_t k = 0; k < part.size(); ++k) {
    int64_t from = (k / (size * inner) * whole.shape[dim] + offset) * inner + k % (size * inner);
    copy_element(whole, from, part, k);
  }
  return part;
}

void put_part(const HostTensor& part, HostTensor& whole, size_t dim, int64_t offset) {
  const int64_t inner = row_major_strides(whole.shape)[dim], size = part.shape[dim];
  for (int64_t k = 0; k < part.size(); ++k) {
    int64_t to = (k / (size * inner) * whole.shape[dim] + offset) * inner + k % (size * inner);
    copy_element(part, k, whole, to);
  }
}

// Partial terms of all ranks, added in double (int64) and rounded once.
HostTensor total_of(const std::vector<HostTensor>& terms) {
  HostTensor out = make_tensor(terms[0].dtype, terms[0].shape);
  for (int64_t k = 0; k < out.size(); ++k) {
    double real = 0;
    int64_t whole = 0;
    for (const HostTensor& term : terms) {
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

// Parts of `size` on 1, 2 and 3 ranks: even, and with only one element on the first rank.
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

// Splits one letter into these parts: evaluates each rank's part, and compares the combined result of all
// ranks with the unsplit outputs.
std::string check_split(const Case& made, const Graph& graph, const std::vector<HostTensor>& inputs,
                        const SplitRule& rule, char letter, const std::vector<int64_t>& parts, bool exact) {
  const Node& node = graph.nodes[0];
  std::vector<TypedShape> in = types_of(made.graph, node.inputs), out = types_of(graph, node.outputs);
  std::vector<HostTensor> right = evaluate_node(graph, node, inputs);
  std::vector<std::vector<HostTensor>> given;
  for (size_t r = 0, offset = 0; r < parts.size(); offset += static_cast<size_t>(parts[r]), ++r) {
    std::vector<HostTensor> local;
    std::vector<TypedShape> local_types;
    for (size_t i = 0; i < inputs.size(); ++i) {
      size_t d = rule.in[i].find(letter);
      local.push_back(d == std::string::npos ? inputs[i]
                                             : part_of(inputs[i], d, static_cast<int64_t>(offset), parts[r]));
      local_types.push_back({in[i].dtype, local.back().shape});
    }
    Node mine = node;
    mine.attrs = localize_attrs(*made.op, node.attrs, rule, out, {{letter, parts[r]}});
    given.push_back(evaluate_node(graph, mine, local));
    std::vector<TypedShape> inferred = made.op->infer({made.op->id, local_types, mine.attrs, mine.at});
    for (size_t o = 0; o < out.size(); ++o) {
      Shape shape = localize_shape(out[o].shape, rule.out[o], {{letter, parts[r]}});
      if (given.back()[o].shape != shape || inferred[o].shape != shape)
        return str("rank ", r, " has the shape ", given.back()[o].shape, " for output ", o, ", inferred ",
                   inferred[o].shape, ", its part is ", shape);
    }
  }
  for (size_t o = 0; o < out.size(); ++o) {
    size_t d = rule.out[o].find(letter);
    HostTensor together = make_tensor(out[o].dtype, out[o].shape);
    std::vector<HostTensor> terms;
    for (size_t r = 0, offset = 0; r < parts.size(); offset += static_cast<size_t>(parts[r]), ++r) {
      if (d == std::string::npos)
        terms.push_back(given[r][o]);
      else
        put_part(given[r][o], together, d, static_cast<int64_t>(offset));
    }
    if (d == std::string::npos) together = total_of(terms);
    bool same = exact || d != std::string::npos;
    if (std::string what = difference(together, right[o], same ? Tolerance{} : tolerance(right[o].dtype));
        !what.empty())
      return str("output ", o, ": ", what);
  }
  return "";
}

}  // namespace

Verdict splits_equal_whole(const Case& made, size_t* splits) {
  bool any = false;
  std::vector<TypedShape> in = types_of(made.graph, made.node().inputs),
                          out = types_of(made.graph, made.node().outputs);
  SplitRule rule = parse_split_rule(
      made.op->split ? made.op->split({made.op->id, in, made.sample.attrs, made.node().at}) : "", in, out);
  bool exact = exact_on_integers(made.op->kind);
  bool composite = made.op->kind == OpKind::composite || made.op->kind == OpKind::update;
  std::vector<HostTensor> inputs;  // whole numbers if their sums are exact; f64 if sums are rounded
  for (size_t i = 0; i < in.size(); ++i)
    inputs.push_back(exact       ? random_tensor(in[i], made.sample, 50 + i, true)
                     : composite ? widened(made.inputs[i])
                                 : made.inputs[i]);
  Graph graph = composite ? widened(made.graph) : made.graph;
  for (char letter : free_letters(rule))
    for (const auto& parts : partitions(size_of_letter(rule, in, out, letter))) {
      if (std::string what = check_split(made, graph, inputs, rule, letter, parts, exact); !what.empty())
        return str("letter ", letter, " of ", join(rule.in, ","), "->", join(rule.out, ","), " in parts ",
                   parts, ": ", what);
      any = true;
      if (splits) ++*splits;
    }
  if (!any) return {};
  return "";
}

}  // namespace lockstep::compiler::laws
