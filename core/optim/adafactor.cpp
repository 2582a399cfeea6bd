// Adafactor's rule as tensor arithmetic.
#include "core/optim/adafactor.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {
using Moment = RuleGroup::Moment;

State::Scalars rates(const AdafactorOptions& options, int64_t step, int64_t update) {
  const double lr = options.lr.at(step), t = static_cast<double>(update);
  return {{"lr", lr}, {"most", 1 / std::sqrt(t)}, {"fresh", std::pow(t, options.beta2_decay)}};
}
std::vector<Moment> moments(const Parameter& parameter) {
  Shape row = parameter.shape(), col = row;
  if (row.size() < 2) return {{"variance", row}};
  row[row.size() - 1] = 1, col[col.size() - 2] = 1;
  return {{"row_var", row}, {"col_var", col}};
}
Tensor at_least(const Tensor& x, double least) { return maximum(x, full(x, x.shape(), least, x.dtype())); }
Tensor root_mean_square(const Tensor& x) {
  std::vector<int64_t> dims;
  for (int dim = 0; dim < x.ndim(); ++dim) dims.push_back(dim);
  return sqrt(sum(x * x, dims) / static_cast<double>(numel(x.shape())));
}

std::vector<Tensor> adafactor(const AdafactorOptions& options, const RuleInput& of) {
  const Tensor lr = of.scalar("lr"), fresh = of.scalar("fresh"), g = of.clipped();
  const Tensor alpha = at_least(root_mean_square(of.p), options.eps2) * minimum(lr, of.scalar("most"));
  auto mixed = [&](const Tensor& old, const Tensor& now) { return old * (1.0 - fresh) + now * fresh; };
  std::vector<Tensor> out{of.p};
  Tensor v;
  if (g.ndim() < 2) {
    v = mixed(of.moments[0], g * g);
    out.push_back(v);
  } else {
    const int last = g.ndim() - 1;
    const Tensor row = mixed(of.moments[0], mean(g * g, {last}, true));
    const Tensor col = mixed(of.moments[1], mean(g * g, {last - 1}, true));
    v = row * col / at_least(mean(row, {last - 1}, true), options.eps1);
    out.insert(out.end(), {row, col});
  }
  const Tensor u = g * rsqrt(at_least(v, options.eps1 * options.eps1));
  const Tensor rate = alpha / at_least(root_mean_square(u) / options.d, 1);
  out[0] = of.p * (1.0 - lr * of.decay_of(options.weight_decay)) - rate * u;
  return out;
}
void check(const AdafactorOptions& options, const OptionChecks& checks) {
  checks.is("beta2_decay", options.beta2_decay, options.beta2_decay <= 0, "at most 0");
  checks.is("d", options.d, options.d >= 1, "at least 1");
  checks.above_0("eps1", options.eps1), checks.at_least_0("eps2", options.eps2);
  checks.at_least_0("weight_decay", options.weight_decay), checks.clip(options.clip);
}
}  // namespace

Adafactor::Adafactor(Scope at, AdafactorOptions options, std::vector<AdafactorOptions> groups, Here line)
    : RuleOptimizer(
          at,
          [&] {
            groups.insert(groups.begin(), std::move(options));
            Rule out{.kind = "adafactor", .clip = groups[0].clip};
            if (groups[0].parameters.empty()) out.rest = 0;
            for (const AdafactorOptions& group : groups) {
              check(group, OptionChecks("adafactor", line));
              out.groups.push_back(rule_group(group, moments, adafactor, rates));
            }
            return out;
          }(),
          line) {}

}  // namespace lockstep
