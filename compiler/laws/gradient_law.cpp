// Law three: gradients, and their gradients, equal finite differences.
#include "compiler/autodiff/autodiff.h"
#include "compiler/laws/laws.h"
#include "compiler/laws/tolerance.h"
#include "compiler/reference/evaluate.h"
#include "core/base/error.h"
#include "core/functions/functions.h"

namespace lockstep::compiler::laws {

namespace {

double inner(const HostTensor& a, const HostTensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i) sum += a.at(i) * b.at(i);
  return sum;
}

struct Gradient {
  Graph graph;             // node 0 is the op; outputs: the gradients that exist
  std::vector<size_t> of;  // the op input for each graph output
};

// Outputs that have gradients: floats that are not statistics.
std::vector<size_t> moving_outputs(const Case& made) {
  std::vector<size_t> moving;
  std::vector<TypedShape> out = types_of(made.graph, made.node().outputs);
  for (size_t o = 0; o + static_cast<size_t>(made.op->statistics) < out.size(); ++o)
    if (is_float(out[o].dtype)) moving.push_back(o);
  return moving;
}

Gradient differentiate(const Case& made, const std::vector<bool>& wants) {
  auto builder = std::make_shared<Builder>();
  std::vector<Tensor> in = add_inputs(builder, made.sample.in);
  std::vector<Tensor> out = apply(made.op->id, in, made.sample.attrs, Here::current(), builder);
  std::vector<Tensor> cotangents(out.size());
  for (size_t o : moving_outputs(made))
    cotangents[o] = Tensor(builder, builder->graph.add_input(InputKind::value, str("cotangent", o),
                                                             out[o].dtype(), out[o].shape()));
  std::vector<Tensor> grads = made.op->vjp({in, out, cotangents, wants, made.sample.attrs});
  if (grads.size() != in.size())
    throw UserError(str("the gradient rule gives ", grads.size(), " tensors for ", in.size(), " inputs"));
  Gradient result;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined() || !wants[i]) continue;
    if (grads[i].text() != in[i].text())
      throw UserError(
          str("the gradient of input ", i, " is ", grads[i].text(), ", the input ", in[i].text()));
    builder->graph.add_output(OutputKind::value, "", grads[i].id());
    result.of.push_back(i);
  }
  verify(builder->graph, "vjp");
  result.graph = widened(builder->graph);
  return result;
}

// A central difference of fourth order of the outputs, weighted by random cotangents, at `at` along
// `direction`.
double slope(const Graph& graph, const std::vector<HostTensor>& at, const std::vector<HostTensor>& direction,
             const std::vector<size_t>& moving, const std::vector<HostTensor>& cotangents) {
  auto loss = [&](double step) {
    std::vector<HostTensor> moved = at;
    for (size_t i = 0; i < at.size(); ++i) {
      if (!is_float(at[i].dtype)) continue;
      moved[i] = make_tensor(DType::f64, at[i].shape);
      for (int64_t k = 0; k < at[i].size(); ++k) moved[i].set(k, at[i].at(k) + step * direction[i].at(k));
    }
    std::vector<HostTensor> ran = evaluate_node(graph, graph.nodes[0], moved);
    double sum = 0;
    for (size_t m = 0; m < moving.size(); ++m) sum += inner(ran[moving[m]], cotangents[m]);
    return sum;
  };
  const double h = 1e-4;
  return (8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h);
}

// A central difference of fourth order of the graph's number, at `at`, while the inputs `ids` move along
// `direction`.
double slope_of_sum(const Graph& graph, const std::vector<ValueId>& ids, const std::vector<HostTensor>& at,
                    const std::vector<HostTensor>& direction) {
  auto value = [&](double step) {
    std::vector<HostTensor> moved = at;
    for (size_t r = 0; r < ids.size(); ++r)
      for (size_t i = 0; i < graph.inputs.size(); ++i)
        if (graph.inputs[i].value == ids[r]) {
          // A copy, because copies of a tensor share its elements.
          moved[i] = make_tensor(DType::f64, at[i].shape);
          for (int64_t k = 0; k < at[i].size(); ++k) moved[i].set(k, at[i].at(k) + step * direction[r].at(k));
        }
    return evaluate(graph, moved)[0].at(0);
  };
  const double h = 1e-4;
  return (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h);
}

}  // namespace

Verdict gradient_equals_difference(const Case& made, bool integral) {
  std::vector<size_t> moving = moving_outputs(made);
  // Intentionally without a gradient.
  if (!made.op->vjp || moving.empty() || made.op->id == ops::stop_gradient) return {};
  std::vector<bool> wants;
  for (const TypedShape& type : made.sample.in) wants.push_back(is_float(type.dtype));
  Gradient gradient = differentiate(made, wants);
  const Node& node = gradient.graph.nodes[0];
  const Sample unit{{}, {}, -1, 1, 0, 1};
  std::vector<TypedShape> out = types_of(gradient.graph, node.outputs),
                          in = types_of(gradient.graph, node.inputs);
  std::vector<HostTensor> cotangents, at, direction;
  for (size_t o : moving) cotangents.push_back(random_tensor(out[o], unit, 91 + o));
  for (size_t i = 0; i < in.size(); ++i) {
    at.push_back(is_float(in[i].dtype) ? random_tensor(in[i], made.sample, 17 * i + 3, integral)
                                       : made.inputs[i]);
    direction.push_back(random_tensor(in[i], unit, 400 + i));
  }
  double right = slope(gradient.graph, at, direction, moving, cotangents);

  std::vector<HostTensor> inputs = at;
  inputs.insert(inputs.end(), cotangents.begin(), cotangents.end());
  std::vector<HostTensor> grads = evaluate(gradient.graph, inputs);
  double given = 0;
  for (size_t i = 0; i < grads.size(); ++i) given += inner(grads[i], direction[gradient.of[i]]);
  if (!near(given, right, difference_tolerance()))
    return str("vjp ", number_text(given), ", finite difference ", number_text(right));

  for (size_t i = 0; i < grads.size(); ++i) {  // a gradient is the same if it is the only one requested
    Gradient alone = differentiate(made, [&] {
      std::vector<bool> one(in.size(), false);
      one[gradient.of[i]] = true;
      return one;
    }());
    std::vector<HostTensor> ran = evaluate(alone.graph, inputs);
    if (ran.size() != 1 || !same_bytes(ran[0], grads[i]))
      return str("the gradient of input ", gradient.of[i], " alone differs from that among all");
  }
  return "";
}

// Takes sum(gradients times random weights) as a function of the op's inputs and of the incoming gradients.
// Compares its gradient, by autodiff over the first gradient, with a finite difference.
Verdict second_gradient_equals_difference(const Case& made) {
  std::vector<size_t> moving = moving_outputs(made);
  if (!made.op->vjp || moving.empty() || made.op->id == ops::stop_gradient) return {};
  auto builder = std::make_shared<Builder>();
  std::vector<Tensor> in = add_inputs(builder, made.sample.in);
  std::vector<Tensor> out = apply(made.op->id, in, made.sample.attrs, Here::current(), builder), roots;
  std::vector<HostTensor> at;
  for (size_t i = 0; i < in.size(); ++i) {
    at.push_back(is_float(in[i].dtype()) ? random_tensor({DType::f64, in[i].shape()}, made.sample, 17 * i + 3)
                                         : made.inputs[i]);
    if (is_float(in[i].dtype())) roots.push_back(in[i]);
  }
  const Sample unit{{}, {}, -1, 1, 0, 1};
  std::vector<Tensor> cotangents(out.size());
  for (size_t o : moving) {
    cotangents[o] = Tensor(builder, builder->graph.add_input(InputKind::value, str("cotangent", o),
                                                             out[o].dtype(), out[o].shape()));
    roots.push_back(cotangents[o]);
    at.push_back(random_tensor({DType::f64, out[o].shape()}, unit, 91 + o));
  }
  std::vector<bool> wants;
  for (const Tensor& x : in) wants.push_back(is_float(x.dtype()));
  std::vector<Tensor> grads = made.op->vjp({in, out, cotangents, wants, made.sample.attrs});
  Tensor total;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined() || !wants[i]) continue;
    Tensor weight(builder, builder->graph.add_input(InputKind::value, str("weight", i), grads[i].dtype(),
                                                    grads[i].shape()));
    at.push_back(random_tensor({DType::f64, weight.shape()}, unit, 700 + i));
    Tensor part = sum(convert(grads[i] * weight, DType::f64));
    total = total.defined() ? total + part : part;
  }
  if (!total.defined()) return {};
  std::vector<ValueId> ids;
  for (const Tensor& root : roots) ids.push_back(root.id());
  Graph once = builder->graph;
  once.add_output(OutputKind::value, "total", total.id());
  once = widened(std::move(once));
  std::vector<Tensor> second = compiler::vjp_graph(builder, total.id(), full_like(total, 1), ids);
  std::vector<size_t> of;
  for (size_t i = 0; i < second.size(); ++i)
    if (second[i].defined()) {
      builder->graph.add_output(OutputKind::value, "", second[i].id());
      of.push_back(i);
    }
  verify(builder->graph, "the second gradient");
  const Graph twice = widened(builder->graph);

  std::vector<HostTensor> direction;  // per root
  for (size_t r = 0; r < roots.size(); ++r)
    direction.push_back(random_tensor({DType::f64, roots[r].shape()}, unit, 400 + r));
  const double right = slope_of_sum(once, ids, at, direction);
  double given = 0;
  const std::vector<HostTensor> ran = evaluate(twice, at);
  for (size_t i = 0; i < ran.size(); ++i) given += inner(ran[i], direction[of[i]]);
  if (!near(given, right, difference_tolerance()))
    return str("second gradient ", number_text(given), ", finite difference ", number_text(right));
  return "";
}

}  // namespace lockstep::compiler::laws
