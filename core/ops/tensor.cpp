// Tensor handles: how nodes enter the graph that is being traced, and the operators, which broadcast as NumPy
// does.
#include "core/ops/tensor.h"

#include "core/base/error.h"
#include "core/ops/functions.h"
#include "core/ops/op.h"
#include "core/ops/rules.h"

namespace lockstep {

namespace {
thread_local const SourceLine* living_line = nullptr;
}  // namespace

ValueId Builder::state_input(const std::string& fqn, DType dtype, const Shape& shape) {
  ValueId id = graph.find_input(fqn);
  if (id == kNoValue) return graph.add_input(InputKind::state, fqn, dtype, shape);
  if (graph[id].dtype != dtype || graph[id].shape != shape)
    throw UserError(str("state \"", fqn, "\" is used as ", shape_text(dtype, shape), " and as ",
                        shape_text(graph[id].dtype, graph[id].shape), "; give one of them another name"));
  return id;
}

ValueId Builder::scalar_input(const std::string& name, DType dtype) {
  ValueId id = graph.find_input(name);
  if (id == kNoValue) return graph.add_input(InputKind::scalar, name, dtype, {});
  if (graph[id].dtype != dtype || !graph[id].shape.empty())
    throw UserError(str("the scalar \"", name, "\" is used as ", lockstep::name(dtype), "[] and as ",
                        shape_text(graph[id].dtype, graph[id].shape),
                        "; read it with one dtype, and convert what it gives"));
  return id;
}

int64_t Tensor::size(int dim) const {
  int rank = ndim();
  if (dim < -rank || dim >= rank)
    throw UserError(str("size(", dim, ") of ", text(), ": dims are ", -rank, " .. ", rank - 1));
  return shape()[dim < 0 ? dim + rank : dim];
}

AtLine::AtLine(const SourceLine& at) : before_(living_line) { living_line = &at; }
AtLine::~AtLine() { living_line = before_; }

SourceLine source_line(const Builder& builder, Here at) {
  if (living_line) return *living_line;
  return {at.file_name(), static_cast<int>(at.line()), builder.scope};
}

std::vector<Tensor> apply_at(OpId op, const std::vector<Tensor>& inputs, const Attrs& attrs,
                             const SourceLine& at, std::shared_ptr<Builder> builder) {
  const Op& row = op_row(op);
  std::vector<TypedShape> types;
  std::vector<ValueId> ids;
  const InferContext context{op, types, attrs, at};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i];
    if (!input.defined()) context.fail(str("input ", i, " is an empty Tensor"));
    if (!builder) builder = input.builder();
    if (input.builder() != builder)
      context.fail(str("input ", i, " ", input.text(),
                       " belongs to another graph; tensors of one step cannot be kept for the next"));
    types.push_back({input.dtype(), input.shape()});
    ids.push_back(input.id());
  }
  LS_CHECK(builder != nullptr, op, " at ", at.text(), " has no inputs and no builder");
  std::vector<std::pair<DType, Shape>> made;
  for (auto& out : infer(row, context)) made.emplace_back(out.dtype, std::move(out.shape));
  std::vector<Tensor> out;
  for (ValueId id : builder->graph.append(op, ids, attrs, made, at)) out.emplace_back(builder, id);
  return out;
}

std::vector<Tensor> apply(OpId op, const std::vector<Tensor>& inputs, const Attrs& attrs, Here at,
                          std::shared_ptr<Builder> builder) {
  if (!builder)
    for (const Tensor& input : inputs)
      if (input.defined() && !builder) builder = input.builder();
  SourceLine line =
      builder ? source_line(*builder, at) : SourceLine{at.file_name(), static_cast<int>(at.line()), ""};
  auto refuse = [&](const std::string& what) {
    throw UserError(str("[", op, "] ", line.text(), ": ", what));
  };
  if (!find_op(op)) refuse(unknown_op(op));
  if (!builder && inputs.empty())
    refuse(
        "has no inputs, so the graph that it belongs to is not known; pass a builder, as tensor.builder()");
  try {
    return apply_at(op, inputs, attrs, line, builder);
  } catch (const AttrError& error) { refuse(error.what()); }
  return {};
}

Tensor apply1(OpId op, const std::vector<Tensor>& inputs, const Attrs& attrs, Here at,
              std::shared_ptr<Builder> builder) {
  auto out = apply(op, inputs, attrs, at, builder);
  if (out.size() != 1) {
    const Builder& made = *out.at(0).builder();
    throw UserError(str("[", op, "] ", source_line(made, at).text(), ": has ", out.size(),
                        " outputs; write apply() and choose one of them"));
  }
  return out[0];
}

Tensor operator+(TensorAt a, Tensor b) { return rules::binary(ops::add, a.tensor, b, a.at); }
Tensor operator-(TensorAt a, Tensor b) { return rules::binary(ops::sub, a.tensor, b, a.at); }
Tensor operator*(TensorAt a, Tensor b) { return rules::binary(ops::mul, a.tensor, b, a.at); }
Tensor operator/(TensorAt a, Tensor b) { return rules::binary(ops::div, a.tensor, b, a.at); }
Tensor operator-(TensorAt a) { return apply1(ops::neg, {a.tensor}, {}, a.at); }
Tensor operator+(TensorAt a, double b) {
  return rules::binary(ops::add, a.tensor, full_like(a.tensor, b, a.at), a.at);
}
Tensor operator-(TensorAt a, double b) {
  return rules::binary(ops::sub, a.tensor, full_like(a.tensor, b, a.at), a.at);
}
Tensor operator*(TensorAt a, double b) {
  return rules::binary(ops::mul, a.tensor, full_like(a.tensor, b, a.at), a.at);
}
Tensor operator/(TensorAt a, double b) {
  return rules::binary(ops::div, a.tensor, full_like(a.tensor, b, a.at), a.at);
}
Tensor operator+(double a, TensorAt b) {
  return rules::binary(ops::add, full_like(b.tensor, a, b.at), b.tensor, b.at);
}
Tensor operator-(double a, TensorAt b) {
  return rules::binary(ops::sub, full_like(b.tensor, a, b.at), b.tensor, b.at);
}
Tensor operator*(double a, TensorAt b) {
  return rules::binary(ops::mul, full_like(b.tensor, a, b.at), b.tensor, b.at);
}
Tensor operator/(double a, TensorAt b) {
  return rules::binary(ops::div, full_like(b.tensor, a, b.at), b.tensor, b.at);
}

}  // namespace lockstep
