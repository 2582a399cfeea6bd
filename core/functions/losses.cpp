// Losses of elements and rows: the sum of the values and their number.
#include "core/functions/losses.h"

#include "core/functions/activations.h"
#include "core/functions/creation.h"
#include "core/functions/index.h"
#include "core/functions/operators.h"
#include "core/functions/pointwise.h"
#include "core/functions/reduce.h"
#include "core/functions/shape.h"
#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

namespace {
Tensor number(Tensor beside, int64_t count) {
  return full(beside, {}, static_cast<double>(count), DType::i64);
}
Loss total(Tensor values) { return {sum(values), number(values, numel(values.shape()))}; }

// A loss of two tensors of one type, computed in f32 (f64 for f64).
template <class F>
Loss of_pairs(std::string_view name, Tensor x, Tensor target, Here at, const F& values) {
  need_floats(name, {x, target}, at);
  if (x.shape() != target.shape())
    refuse(name, {x}, at, str("input is ", x.text(), ", target ", target.text(), ": one shape"));
  InFunction line(x, at);
  return total(values(rules::wide(x), rules::wide(target)));
}
Tensor nothing(Tensor like) { return full_like(like, 0); }
Tensor xlogx(Tensor x) {
  Tensor some = x > 0, none = nothing(x);
  return where(some, x * log(where(some, x, full_like(x, 1))), none);
}
// log(x) for x >= 0, at least -100.
Tensor limited_log(Tensor x) {
  Tensor some = x > 0x1p-126;
  return where(some, log(where(some, x, full_like(x, 1))), full_like(x, -100));
}

struct Rows {
  Tensor x, is_target, counts;  // logits in f32; the target's element; which rows count
};
void need_targets(std::string_view name, Tensor x, Tensor targets, const CrossEntropyOptions& options,
                  Here at, bool ignores = true) {
  need(name, {x, targets}, at);
  need_floats(name, {x}, at);
  need_ids(name, targets, at);
  Shape rows = x.shape();
  if (rows.empty() || rows.back() == 0)
    refuse(name, {x}, at, str("logits are ", x.text(), ", need [..., vocab]"));
  rows.pop_back();
  if (targets.shape() != rows)
    refuse(name, {x}, at,
           str("logits are ", x.text(), ", targets are ", targets.text(), ", need ",
               shape_text(targets.dtype(), rows)));
  if (const Tensor& w = options.weight;
      w.defined() && (!is_float(w.dtype()) || w.shape() != Shape{x.size(-1)}))
    refuse(name, {x}, at, str("weights are ", w.text(), ", need floats [", x.size(-1), "], one per class"));
  reads_by_ids(name, targets, at,
               {.count = x.size(-1),
                .of = str("a class of the logits ", x.text()),
                .wider = "logits wider",
                .ignores = ignores,
                .ignored = options.ignore_index});
}
Tensor spread(Tensor rows, Tensor like) {
  return broadcast_dims(rows, like.shape(), counted(0, rows.ndim()));
}
Rows rows_of(Tensor logits, Tensor targets, const CrossEntropyOptions& options) {
  Tensor x = rules::wide(logits);
  return {x, equal(iota(x, x.shape(), -1, targets.dtype()), spread(targets, x)),
          targets != options.ignore_index};
}
Tensor class_weights(const CrossEntropyOptions& options, Tensor x) {
  return broadcast_to(convert(options.weight, x.dtype()), x.shape());
}
Tensor at_target(const Rows& rows, Tensor values) {
  return sum(where(rows.is_target, values, nothing(values)), {-1});
}
// The loss of values [...] in the rows that count, weighted by the target's class if there are weights.
Loss weighed(const Rows& rows, Tensor values, const CrossEntropyOptions& options) {
  if (!options.weight.defined())
    return {sum(where(rows.counts, values, nothing(values))), sum(convert(rows.counts, DType::i64))};
  Tensor w = at_target(rows, class_weights(options, rows.x));
  return {sum(where(rows.counts, values, nothing(values))), sum(where(rows.counts, w, nothing(w)))};
}
// The smoothing term: -sum over classes of weight log p, divided by the number of classes.
Tensor smooth(Tensor log_p, const CrossEntropyOptions& options) {
  Tensor each = options.weight.defined() ? log_p * class_weights(options, log_p) : log_p;
  return -sum(each, {-1}) / static_cast<double>(log_p.size(-1));
}
Loss nll_of(const Rows& rows, Tensor log_p, const CrossEntropyOptions& options) {
  Tensor chosen = -at_target(rows, log_p);
  if (options.weight.defined()) chosen = chosen * at_target(rows, class_weights(options, log_p));
  if (options.smoothing > 0)
    chosen = chosen * (1 - options.smoothing) + smooth(log_p, options) * options.smoothing;
  return weighed(rows, chosen, options);
}
void need_smoothing(std::string_view name, Tensor x, const CrossEntropyOptions& options, Here at) {
  if (!(options.smoothing >= 0 && options.smoothing <= 1))
    refuse(name, {x}, at, str("smoothing is ", options.smoothing, ", needs a share between 0 and 1"));
}
}  // namespace

Loss mean_loss(Tensor values, Here at) {
  need_floats("mean_loss", {values}, at);
  InFunction line(values, at);
  return total(rules::wide(values));
}
Loss mean_loss(Tensor values, Tensor weights, Here at) {
  need_floats("mean_loss", {values}, at);
  need("mean_loss", {values, weights}, at);
  if (weights.shape() != values.shape())
    refuse("mean_loss", {values}, at,
           str("weights are ", weights.text(), " for values ", values.text(), ": one shape"));
  InFunction line(values, at);
  Tensor v = rules::wide(values),
         counts = convert(weights, is_float(weights.dtype()) ? v.dtype() : DType::i64);
  Tensor w = convert(counts, v.dtype());
  return {sum(where(w == 0, nothing(v), v * w)), sum(counts)};  // an element of weight 0 may be infinite
}

namespace {
Loss plain_cross_entropy(Tensor logits, Tensor targets, int64_t ignore_index, Here at) {
  auto out = apply(ops::cross_entropy, {logits, targets}, {{"ignore_index", ignore_index}}, at);
  return {out[0], out[1]};
}
}  // namespace
Loss cross_entropy(Tensor logits, Tensor targets, Here at) {
  return plain_cross_entropy(logits, targets, kIgnoreIndex, at);
}
Loss cross_entropy(Tensor logits, Tensor targets, const CrossEntropyOptions& options, Here at) {
  need_targets("cross_entropy", logits, targets, options, at);
  need_smoothing("cross_entropy", logits, options, at);
  if (!options.weight.defined() && options.smoothing == 0 && options.z_loss == 0)
    return plain_cross_entropy(logits, targets, options.ignore_index, at);
  InFunction line(logits, at);
  Rows rows = rows_of(logits, targets, options);
  Tensor lse = logsumexp(rows.x, {-1});
  Loss loss = nll_of(rows, rows.x - spread(lse, rows.x), options);
  if (options.z_loss != 0) loss.sum += weighed(rows, lse * lse * options.z_loss, options).sum;
  return loss;
}
Loss soft_cross_entropy(Tensor logits, Tensor probabilities, const CrossEntropyOptions& options, Here at) {
  need_floats("soft_cross_entropy", {logits, probabilities}, at);
  if (logits.ndim() == 0 || probabilities.shape() != logits.shape())
    refuse("soft_cross_entropy", {logits}, at,
           str("logits are ", logits.text(), ", probabilities ", probabilities.text(),
               ", need [..., vocab] twice"));
  need_smoothing("soft_cross_entropy", logits, options, at);
  InFunction line(logits, at);
  Tensor x = rules::wide(logits), p = rules::wide(probabilities), lse = logsumexp(x, {-1});
  Tensor log_p = x - spread(lse, x);
  if (options.smoothing > 0)
    p = p * (1 - options.smoothing) + options.smoothing / static_cast<double>(x.size(-1));
  if (options.weight.defined()) p = p * class_weights(options, x);
  Tensor values = -sum(p * log_p, {-1});
  if (options.z_loss != 0) values = values + lse * lse * options.z_loss;
  return total(values);
}
Loss nll_loss(Tensor log_probabilities, Tensor targets, const CrossEntropyOptions& options, Here at) {
  need_targets("nll_loss", log_probabilities, targets, options, at);
  InFunction line(log_probabilities, at);
  Rows rows = rows_of(log_probabilities, targets, options);
  return nll_of(rows, rows.x, {.weight = options.weight, .ignore_index = options.ignore_index});
}

Loss mse_loss(Tensor x, Tensor target, Here at) {
  return of_pairs("mse_loss", x, target, at, [](Tensor a, Tensor b) { return square(a - b); });
}
Loss l1_loss(Tensor x, Tensor target, Here at) {
  return of_pairs("l1_loss", x, target, at, [](Tensor a, Tensor b) { return abs(a - b); });
}
Loss huber_loss(Tensor x, Tensor target, double delta, Here at) {
  need("huber_loss", {x}, at);
  if (!(delta > 0)) refuse("huber_loss", {x}, at, str("delta is ", delta, ", needs a positive number"));
  return of_pairs("huber_loss", x, target, at, [&](Tensor a, Tensor b) {
    Tensor d = a - b, far = abs(d);
    return where(far < delta, d * d * 0.5, (far - delta / 2) * delta);
  });
}
Loss smooth_l1_loss(Tensor x, Tensor target, double beta, Here at) {
  need("smooth_l1_loss", {x}, at);
  if (!(beta >= 0)) refuse("smooth_l1_loss", {x}, at, str("beta is ", beta, ", needs 0 or more"));
  if (beta == 0) return l1_loss(x, target, at);
  return of_pairs("smooth_l1_loss", x, target, at, [&](Tensor a, Tensor b) {
    Tensor d = a - b, far = abs(d);
    return where(far < beta, d * d * (0.5 / beta), far - beta / 2);
  });
}
Loss binary_cross_entropy(Tensor p, Tensor target, Here at) {
  return of_pairs("binary_cross_entropy", p, target, at, [](Tensor v, Tensor t) {
    return -(t * limited_log(v) + (1.0 - t) * limited_log(1.0 - v));
  });
}
Loss binary_cross_entropy_with_logits(Tensor x, Tensor target, Tensor pos_weight, Here at) {
  return of_pairs("binary_cross_entropy_with_logits", x, target, at, [&](Tensor v, Tensor t) {
    Tensor below = softplus(-v, 1, 40);
    if (pos_weight.defined()) below = below * ((convert(pos_weight, v.dtype()) - 1.0) * t + 1.0);
    return (1.0 - t) * v + below;
  });
}
Loss soft_margin_loss(Tensor x, Tensor target, Here at) {
  return of_pairs("soft_margin_loss", x, target, at,
                  [](Tensor v, Tensor t) { return softplus(-(t * v), 1, 40); });
}
Loss hinge_embedding_loss(Tensor x, Tensor target, double margin, Here at) {
  return of_pairs("hinge_embedding_loss", x, target, at,
                  [&](Tensor v, Tensor t) { return where(t == 1, v, relu(margin - v)); });
}
Loss margin_ranking_loss(Tensor a, Tensor b, Tensor target, double margin, Here at) {
  need_floats("margin_ranking_loss", {a, b}, at);
  InFunction line(a, at);
  return of_pairs("margin_ranking_loss", rules::wide(a) - rules::wide(b),
                  convert(target, rules::statistic(a.dtype())), at,
                  [&](Tensor d, Tensor t) { return relu(margin - t * d); });
}
Loss poisson_nll_loss(Tensor x, Tensor target, bool log_input, double eps, Here at) {
  return of_pairs("poisson_nll_loss", x, target, at,
                  [&](Tensor v, Tensor t) { return log_input ? exp(v) - t * v : v - t * log(v + eps); });
}
Loss gaussian_nll_loss(Tensor x, Tensor target, Tensor variance, double eps, Here at) {
  need_floats("gaussian_nll_loss", {x, variance}, at);
  return of_pairs("gaussian_nll_loss", x, target, at, [&](Tensor a, Tensor b) {
    Tensor v = rules::wide(broadcast_to(variance, a.shape()));
    v = where(v < eps, full_like(v, eps), v);
    return (log(v) + square(a - b) / v) * 0.5;
  });
}
Loss kl_div(Tensor log_probabilities, Tensor target, bool log_target, Here at) {
  need_floats("kl_div", {log_probabilities, target}, at);
  if (log_probabilities.ndim() == 0) refuse("kl_div", {log_probabilities}, at, "input has no dim of rows");
  InFunction line(log_probabilities, at);
  Loss loss = of_pairs("kl_div", log_probabilities, target, at,
                       [&](Tensor x, Tensor t) { return log_target ? exp(t) * (t - x) : xlogx(t) - t * x; });
  return {loss.sum, number(loss.sum, log_probabilities.size(0))};
}

Loss multi_margin_loss(Tensor x, Tensor targets, int p, double margin, Here at) {
  need_targets("multi_margin_loss", x, targets, {}, at, false);
  if (p != 1 && p != 2) refuse("multi_margin_loss", {x}, at, str("p is ", p, ", needs 1 or 2"));
  InFunction line(x, at);
  Rows rows = rows_of(x, targets, {});
  Tensor over = relu(rows.x - spread(at_target(rows, rows.x), rows.x) + margin);
  Tensor others = where(rows.is_target, nothing(over), p == 1 ? over : over * over);
  return total(sum(others, {-1}) / static_cast<double>(x.size(-1)));
}
Loss cosine_embedding_loss(Tensor a, Tensor b, Tensor targets, double margin, Here at) {
  need_floats("cosine_embedding_loss", {a, b}, at);
  need("cosine_embedding_loss", {targets}, at);
  if (a.ndim() != 2 || a.shape() != b.shape() || targets.shape() != Shape{a.size(0)})
    refuse("cosine_embedding_loss", {a}, at,
           str("inputs are ", a.text(), " and ", b.text(), ", targets ", targets.text(),
               ", need [rows, n] twice and [rows]"));
  InFunction line(a, at);
  Tensor x = rules::wide(a), y = rules::wide(b);
  auto squares = [](Tensor v) { return sum(v * v, {1}) + 1e-12; };
  Tensor cosine = sum(x * y, {1}) / sqrt(squares(x) * squares(y));
  return total(where(convert(targets, cosine.dtype()) == 1, 1.0 - cosine, relu(cosine - margin)));
}
Loss triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, double margin, double p, double eps,
                         Here at) {
  need_floats("triplet_margin_loss", {anchor, positive, negative}, at);
  InFunction line(anchor, at);
  Tensor a = rules::wide(anchor), near = pairwise_distance(a, rules::wide(positive), p, eps),
         far = pairwise_distance(a, rules::wide(negative), p, eps);
  return total(relu(near - far + margin));
}
Tensor cosine_similarity(Tensor a, Tensor b, int dim, double eps, Here at) {
  need_floats("cosine_similarity", {a, b}, at);
  a = under_policy("cosine_similarity", a, at);
  InFunction line(a, at);
  Tensor x = rules::wide(a), y = rules::wide(b);
  auto length = [&](Tensor v) {
    Tensor n = norm(v, 2, {dim}, true), least = full_like(n, eps);
    return where(n < least, least, n);
  };
  return convert(sum((x / length(x)) * (y / length(y)), {dim}), a.dtype());
}
Tensor pairwise_distance(Tensor a, Tensor b, double p, double eps, Here at) {
  need_floats("pairwise_distance", {a, b}, at);
  a = under_policy("pairwise_distance", a, at);
  InFunction line(a, at);
  return convert(norm(rules::wide(a) - rules::wide(b) + eps, p, {-1}), a.dtype());
}

// ctc_loss: the forward recursion over the target with blanks between its labels, in logarithms.
namespace {
constexpr double kNever = -1e30;  // the logarithm of an impossible path; finite, so that gradients are finite

Tensor moved(Tensor alpha, int64_t by) {
  return pad(slice(alpha, 1, 0, alpha.size(1) - by), {0, by}, {0, 0}, kNever);
}
Tensor log_of_sums(Tensor a, Tensor b) {
  Tensor most = stop_gradient(maximum(a, b));
  return log(exp(a - most) + exp(b - most)) + most;
}
}  // namespace

Loss ctc_loss(Tensor log_probabilities, Tensor targets, Tensor input_lengths, Tensor target_lengths,
              int64_t blank, bool zero_infinity, Here at) {
  need_floats("ctc_loss", {log_probabilities}, at);
  for (const Tensor& ids : {targets, input_lengths, target_lengths}) need_ids("ctc_loss", ids, at);
  const Tensor& p = log_probabilities;
  if (p.ndim() != 3 || targets.ndim() != 2 || targets.size(0) != p.size(1) || targets.size(1) < 1 ||
      p.size(0) < 1 || input_lengths.shape() != Shape{p.size(1)} ||
      target_lengths.shape() != Shape{p.size(1)})
    refuse("ctc_loss", {p}, at,
           str("log-probabilities are ", p.text(), ", targets ", targets.text(), ", lengths ",
               input_lengths.text(), " and ", target_lengths.text(),
               ", need [time, batch, classes], [batch, most], [batch], [batch]"));
  if (blank < 0 || blank >= p.size(2))
    refuse("ctc_loss", {p}, at, str("blank is ", blank, ", classes are 0 ... ", p.size(2) - 1));
  InFunction line(p, at);
  const int64_t time = p.size(0), batch = p.size(1), most = targets.size(1), states = 2 * most + 1;
  // blank, label, blank, label, ..., blank; states after the end of a target are never reached.
  Tensor ids = convert(targets, DType::i32), blanks = full_like(ids, static_cast<double>(blank));
  Tensor labels = concat({reshape(stack({blanks, ids}, 2), {batch, 2 * most}), slice(blanks, 1, 0, 1)}, 1);
  labels = clamp(labels, 0, static_cast<double>(p.size(2) - 1));
  Tensor each = gather(rules::wide(p), 2, broadcast_to(unsqueeze(labels, 0), {time, batch, states}));
  // Skips the blank: from a label to the next one, if they differ.
  Tensor before = pad(slice(labels, 1, 0, states - 2), {0, 2}, {0, 0}, static_cast<double>(blank));
  Tensor skips = labels != static_cast<double>(blank) && labels != before;
  Tensor place = iota_like(labels, 1), never = full(p, {batch, states}, kNever, each.dtype());
  Tensor alpha = where(place < 2, select(each, 0, 0), never);
  Tensor lengths = broadcast_dims(convert(input_lengths, DType::i32), {batch, states}, {0});
  for (int64_t t = 1; t < time; ++t) {
    Tensor reached = log_of_sums(log_of_sums(alpha, moved(alpha, 1)), where(skips, moved(alpha, 2), never));
    alpha = where(lengths > static_cast<double>(t), reached + select(each, 0, t), alpha);
  }
  Tensor last = broadcast_dims(convert(target_lengths, DType::i32) * 2.0, {batch, states}, {0});
  auto end = [&](Tensor there) { return max(where(there, alpha, never), {1}); };
  Tensor loss = -log_of_sums(end(place == last), end(place == last - 1.0));
  if (zero_infinity) loss = where(loss > -0.5 * kNever, full_like(loss, 0), loss);
  Tensor over = convert(target_lengths, loss.dtype());
  loss = loss / where(over < 1, full_like(over, 1), over);
  return {sum(loss), full(p, {}, static_cast<double>(batch), DType::i64)};
}

}  // namespace lockstep
