// Turns samples of the op table into graphs and values.
#include "compiler/laws/case.h"

#include <bit>
#include <cmath>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/ops/apply.h"

namespace lockstep::compiler::laws {

HostTensor random_tensor(const TypedShape& type, const Sample& sample, uint64_t seed, bool integral) {
  HostTensor made = make_tensor(type.dtype, type.shape);
  for (int64_t i = 0; i < made.size(); ++i) {
    double u = (philox::bits(seed, 7, 0, static_cast<uint64_t>(i)) + 0.5) * 0x1p-32;
    double value = sample.lo + u * (sample.hi - sample.lo);
    if (is_float(type.dtype))
      made.set(i, integral ? std::nearbyint(value) : value);
    else if (type.dtype == DType::boolean)
      made.set_int_at(i, u < 0.5);
    else
      made.set_int_at(
          i, sample.int_lo + static_cast<int64_t>(u * static_cast<double>(sample.int_hi - sample.int_lo)));
  }
  return made;
}

Graph widened(Graph graph) {
  for (Value& value : graph.values)
    if (is_float(value.dtype)) value.dtype = DType::f64;
  return graph;
}
HostTensor widened(const HostTensor& tensor) {
  return is_float(tensor.dtype) ? from_values(DType::f64, tensor.shape, to_doubles(tensor)) : tensor;
}

std::vector<TypedShape> types_of(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<TypedShape> types;
  for (ValueId id : ids) types.push_back({graph[id].dtype, graph[id].shape});
  return types;
}

std::vector<Tensor> add_inputs(const std::shared_ptr<Builder>& builder,
                               const std::vector<TypedShape>& types) {
  std::vector<Tensor> made;
  for (size_t i = 0; i < types.size(); ++i)
    made.emplace_back(builder,
                      builder->graph.add_input(InputKind::value, std::string(1, static_cast<char>('a' + i)),
                                               types[i].dtype, types[i].shape));
  return made;
}

std::optional<Sample> in_dtype(const Op& op, const Sample& sample, DType dtype) {
  std::vector<size_t> places;
  for (size_t i = 0; i < sample.in.size(); ++i)
    if (sample.in[i].dtype == DType::f32) places.push_back(i);
  std::optional<Sample> best;
  int most = 0;
  for (unsigned chosen = 1; chosen < 1u << places.size(); ++chosen) {
    if (std::popcount(chosen) <= most) continue;
    Sample made = sample;
    for (size_t b = 0; b < places.size(); ++b)
      if (chosen >> b & 1) made.in[places[b]].dtype = dtype;
    try {
      op.infer({op.id, made.in, made.attrs, {}});
    } catch (const UserError&) { continue; }
    best = made;
    most = std::popcount(chosen);
  }
  return best;
}

Case make_case(const Op& op, size_t number, const Sample& sample) {
  Case made{&op, sample, str(op.id, ", sample ", number, ":"), {}, {}};
  for (const TypedShape& type : sample.in) made.title += " " + shape_text(type.dtype, type.shape);
  auto builder = std::make_shared<Builder>();
  std::vector<Tensor> in = add_inputs(builder, sample.in);
  for (const Tensor& out : apply(op.id, in, sample.attrs, Here::current(), builder))
    builder->graph.add_output(OutputKind::value, str("out", out.id()), out.id());
  made.graph = builder->graph;
  for (size_t i = 0; i < in.size(); ++i)
    made.inputs.push_back(random_tensor(sample.in[i], sample, 1000 * number + i + 1));
  return made;
}

bool swept(const Op& op) {
  return op.kind != OpKind::lanes && op.kind != OpKind::collective && op.kind != OpKind::structural &&
         op.id != ops::update;
}

}  // namespace lockstep::compiler::laws
