// Sums of losses as lists of terms.
#include "core/functions/loss_sums.h"

#include <algorithm>
#include <cmath>

#include "core/functions/creation.h"
#include "core/functions/lanes.h"
#include "core/functions/operators.h"
#include "core/functions/pointwise.h"
#include "core/functions/shape.h"
#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

namespace {
constexpr std::string_view kName = "loss";

Loss of_terms(std::vector<Loss> terms) {
  return terms.size() == 1 ? terms[0] : Loss{{}, {}, std::move(terms)};
}
Loss joined(const Loss& a, const Loss& b, Here at) {
  std::vector<Loss> all = terms_of(kName, a, at);
  for (const Loss& term : terms_of(kName, b, at)) all.push_back(term);
  if (all[0].sum.builder() != all.back().sum.builder())
    refuse(kName, {all[0].sum}, at, "the losses that are added belong to two steps; add those of one");
  return of_terms(std::move(all));
}
template <class F>
Loss each(const Loss& loss, Here at, const F& change) {
  std::vector<Loss> terms = terms_of(kName, loss, at);
  for (Loss& term : terms) term.sum = change(term.sum);
  return of_terms(std::move(terms));
}
void need_finite(const Loss& a, double weight, Here at) {
  if (std::isfinite(weight)) return;
  refuse(kName, {terms_of(kName, a, at)[0].sum}, at,
         str("the weight of a loss is ", weight, "; give it a finite number"));
}

// What a value of a step depends on: only values that are equal in all micro-batches, the micro-batch, or
// sums known after the last one.
enum class Known { alike, of_micro_batch, behind_the_last };
Known known(const Tensor& x) {
  const Graph& graph = x.builder()->graph;
  PerValue<Known> of(graph.values.size(), Known::alike);
  for (const auto& input : graph.inputs)
    if (input.kind == InputKind::batch || input.name == "rng.sample") of[input.value] = Known::of_micro_batch;
  for (const Node& node : graph.nodes) {
    Known most = Known::alike;
    for (ValueId v : node.inputs) most = std::max(most, of[v]);
    // A sum of counts is known before the first micro-batch, sums of floats and gradients after the last.
    const bool counts = node.op == ops::sum_lanes && !is_float(graph[node.outputs[0]].dtype);
    if (node.op == ops::sum_lanes || node.op == ops::lane_rows || node.op == ops::grad)
      most = counts && most != Known::behind_the_last ? Known::alike : Known::behind_the_last;
    for (ValueId v : node.outputs) of[v] = most;
  }
  return of[x.id()];
}

// A tensor of one element as a scalar of the loss's dtype.
Tensor scalar_of(const Tensor& given, const Tensor& beside, Here at, const char* what, const char* instead) {
  need(kName, {beside, given}, at);
  auto fail = [&](const std::string& why) { refuse(kName, {beside}, at, why); };
  if (given.builder() != beside.builder()) fail(str(what, " belongs to another step"));
  if (numel(given.shape()) != 1)
    fail(str(what, " is ", given.text(), ": ", instead, ", or reduce it to one number"));
  const Known when = known(given);
  if (when == Known::of_micro_batch)
    fail(str(what, " is ", given.text(), " and differs from micro-batch to micro-batch: ", instead));
  if (when == Known::behind_the_last)
    fail(str(what, " is ", given.text(),
             ", a sum over the micro-batches that is known after the last of them, when the gradients are "
             "made: take one that follows from weights, buffers and counts"));
  Tensor out = given.ndim() == 0 ? given : reshape(given, {}, at);
  return out.dtype() == beside.dtype() ? out : convert(out, beside.dtype(), at);
}
Tensor weight_of(const Tensor& given, const Loss& loss, Here at) {
  return scalar_of(given, terms_of(kName, loss, at)[0].sum, at, "the weight of a loss",
                   "weigh samples by mean_loss(values, weights)");
}
// A number of the step as a loss: only the step's first micro-batch contributes it, so it is added once for
// any number of micro-batches.
Loss alone(const Tensor& number, Here at) {
  const Tensor first =
      equal(scalar(number, "rng.sample", DType::i64), full(number, {}, 0, DType::i64, at), at);
  return {where(first, number, full_like(number, 0, at), at), convert(first, DType::i64, at)};
}
Loss of_tensor(const Tensor& given, const Loss& beside, Here at) {
  return alone(scalar_of(given, terms_of(kName, beside, at)[0].sum, at, "what is added to a loss",
                         "make a loss of it, mean_loss(values) or Loss{sum, count}"),
               at);
}
Loss of_number(double number, const Loss& beside, Here at) {
  need_finite(beside, number, at);
  return alone(full(terms_of(kName, beside, at)[0].sum, {}, number, DType::f32, at), at);
}
Loss negative(const Loss& a, Here at) {
  return each(a, at, [&](const Tensor& sum) { return -TensorAt(sum, at); });
}
}  // namespace

Loss operator+(LossAt a, const Loss& b) { return joined(a.loss, b, a.at); }
Loss operator-(LossAt a, const Loss& b) { return joined(a.loss, negative(b, a.at), a.at); }
Loss operator-(LossAt a) { return negative(a.loss, a.at); }
Loss& operator+=(Loss& a, LossAt b) { return a = joined(a, b.loss, b.at); }
Loss& operator-=(Loss& a, LossAt b) { return a = joined(a, negative(b.loss, b.at), b.at); }

Loss operator*(LossAt a, double weight) {
  need_finite(a.loss, weight, a.at);
  return each(a.loss, a.at, [&](const Tensor& sum) { return TensorAt(sum, a.at) * weight; });
}
Loss operator*(double weight, LossAt a) { return a * weight; }
Loss operator/(LossAt a, double weight) {
  need_finite(a.loss, 1 / weight, a.at);
  return each(a.loss, a.at, [&](const Tensor& sum) { return TensorAt(sum, a.at) / weight; });
}
Loss operator*(LossAt a, const Tensor& weight) {
  const Tensor w = weight_of(weight, a.loss, a.at);
  return each(a.loss, a.at, [&](const Tensor& sum) { return TensorAt(sum, a.at) * w; });
}
Loss operator*(const Tensor& weight, LossAt a) { return a * weight; }
Loss operator/(LossAt a, const Tensor& weight) {
  const Tensor w = weight_of(weight, a.loss, a.at);
  return each(a.loss, a.at, [&](const Tensor& sum) { return TensorAt(sum, a.at) / w; });
}

Loss operator+(LossAt a, double b) {
  return b == 0 ? of_terms(terms_of(kName, a.loss, a.at)) : joined(a.loss, of_number(b, a.loss, a.at), a.at);
}
Loss operator+(double a, LossAt b) { return b + a; }
Loss operator-(LossAt a, double b) { return a + -b; }
Loss operator-(double a, LossAt b) { return LossAt(negative(b.loss, b.at), b.at) + a; }
Loss operator+(LossAt a, const Tensor& b) { return joined(a.loss, of_tensor(b, a.loss, a.at), a.at); }
Loss operator+(const Tensor& a, LossAt b) { return b + a; }
Loss operator-(LossAt a, const Tensor& b) {
  return joined(a.loss, negative(of_tensor(b, a.loss, a.at), a.at), a.at);
}
Loss operator-(const Tensor& a, LossAt b) { return LossAt(negative(b.loss, b.at), b.at) + a; }

std::vector<Loss> terms_of(std::string_view name, const Loss& loss, Here at) {
  std::vector<Loss> all = loss.terms.empty() ? std::vector<Loss>{loss} : loss.terms;
  for (const Loss& term : all) {
    if (!term.sum.defined() || !term.count.defined())
      refuse(name, {}, at, "the loss has no sum or no count; pass what cross_entropy gives: {sum, count}");
    if (!term.sum.shape().empty() || !term.count.shape().empty())
      refuse(name, {term.sum}, at,
             str("the loss has sum ", term.sum.text(), " and count ", term.count.text(),
                 "; both must be scalars (rank 0)"));
  }
  return all;
}

Tensor mean_of_step(const Loss& loss, Here at) {
  Tensor out;
  for (const Loss& term : terms_of(kName, loss, at)) {
    const Tensor sum = sum_lanes(term.sum, at), count = sum_counts(term.count, at);
    const Tensor mean = TensorAt(sum, at) / convert(count, sum.dtype(), at);
    out = out.defined() ? TensorAt(out, at) + mean : mean;
  }
  return out;
}

}  // namespace lockstep
