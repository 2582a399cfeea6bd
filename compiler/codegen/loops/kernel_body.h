// A body before it becomes text in any language: without the parts that do not affect its results, named, and
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
  // If the body reads parts of its inputs: per input, the offset in elements of its argument from the first
  // element. Kernels that differ only in these have one text. So the name is a hash of the text, not of the
  // body.
  std::vector<int64_t> begins;
  bool reads_parts() const { return !begins.empty(); }
  double flops() const { return plan.work * Indexer::kLanes; }
};
// InternalError naming the reason where no kernel holds the body.
KernelBody kernel_body(const Graph& body, std::string_view prefix);

// How an input of a multi-tensor body is passed: per element, once for all tensors, per tensor by value, or
// per tensor by pointer (`own`).
enum class Given { per_element, shared, per_tensor, own };
struct TensorInput {
  Given given = Given::per_element;
  int number = 0;  // position among the inputs of the same kind
};
struct TensorBody : KernelBody {
  std::vector<TensorInput> inputs;  // as the graph's
  int count(Given given) const;
  // Pointers per tensor: per-element inputs, then the tensor's own scalars, then outputs.
  int first_own() const { return count(Given::per_element); }
  int first_output() const { return first_own() + count(Given::own); }
  int columns() const { return first_output() + static_cast<int>(graph.outputs.size()); }
};
TensorBody tensor_body(const Graph& body, std::string_view prefix);

}  // namespace lockstep::compiler::codegen
