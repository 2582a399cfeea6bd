// One row of the op table and one of its samples, as a graph with values: the input of every law.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/reference/host_tensor.h"
#include "core/ops/op.h"

namespace lockstep::compiler::laws {

struct Case {
  const Op* op = nullptr;
  Sample sample;                   // as in the row, or with f32 inputs in another dtype
  std::string title;               // "layer_norm, sample 1: f32[2,8] f32[8] f32[8]"
  Graph graph;                     // one node: the row's op on graph inputs; its outputs are the graph's
  std::vector<HostTensor> inputs;  // random values as the sample says; the same in every run
  const Node& node() const { return graph.nodes[0]; }
};

// The sample with its f32 inputs as `dtype`: all of them, or else as many as the row's type rule accepts
// (statistics and scalars stay f32). nullopt if it accepts none.
std::optional<Sample> in_dtype(const Op& op, const Sample& sample, DType dtype);
Case make_case(const Op& op, size_t number, const Sample& sample);

// Whether laws apply to the row. Collectives, lanes, structural nodes and updates with a body have meaning
// only in a step of several ranks or micro-batches.
bool swept(const Op& op);
// Random values of a type for a sample; `integral`: floats are rounded to whole numbers. Deterministic in
// `seed`.
HostTensor random_tensor(const TypedShape& type, const Sample& sample, uint64_t seed, bool integral = false);
// The graph with every float value as f64, so that the evaluator does not round.
Graph widened(Graph graph);
HostTensor widened(const HostTensor& tensor);
std::vector<TypedShape> types_of(const Graph& graph, const std::vector<ValueId>& ids);
// A builder with inputs of these types, named a, b, c, ...
std::vector<Tensor> add_inputs(const std::shared_ptr<Builder>& builder, const std::vector<TypedShape>& types);

}  // namespace lockstep::compiler::laws
