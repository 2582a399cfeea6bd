// Update rows: AdamW, SGD, and the general one with a body. The order of operations is part of the
// definition, so every backend gives the same bits.
#include "core/table/updates.h"

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ir/walk.h"
#include "core/ops/apply.h"
#include "core/ops/rules.h"

namespace lockstep {

namespace {
using namespace rules;

// `states` tensors like the parameter, then `scalars` of rank 0, all in its dtype.
auto infer_update(size_t states, std::vector<std::string> scalars, std::vector<std::string> attrs) {
  return [=](const InferContext& c) -> Types {
    expect_count(c, states + scalars.size());
    if (c.in[0].dtype != DType::f32 && c.in[0].dtype != DType::f64)
      c.fail(str("the parameter is ", in_text(c, 0), ", needs f32: masters are not rounded"));
    for (size_t i = 1; i < states; ++i) expect_like(c, 0, i);
    for (size_t i = 0; i < scalars.size(); ++i) expect_scalar(c, states + i, c.in[0].dtype, scalars[i]);
    for (const auto& name : attrs) (void)c.attrs.number(name);
    Types out(states - 1, c.in[0]);  // all but the gradient
    return out;
  };
}
Tensor over(Tensor scalar, Tensor like) { return broadcast_to(scalar, like.shape()); }

// p, g, m, v, lr, bias1, bias2, scale -> p, m, v
std::vector<Tensor> adamw_expand(const ExpandContext& c) {
  double beta1 = c.attrs.number("beta1"), beta2 = c.attrs.number("beta2");
  Tensor lr = c.in[4], bias1 = c.in[5], bias2 = c.in[6];
  Tensor g = c.in[1] * over(c.in[7], c.in[1]);
  Tensor p = c.in[0] * over(1.0 - lr * c.attrs.number("weight_decay"), c.in[0]);
  Tensor m = c.in[2] * beta1 + g * (1 - beta1);
  Tensor v = c.in[3] * beta2 + g * (1 - beta2) * g;
  Tensor root = sqrt(v) / over(sqrt(bias2), v) + c.attrs.number("eps");
  return {p - over(lr / bias1, m) * m / root, m, v};
}
// p, g, m, lr, scale -> p, m
std::vector<Tensor> sgd_expand(const ExpandContext& c) {
  Tensor g = c.in[1] * over(c.in[4], c.in[1]) + c.in[0] * c.attrs.number("weight_decay");
  Tensor m = c.in[2] * c.attrs.number("momentum") + g;
  return {c.in[0] - over(c.in[3], m) * m, m};
}
std::string split_adamw(const InferContext&) { return "...,...,...,...,,,,->...,...,..."; }
std::string split_sgd(const InferContext&) { return "...,...,...,,->...,..."; }

Types infer_body_update(const InferContext& c) {
  const std::vector<int64_t> replaces = c.attrs.list("replaces");
  Types out;
  for (int64_t i : replaces) {
    if (i == kReplacesNothing && !c.in.empty()) {
      out.push_back({DType::f32, c.in[0].shape});
      continue;
    }
    if (i < 0 || i >= static_cast<int64_t>(c.in.size()))
      c.fail(str("replaces input ", i, " of ", c.in.size()));
    const TypedShape& state = c.in[i];
    if (state.dtype != DType::f32 && state.dtype != DType::f64 && state.dtype != DType::bf16)
      c.fail(str("the state that it replaces is ", text(state), ", needs f32, or bf16 of a moment"));
    if (state.shape != c.in[0].shape)
      c.fail(str("replaces ", text(state), " with ", in_text(c, 0), " as input 0; an update has one shape"));
    out.push_back(state);
  }
  for (size_t i = 0; i < c.in.size(); ++i)
    if (!c.in[i].shape.empty() && c.in[i].shape != c.in[0].shape)
      c.fail(str("reads ", in_text(c, i), " beside ", in_text(c, 0), "; an update is element by element"));
  return out;
}
std::string split_body_update(const InferContext& c) {
  std::vector<std::string> in, out;
  for (const TypedShape& type : c.in) in.emplace_back(type.shape.empty() ? "" : "...");
  for (size_t o = 0; o < c.attrs.list("replaces").size(); ++o) out.emplace_back("...");
  return join_rule(in, out);
}

// table [rows, width], ids [n], rows [n, width] -> the table with these rows replaced. Equal ids are adjacent
// and have equal rows.
Types infer_put_rows(const InferContext& c) {
  expect_count(c, 3);
  expect_rank(c, 0, 2, "the table");
  if (c.in[0].dtype != DType::f32 && c.in[0].dtype != DType::f64)
    c.fail(str("the table is ", in_text(c, 0), ", needs f32: masters are not rounded"));
  expect_dtype(c, 1, DType::i32, "the ids");
  expect_rank(c, 1, 1, "the ids");
  const TypedShape rows{c.in[0].dtype, {c.in[1].shape[0], c.in[0].shape[1]}};
  if (c.in[2] != rows) c.fail(str("rows are ", in_text(c, 2), ", need ", text(rows)));
  return {c.in[0]};
}
std::vector<Tensor> put_rows_expand(const ExpandContext& c) {
  const Tensor table = c.in[0], ids = c.in[1];
  const int64_t n = ids.size(0), rows = table.size(0);
  Tensor first = full(ids, {n}, 1, DType::f32);  // of rows with one id
  if (n > 1)
    first = concat(
        {slice(first, 0, 0, 1), convert(slice(ids, 0, 1, n) != slice(ids, 0, 0, n - 1), DType::f32)}, 0);
  const Tensor sums = index_add(
      ids, where(broadcast_dims(first, c.in[2].shape(), {0}) > 0, c.in[2], full_like(c.in[2], 0)), rows);
  return {where(broadcast_dims(index_add(ids, first, rows), table.shape(), {0}) > 0, sums, table)};
}
Sample put_rows_sample(int64_t rows, int64_t width) {
  return integers({f32({rows, width}), i32({1}), f32({1, width})});
}

Sample adamw_sample(Shape shape, double weight_decay) {
  Types in(4, f32(std::move(shape)));
  in.insert(in.end(), 4, f32({}));
  return floats(in, {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", weight_decay}}, 0.01,
                1);
}
Sample sgd_sample(Shape shape, double momentum, double weight_decay) {
  Types in(3, f32(std::move(shape)));
  in.insert(in.end(), 2, f32({}));
  return floats(in, {{"momentum", momentum}, {"weight_decay", weight_decay}}, -1, 1);
}
}  // namespace

std::span<const Op> update_ops() {
  constexpr auto kind = OpKind::update;
  static const std::vector<Op> rows{
      {.id = ops::adamw,
       .kind = kind,
       .attrs = {{"beta1", AttrType::number},
                 {"beta2", AttrType::number},
                 {"eps", AttrType::number},
                 {"weight_decay", AttrType::number}},
       .infer = infer_update(4, {"lr", "bias1", "bias2", "scale"}, {"beta1", "beta2", "eps", "weight_decay"}),
       .split = split_adamw,
       .expand = adamw_expand,
       .samples = {adamw_sample({3, 5}, 0.1), adamw_sample({17}, 0), adamw_sample({2, 1, 7}, 0.01)}},
      {.id = ops::sgd,
       .kind = kind,
       .attrs = {{"momentum", AttrType::number}, {"weight_decay", AttrType::number}},
       .infer = infer_update(3, {"lr", "scale"}, {"momentum", "weight_decay"}),
       .split = split_sgd,
       .expand = sgd_expand,
       .samples = {sgd_sample({3, 5}, 0.9, 0.1), sgd_sample({17}, 0, 0), sgd_sample({2, 1, 7}, 0.9, 0)}},
      {.id = ops::put_rows,
       .kind = kind,
       .infer = infer_put_rows,
       .split = unsplit,
       .expand = put_rows_expand,
       .samples = {put_rows_sample(4, 5), put_rows_sample(17, 1)}},
      // Any element-wise arithmetic. It has no samples, since a sample has no body.
      {.id = ops::update,
       .kind = kind,
       .attrs = {{"replaces", AttrType::list}, {"always", AttrType::flag, true}},
       .infer = infer_body_update,
       .split = split_body_update},
  };
  return rows;
}

std::vector<int> replaced_inputs(const Node& node) {
  std::vector<int> out;
  if (node.op == ops::update)
    for (int64_t i : node.attrs.list("replaces")) out.push_back(static_cast<int>(i));
  else  // the parameter, the gradient, moments
    for (size_t o = 0; o < node.outputs.size(); ++o) out.push_back(static_cast<int>(o == 0 ? 0 : o + 1));
  return out;
}

std::vector<Tensor> apply_update(const std::vector<Tensor>& inputs, const std::vector<int64_t>& replaces,
                                 std::shared_ptr<const Graph> body, const SourceLine& at, bool always) {
  Attrs attrs{{"replaces", replaces}};
  if (always) attrs.set("always", true);
  std::vector<Tensor> made = apply_at(ops::update, inputs, attrs, at);
  inputs.at(0).builder()->graph.nodes.back().body = std::move(body);
  return made;
}

Graph resized(const Graph& body, int64_t elements) {
  Graph out;
  PerValue<ValueId> map(body.values.size(), kNoValue);
  auto shape_of = [&](ValueId v) { return body[v].shape.empty() ? Shape{} : Shape{elements}; };
  for (const auto& input : body.inputs)
    map[input.value] = out.add_input(input.kind, input.name, body[input.value].dtype, shape_of(input.value));
  for (const Node& node : body.nodes) {
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) inputs.push_back(map[v]);
    const ValueId made = node.outputs[0];
    Attrs attrs = node.attrs;
    if (attrs.has("shape")) attrs.set("shape", shape_of(made));
    map[made] = out.append(node.op, inputs, attrs, {{body[made].dtype, shape_of(made)}}, node.at)[0];
  }
  for (const auto& output : body.outputs) out.add_output(output.kind, output.name, map[output.value]);
  return out;
}

}  // namespace lockstep
