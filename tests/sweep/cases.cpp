// Samples of the op table, made into graphs and values.
#include "tests/sweep/cases.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/philox.h"

namespace lockstep::sweep {

HostTensor random_tensor(const TypedShape& type, const Sample& sample, uint64_t seed, bool integral) {
  HostTensor made = make_tensor(type.dtype, type.shape);
  for (int64_t i = 0; i < made.size(); ++i) {
    double u = (philox::bits(seed, 7, 0, static_cast<uint64_t>(i)) + 0.5) * 0x1p-32;
    double value = sample.lo + u * (sample.hi - sample.lo);
    if (is_float(type.dtype)) made.set(i, integral ? std::nearbyint(value) : value);
    else if (type.dtype == DType::boolean) made.set_int_at(i, u < 0.5);
    else made.set_int_at(i, sample.int_lo + static_cast<int64_t>(u * static_cast<double>(sample.int_hi - sample.int_lo)));
  }
  return made;
}

Graph widened(Graph graph) {
  for (Value& value : graph.values)
    if (is_float(value.dtype)) value.dtype = DType::f64;
  return graph;
}
HostTensor widened(const HostTensor& tensor) { return is_float(tensor.dtype) ? from_values(DType::f64, tensor.shape, to_doubles(tensor)) : tensor; }

std::vector<TypedShape> types_of(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<TypedShape> types;
  for (ValueId id : ids) types.push_back({graph[id].dtype, graph[id].shape});
  return types;
}

std::vector<Tensor> add_inputs(const std::shared_ptr<Builder>& builder, const std::vector<TypedShape>& types) {
  std::vector<Tensor> made;
  for (size_t i = 0; i < types.size(); ++i)
    made.emplace_back(builder, builder->graph.add_input(InputKind::value, std::string(1, static_cast<char>('a' + i)), types[i].dtype, types[i].shape));
  return made;
}

Case make_case(const Op& op, size_t number) {
  Case made;
  made.op = &op;
  made.sample = &op.samples[number];
  made.title = str(op.name, ", sample ", number, ":");
  for (const TypedShape& type : made.sample->in) made.title += " " + shape_text(type.dtype, type.shape);
  auto builder = std::make_shared<Builder>();
  std::vector<Tensor> in = add_inputs(builder, made.sample->in);
  for (const Tensor& out : apply(std::string(op.name), in, made.sample->attrs, Here::current(), builder)) builder->graph.add_output(OutputKind::value, str("out", out.id()), out.id());
  made.graph = builder->graph;
  for (size_t i = 0; i < in.size(); ++i) made.inputs.push_back(random_tensor(made.sample->in[i], *made.sample, 1000 * number + i + 1));
  return made;
}

bool swept(const Op& op) { return op.kind != OpKind::lanes && op.kind != OpKind::collective && op.kind != OpKind::structural; }

void for_each_case(const std::function<void(const Case&)>& law) {
  for (const Op* op : all_ops()) {
    if (!swept(*op)) continue;
    for (size_t i = 0; i < op->samples.size(); ++i) {
      std::string title = str(op->name, ", sample ", i);
      try {
        Case made = make_case(*op, i);
        title = made.title;
        law(made);
      } catch (const std::exception& error) {
        ADD_FAILURE() << title << ": " << error.what();
      }
    }
  }
}

}  // namespace lockstep::sweep
