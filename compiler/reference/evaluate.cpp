// The reference evaluator: walks over a graph, and converts between bytes and arrays.
#include "compiler/reference/evaluate.h"

#include <cmath>
#include <unordered_map>

#include "compiler/reference/array.h"
#include "core/table/register.h"
#include "core/table/updates.h"

namespace lockstep::compiler {

namespace reference {

DenseArray make(DType dtype, Shape shape) {
  DenseArray made{dtype, std::move(shape), {}, {}};
  size_t count = made.size();
  if (made.real())
    made.f.assign(count, 0.0);
  else
    made.i.assign(count, 0);
  return made;
}

namespace {
template <class T, class E>
void widen(const HostTensor& tensor, std::vector<E>& to) {
  const T* from = tensor.data.as<T>();
  for (size_t i = 0; i < to.size(); ++i) {
    if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>)
      to[i] = static_cast<float>(from[i]);
    else
      to[i] = static_cast<E>(from[i]);
  }
}
template <class T, class E>
void narrow(const std::vector<E>& from, HostTensor& tensor) {
  T* to = tensor.data.as<T>();
  for (size_t i = 0; i < from.size(); ++i) {
    if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>)
      to[i] = T(static_cast<float>(from[i]));
    else if constexpr (std::is_same_v<T, bool>)
      to[i] = from[i] != 0;
    else
      to[i] = static_cast<T>(from[i]);
  }
}
}  // namespace

DenseArray load(const HostTensor& tensor) {
  DenseArray made = make(tensor.dtype, tensor.shape);
  switch (tensor.dtype) {
    case DType::f32:
      widen<float>(tensor, made.f);
      break;
    case DType::f64:
      widen<double>(tensor, made.f);
      break;
    case DType::bf16:
      widen<bf16>(tensor, made.f);
      break;
    case DType::f16:
      widen<f16>(tensor, made.f);
      break;
    case DType::i32:
      widen<int32_t>(tensor, made.i);
      break;
    case DType::i64:
      widen<int64_t>(tensor, made.i);
      break;
    case DType::u8:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      widen<uint8_t>(tensor, made.i);
      break;
    case DType::u16:
      widen<uint16_t>(tensor, made.i);
      break;
    case DType::u32:
      widen<uint32_t>(tensor, made.i);
      break;
    case DType::u64:
      widen<uint64_t>(tensor, made.i);
      break;
    case DType::boolean:
      widen<uint8_t>(tensor, made.i);
      break;
  }
  return made;
}

HostTensor store(const DenseArray& array, DType dtype) {
  HostTensor made = make_tensor(dtype, array.shape);
  switch (dtype) {
    case DType::f32:
      narrow<float>(array.f, made);
      break;
    case DType::f64:
      narrow<double>(array.f, made);
      break;
    case DType::bf16:
      narrow<bf16>(array.f, made);
      break;
    case DType::f16:
      narrow<f16>(array.f, made);
      break;
    case DType::i32:
      narrow<int32_t>(array.i, made);
      break;
    case DType::i64:
      narrow<int64_t>(array.i, made);
      break;
    case DType::u8:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      narrow<uint8_t>(array.i, made);
      break;
    case DType::u16:
      narrow<uint16_t>(array.i, made);
      break;
    case DType::u32:
      narrow<uint32_t>(array.i, made);
      break;
    case DType::u64:
      narrow<uint64_t>(array.i, made);
      break;
    case DType::boolean:
      narrow<bool>(array.i, made);
      break;
  }
  return made;
}

DenseArray gather(const DenseArray& in, const Shape& shape, const std::vector<int64_t>& strides,
                  int64_t offset) {
  DenseArray out = make(in.dtype, shape);
  if (out.size() == 0) return out;
  const size_t rank = shape.size();
  const int64_t inner = rank ? shape.back() : 1, step = rank ? strides.back() : 0, rows = out.size() / inner;
  auto copy = [&](const auto& from, auto& to) {
    std::vector<int64_t> index(rank, 0);
    int64_t at = offset;
    size_t next = 0;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t k = 0; k < inner; ++k) to[next++] = from[at + k * step];
      for (size_t d = rank; d-- > 1;) {  // the odometer over all dims but the last
        at += strides[d - 1];
        if (++index[d - 1] < shape[d - 1]) break;
        at -= strides[d - 1] * shape[d - 1];
        index[d - 1] = 0;
      }
    }
  };
  if (in.real())
    copy(in.f, out.f);
  else
    copy(in.i, out.i);
  return out;
}

DenseArray permuted(const DenseArray& in, const std::vector<int64_t>& order) {
  std::vector<int64_t> from = row_major_strides(in.shape), strides;
  Shape shape;
  for (int64_t d : order) {
    shape.push_back(in.shape[d]);
    strides.push_back(from[d]);
  }
  return gather(in, shape, strides);
}

namespace {
const std::unordered_map<OpId, Formula>& formulas() {
  static const auto table = [] {
    std::unordered_map<OpId, Formula> made;
    for (auto family :
         {pointwise_formulas(), creation_formulas(), view_formulas(), reduce_formulas(), composite_formulas(),
          attention_formulas(), convolution_formulas(), float8_formulas(), update_formulas()})
      for (const auto& row : family) made.emplace(row.op, row.formula);
    return made;
  }();
  return table;
}
}  // namespace

}  // namespace reference

namespace {
// A registered op: by its formula in double, or else by its expansion.
std::vector<HostTensor> evaluate_own(const OwnCode& own, const Graph& graph, const Node& node,
                                     const std::vector<HostTensor>& inputs) {
  std::vector<DoubleTensor> in;
  for (const HostTensor& input : inputs) in.push_back({input.shape, to_doubles(input)});
  std::vector<DoubleTensor> out = run_formula(own.definition, in, node.attrs);
  if (out.empty()) {
    auto builder = std::make_shared<Builder>();
    std::vector<Tensor> values;
    for (const HostTensor& input : inputs)
      values.emplace_back(builder,
                          builder->graph.add_input(InputKind::value, "in", input.dtype, input.shape));
    for (const Tensor& made : own.definition.expand({values, node.attrs, builder}))
      builder->graph.add_output(OutputKind::value, "out", made.id());
    for (const HostTensor& made : evaluate(builder->graph, inputs))
      out.push_back({made.shape, to_doubles(made)});
  }
  if (out.size() != node.outputs.size())
    throw UserError(str("[", node.op, "] ", node.at.text(), ": its formula gives ", out.size(),
                        " outputs for ", node.outputs.size()));
  std::vector<HostTensor> stored;
  for (size_t o = 0; o < out.size(); ++o) {
    if (static_cast<int64_t>(out[o].values.size()) != numel(out[o].shape))
      throw UserError(str("[", node.op, "] ", node.at.text(), ": its formula gives ", out[o].values.size(),
                          " elements for output ", o, ", which has the shape ", out[o].shape));
    stored.push_back(from_values(graph[node.outputs[o]].dtype, out[o].shape, out[o].values));
  }
  return stored;
}
}  // namespace

std::vector<HostTensor> evaluate_node(const Graph& graph, const Node& node,
                                      const std::vector<HostTensor>& inputs) {
  if (node.op == ops::fused) {
    LS_CHECK(node.body != nullptr, "[fused] ", node.at.text(), ": a fused node without a body");
    return evaluate(*node.body, inputs);
  }
  if (node.op == ops::update)  // all its tensors have one size
    return evaluate(resized(*node.body, numel(inputs.at(0).shape)), inputs);
  LS_CHECK(node.op != ops::grad, "[grad] ", node.at.text(), ": differentiate first, then evaluate");
  if (const Op* row = find_op(node.op); row && row->own) return evaluate_own(*row->own, graph, node, inputs);
  auto found = reference::formulas().find(node.op);
  LS_CHECK(found != reference::formulas().end(), "[", node.op, "] ", node.at.text(),
           ": the reference evaluator runs one rank and has no formula for this op");

  std::vector<reference::DenseArray> in;
  in.reserve(inputs.size());
  for (const auto& input : inputs) in.push_back(reference::load(input));
  std::vector<reference::DenseArray> out = found->second({node, in});
  LS_CHECK(out.size() == node.outputs.size(), "[", node.op, "] ", node.at.text(), ": ", out.size(),
           " outputs computed, ", node.outputs.size(), " declared");

  std::vector<HostTensor> stored;
  for (size_t i = 0; i < out.size(); ++i) {
    DType declared = graph[node.outputs[i]].dtype;
    LS_CHECK(declared == out[i].dtype || (declared == DType::f64 && out[i].real()), "[", node.op, "] ",
             node.at.text(), ": output ", i, " is ", shape_text(out[i].dtype, out[i].shape), ", declared ",
             name(declared));
    stored.push_back(reference::store(out[i], declared));
  }
  return stored;
}

std::vector<HostTensor> evaluate(const Graph& graph, const std::vector<HostTensor>& inputs,
                                 const CollectiveHook& collective) {
  LS_CHECK(inputs.size() == graph.inputs.size(), inputs.size(), " tensors for ", graph.inputs.size(),
           " graph inputs");
  PerValue<HostTensor> values(graph.values.size());
  PerValue<NodeId> last(graph.values.size());  // the last reader; a value is released after it
  for (NodeId n : graph.node_ids())
    for (ValueId id : graph.node(n).inputs) last[id] = n;
  for (const auto& output : graph.outputs) last[output.value] = NodeId(graph.nodes.size());

  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& want = graph[graph.inputs[i].value];
    LS_CHECK(inputs[i].dtype == want.dtype && inputs[i].shape == want.shape, "input \"", graph.inputs[i].name,
             "\" is ", shape_text(want.dtype, want.shape), ", given ",
             shape_text(inputs[i].dtype, inputs[i].shape));
    values[graph.inputs[i].value] = inputs[i];
  }
  for (NodeId n : graph.node_ids()) {
    const Node& node = graph.node(n);
    std::vector<HostTensor> in;
    for (ValueId id : node.inputs) in.push_back(values[id]);
    const bool travels = collective && op_row(node.op).of_model;
    std::vector<HostTensor> out = travels ? collective(node, in) : evaluate_node(graph, node, in);
    for (size_t i = 0; i < out.size(); ++i) {
      const Value& want = graph[node.outputs[i]];
      LS_CHECK(out[i].shape == want.shape, "[", node.op, "] ", node.at.text(), ": output ", i, " is ",
               shape_text(out[i].dtype, out[i].shape), ", declared ", shape_text(want.dtype, want.shape));
      values[node.outputs[i]] = out[i];
    }
    for (ValueId id : node.inputs)
      if (last[id] == n) values[id] = {};
  }
  std::vector<HostTensor> results;
  for (const auto& output : graph.outputs) results.push_back(values[output.value]);
  return results;
}

}  // namespace lockstep::compiler
