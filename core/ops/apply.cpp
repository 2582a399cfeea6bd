// Appends nodes: their rows infer the types, and errors name the user's line.
#include "core/ops/apply.h"

#include "core/base/error.h"
#include "core/ops/op.h"
#include "core/ops/precision.h"

namespace lockstep {

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

std::vector<Tensor> apply_again(const Node& node, const std::vector<Tensor>& inputs,
                                std::shared_ptr<Builder> builder) {
  if (!builder && !inputs.empty()) builder = inputs[0].builder();
  auto out = apply_at(node.op, inputs, node.attrs, node.at, builder);
  builder->graph.nodes.back().body = node.body;
  return out;
}

std::vector<Tensor> apply(OpId op, const std::vector<Tensor>& inputs, const Attrs& attrs, Here at,
                          std::shared_ptr<Builder> builder) {
  if (!builder)
    for (const Tensor& input : inputs)
      if (input.defined() && !builder) builder = input.builder();
  SourceLine line = builder ? source_line(*builder, at) : line_of(at);
  auto refuse = [&](const std::string& what) {
    throw UserError(str("[", op, "] ", line.text(), ": ", what));
  };
  if (!find_op(op)) refuse(unknown_op(op));
  if (!builder && inputs.empty())
    refuse(
        "has no inputs, so the graph that it belongs to is not known; pass a builder, as tensor.builder()");
  try {
    return apply_at(op, under_policy(op.name(), inputs, line), attrs, line, builder);
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

}  // namespace lockstep
