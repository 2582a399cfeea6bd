// ctc_loss: the forward recursion over the target with blanks between its labels, in logarithms.
#include "core/ops/functions/activations.h"
#include "core/ops/functions/checks.h"
#include "core/ops/functions/creation.h"
#include "core/ops/functions/index.h"
#include "core/ops/functions/losses.h"
#include "core/ops/functions/operators.h"
#include "core/ops/functions/pointwise.h"
#include "core/ops/functions/reduce.h"
#include "core/ops/functions/shape.h"

namespace lockstep {

using namespace functions;

namespace {
constexpr double kNever = -1e30;  // the logarithm of a path that is not there; finite, so that gradients are

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
  // blank, label, blank, label, ..., blank; what stands behind a target is never reached.
  Tensor ids = convert(targets, DType::i32), blanks = full_like(ids, static_cast<double>(blank));
  Tensor labels = concat({reshape(stack({blanks, ids}, 2), {batch, 2 * most}), slice(blanks, 1, 0, 1)}, 1);
  labels = clamp(labels, 0, static_cast<double>(p.size(2) - 1));
  Tensor each = gather(rules::wide(p), 2, broadcast_to(unsqueeze(labels, 0), {time, batch, states}));
  // Two places on at once: from a label to another one, over the blank.
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
