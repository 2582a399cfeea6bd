// Adagrad as arithmetic.
#include "core/optim/adagrad.h"

namespace lockstep {

namespace {
void check(const AdagradOptions& options, const OptionChecks& checks) {
  checks.above_0("eps", options.eps), checks.at_least_0("weight_decay", options.weight_decay);
}
std::vector<Tensor> adagrad(const AdagradOptions& options, const RuleInput& of) {
  const double decay = of.decay_of(options.weight_decay);
  const Tensor g = decay == 0 ? of.clipped() : of.clipped() + of.p * decay;
  const Tensor s = of.moments[0] + g * g;
  return {of.p - of.scalar("lr") * (g / (sqrt(s) + options.eps)), s};
}
}  // namespace

Adagrad::Adagrad(Scope at, AdagradOptions options, std::vector<AdagradOptions> groups, Here line)
    : RuleOptimizer(at,
                    rule_of("adagrad", {"sum"}, std::move(options), std::move(groups), line, check, adagrad),
                    line) {}

}  // namespace lockstep
