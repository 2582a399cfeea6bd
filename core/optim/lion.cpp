// Lion's rule as tensor arithmetic.
#include "core/optim/lion.h"

namespace lockstep {

namespace {
std::vector<Tensor> lion(const LionOptions& options, const RuleInput& of) {
  const auto [beta1, beta2] = options.betas;
  const Tensor lr = of.scalar("lr"), g = of.clipped(), m = of.moments[0];
  const Tensor direction = sign(m * beta1 + g * (1 - beta1));
  const Tensor p = of.p * (1.0 - lr * of.decay_of(options.weight_decay)) - lr * direction;
  return {p, m * beta2 + g * (1 - beta2)};
}
void check(const LionOptions& options, const OptionChecks& checks) {
  checks.betas(options.betas), checks.at_least_0("weight_decay", options.weight_decay);
  checks.moments(options.moments);
}
}  // namespace

Lion::Lion(Scope at, LionOptions options, std::vector<LionOptions> groups, Here line)
    : RuleOptimizer(
          at, rule_of("lion", {"exp_avg"}, std::move(options), std::move(groups), line, check, lion), line) {}

}  // namespace lockstep
