// A body before it is written, in any language: without what plays no part in what it computes, named,
// planned.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/codegen/loops/plan.h"

namespace lockstep::compiler::codegen {

struct KernelBody {
  Graph graph;            // no names, placements, unused nodes and mesh
  std::string described;  // its text
  std::string name;       // `prefix` and a hash of the text: equal structure, equal name
  Plan plan;              // of `graph`
  // Where it reads parts of its inputs: the elements by which an input's argument lies behind its first one.
  // Kernels that differ in these alone have one text, so that the name follows from the text, not from the
  // body.
  std::vector<int64_t> begins;
  bool reads_parts() const { return !begins.empty(); }
  double flops() const { return plan.work * Indexer::kLanes; }
};
// InternalError naming the reason where no kernel holds the body.
KernelBody kernel_body(const Graph& body, std::string_view prefix);

// How an input of a multi-tensor body is given: per element, once for all tensors, per tensor as a number, or
// per tensor by pointer.
enum class Given { per_element, shared, per_tensor, own };
struct TensorInput {
  Given given = Given::per_element;
  int number = 0;  // among those that are given so
};
struct TensorBody : KernelBody {
  std::vector<TensorInput> inputs;  // as the graph's
  int count(Given given) const;
  // Pointers per tensor: inputs per element, then its own scalars, then outputs.
  int first_own() const { return count(Given::per_element); }
  int first_output() const { return first_own() + count(Given::own); }
  int columns() const { return first_output() + static_cast<int>(graph.outputs.size()); }
};
TensorBody tensor_body(const Graph& body, std::string_view prefix);

}  // namespace lockstep::compiler::codegen
