// RMSprop's rule as tensor arithmetic.
#include "core/optim/rmsprop.h"

namespace lockstep {

namespace {
void check(const RmspropOptions& options, const OptionChecks& checks) {
  checks.fraction("alpha", options.alpha), checks.fraction("momentum", options.momentum);
  checks.above_0("eps", options.eps), checks.at_least_0("weight_decay", options.weight_decay);
}
std::vector<Tensor> rmsprop(const RmspropOptions& options, const RuleInput& of) {
  const double decay = of.decay_of(options.weight_decay);
  const Tensor g = decay == 0 ? of.clipped() : of.clipped() + of.p * decay;
  const Tensor v = of.moments[0] * options.alpha + g * g * (1 - options.alpha);
  const Tensor m = of.moments[1] * options.momentum + g / (sqrt(v) + options.eps);
  return {of.p - of.scalar("lr") * m, v, m};
}
}  // namespace

Rmsprop::Rmsprop(Scope at, RmspropOptions options, std::vector<RmspropOptions> groups, Here line)
    : RuleOptimizer(at,
                    rule_of("rmsprop", {"square_avg", "momentum"}, std::move(options), std::move(groups),
                            line, check, rmsprop),
                    line) {}

}  // namespace lockstep
